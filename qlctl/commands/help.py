"""help: made from the tables of verbs and options, for 80 columns."""

from __future__ import annotations

import textwrap

from qlctl.main import find
from qlctl.options import GLOBALS, Arguments, Command, Option
from qlctl.table import ALIASES, HANDED_OVER, VERBS

COLUMNS = 79
MARGIN = 26  # where the explanation of an option begins


def run(given: Arguments) -> int:
    """Print the help of a verb, or of qlctl."""
    print(text(given.words[0] if given.words else ""))
    return 0


def text(verb: str) -> str:
    """The help of a verb, or of qlctl for "". Raises InvalidInput for a verb there is not."""
    verb = ALIASES.get(verb, verb)
    if not verb:
        return _overview()
    if verb in HANDED_OVER:
        command = "questlined " + " ".join(HANDED_OVER[verb])
        about = f"Runs {command.strip()}, with the same arguments; `qlctl {verb} --help` shows its own help."
        return "\n".join([f"Usage: qlctl {verb} [ARGUMENT]...", "", *_wrapped(about)])
    return _verb_help(verb, find(verb))


def _overview() -> str:
    verbs = [_entry(verb, summary) for verb, (_, summary) in VERBS.items()]
    aliases = ", ".join(f"{alias} = {verb}" for alias, verb in ALIASES.items())
    return "\n".join(
        [
            "Usage: qlctl [OPTION]... VERB [ARGUMENT]...",
            "",
            *_wrapped("Drives questlined, a durable work queue for command-line coding agents."),
            "",
            *(line for entry in verbs for line in entry),
            "",
            *_wrapped(f"Other names: {aliases}, daemon = questlined."),
            "",
            "Options, before or after the verb:",
            *_option_lines(GLOBALS),
            "",
            "See qlctl VERB --help, and qlctl(1).",
        ]
    )


def _verb_help(verb: str, command: Command) -> str:
    also = [alias for alias, target in ALIASES.items() if target == verb]
    forms = command.forms or (f"{verb} [OPTION]... {command.words}".rstrip(),)
    usage = [f"{'Usage:' if at == 0 else '':<6} qlctl {form}" for at, form in enumerate(forms)]
    lines = [*usage, "", *_wrapped(command.about), ""]
    if also:
        lines += [f"Other name: {', '.join(also)}", ""]
    if command.options:
        lines += ["Options:", *_option_lines(command.options), ""]
    return "\n".join([*lines, "Options of every verb:", *_option_lines(GLOBALS)])


def _option_lines(options: tuple[Option, ...]) -> list[str]:
    return [line for option in options for line in _entry(_typed(option), option.help)]


def _typed(option: Option) -> str:
    return ", ".join((option.name, *option.also)) + (f" {option.metavar}" if option.metavar else "")


def _entry(head: str, explanation: str) -> list[str]:
    """A head and its explanation, on one line if the head is short enough."""
    lines = textwrap.wrap(explanation, COLUMNS - MARGIN, break_on_hyphens=False)
    if len(head) + 4 > MARGIN:
        return [f"  {head}", *(" " * MARGIN + line for line in lines)]
    return [f"  {head}".ljust(MARGIN) + lines[0], *(" " * MARGIN + line for line in lines[1:])]


def _wrapped(paragraph: str) -> list[str]:
    return textwrap.wrap(paragraph, COLUMNS, break_on_hyphens=False)


COMMANDS = {"help": Command(run, "[VERB]", most=1, about="Show help about qlctl, or about a verb.")}
