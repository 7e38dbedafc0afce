"""argv → exit status. Every error becomes `qlctl: message` and a hint on stderr here, and nowhere else."""

from __future__ import annotations

# The C module: signal itself makes enums of every signal first, half a bare start's time.
import _signal  # type: ignore[import-not-found]
import os
import sys

from qlctl.options import GLOBALS, Arguments, check_words, closest, parse, readable
from qlctl.table import ALIASES, HANDED_OVER, VERBS
from questlined.wire.errors import InvalidInput, QuestlineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qlctl.options import Command


def main(argv: list[str] | None = None) -> int:
    """Run one command and give its exit status."""
    _signal.signal(_signal.SIGTERM, _terminated)
    try:
        # a locale that cannot write a character shows its escape instead of a traceback
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        status = dispatch(sys.argv[1:] if argv is None else argv)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        status = explain(error)
        _settle()
        return status


def _settle() -> None:
    """Give up what stdout cannot take (a pipe without reader, a full disk), else the interpreter complains at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _terminated(_number: int, _frame: object) -> None:
    raise SystemExit(143)


def dispatch(argv: list[str]) -> int:
    """Find the verb, read its arguments, run it."""
    given = Arguments()
    read = parse(argv, GLOBALS, given, to_verb=True)
    verb, rest = (argv[read], argv[read + 1 :]) if read < len(argv) else ("", [])
    if given.flag("--help") or given.flag("--version") or not verb:
        return _without_verb(given, verb)
    verb = ALIASES.get(verb, verb)
    if verb in HANDED_OVER:
        from qlctl.handover import handed_on, run_questlined

        run_questlined([*HANDED_OVER[verb], *handed_on(given), *rest])
    command, given.verb = find(verb), verb
    parse(rest, (*command.options, *GLOBALS), given)
    if given.flag("--help") or given.flag("--version"):
        return _without_verb(given, verb)
    check_words(command, given)
    return command.run(given)


def find(verb: str) -> Command:
    """The command of a verb, from its module. Raises InvalidInput with the closest verb for one there is not."""
    if verb not in VERBS:
        shown = readable("the verb", verb)
        hint = closest(shown, [*VERBS, *ALIASES, *HANDED_OVER]) or "qlctl --help lists them"
        raise InvalidInput(f"unknown verb {shown!r}", hint=hint)
    # __import__, as importlib is a package with a cost of its own
    module = __import__(f"qlctl.commands.{VERBS[verb][0]}", fromlist=["COMMANDS"])
    found: Command = module.COMMANDS[verb]
    return found


def _without_verb(given: Arguments, verb: str) -> int:
    """--version, --help, or nothing at all: then the help goes to stderr, as it was not asked for."""
    if given.flag("--version"):
        from qlctl.commands.version import CLIENT_VERSION

        print(f"qlctl {CLIENT_VERSION}")
        return 0
    from qlctl.commands.help import text

    asked = given.flag("--help")
    print(text(verb), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def explain(error: Exception) -> int:
    """Say on stderr what went wrong, and give the exit status."""
    from qlctl.output import say

    if isinstance(error, QuestlineError):
        say(error.message, error.hint)
        return error.exit_status
    if isinstance(error, BrokenPipeError):
        return 141  # whoever read our output has gone, and needs no message
    if isinstance(error, OSError):
        say(f"{error.filename}: {error.strerror}" if error.filename else f"cannot go on: {error.strerror or error}")
        return 1
    say(
        f"cannot go on: {type(error).__name__}: {str(error)[:200]} ({_place(error)})",
        "an answer that was not to be expected, or a fault of qlctl: are qlctl and questlined of one version?",
    )
    return 70


def _place(error: Exception) -> str:
    """The file and line of ours in which it showed, for whoever is told of it."""
    place, trace = "", error.__traceback__
    while trace is not None:
        _, ours, file = trace.tb_frame.f_code.co_filename.rpartition("/qlctl/")
        place = f"qlctl/{file}:{trace.tb_lineno}" if ours else place
        trace = trace.tb_next
    return place
