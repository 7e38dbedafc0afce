"""Verbs of two words, as `recurring add`: the first argument says which command it is."""

from __future__ import annotations

from qlctl.options import Arguments, Command, Option, check_words, closest
from questlined.wire.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def family(verb: str, commands: dict[str, Command], about: str) -> Command:
    """The verb as one command, with the options of all."""
    options: dict[str, Option] = {}
    for command in commands.values():
        options |= {option.name: option for option in command.options}
    forms = tuple(f"{verb} {name} [OPTION]... {command.words}".rstrip() for name, command in commands.items())
    words = f"{'|'.join(commands)} [ARGUMENT]..."
    return Command(_chosen(verb, commands), words, 1, None, tuple(options.values()), about, forms)


def _chosen(verb: str, commands: dict[str, Command]) -> Callable[[Arguments], int]:
    def run(given: Arguments) -> int:
        name, *given.words = given.words
        command = commands.get(name)
        if command is None:
            hint = closest(name, list(commands)) or f"one of: {', '.join(commands)}"
            raise InvalidInput(f"{verb}: there is no {name[:40]!r}", hint=hint, field=verb)
        given.verb = f"{verb} {name}"
        _check_options(command, given)
        check_words(command, given)
        return command.run(given)

    return run


def _check_options(command: Command, given: Arguments) -> None:
    """Refuse options of the verb's other commands."""
    from qlctl.options import GLOBALS

    known = {option.name for option in (*command.options, *GLOBALS)}
    for name in given.options:
        if name not in known:
            raise InvalidInput(
                f"{given.verb} takes no {name}", hint=f"qlctl {given.verb.split()[0]} --help lists them", field=name
            )
