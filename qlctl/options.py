"""A small parser for the command line, driven by tables of options; argparse would cost more than the rest of qlctl."""

from __future__ import annotations

from questlined.wire.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Option:
    """One option: its name with dashes, its value's name ("" for a flag), one line of help, other names, repeatable."""

    __slots__ = ("also", "help", "many", "metavar", "name")

    def __init__(
        self, name: str, metavar: str = "", help: str = "", *, also: tuple[str, ...] = (), many: bool = False
    ) -> None:
        self.name, self.metavar, self.help, self.also, self.many = name, metavar, help, also, many


class Arguments:
    """What was typed: the values of options by their first name, and the words that are none."""

    __slots__ = ("options", "verb", "words")

    def __init__(self) -> None:
        self.options: dict[str, list[str]] = {}
        self.words: list[str] = []
        self.verb = ""

    def flag(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self.options

    def text(self, name: str) -> str | None:
        """The option's last value, None if it was not given."""
        return self.options[name][-1] if name in self.options else None

    def many(self, name: str) -> list[str]:
        """All values of the option, in order."""
        return self.options.get(name, [])


class Command:
    """A verb: what runs it, its words as usage shows them, how many there may be (`most` None: any), options, help, and
    the `forms` it has where there are several."""

    __slots__ = ("about", "forms", "least", "most", "options", "run", "words")

    def __init__(
        self,
        run: Callable[[Arguments], int],
        words: str = "",
        least: int = 0,
        most: int | None = 0,
        options: tuple[Option, ...] = (),
        about: str = "",
        forms: tuple[str, ...] = (),
    ) -> None:
        self.run, self.words, self.least, self.most = run, words, least, most
        self.options, self.about, self.forms = options, about, forms


GLOBALS = (
    Option("--socket", "PATH", "the daemon's socket (default: $QUESTLINED_SOCKET, else the user's, else the system's)"),
    Option("--project", "DIR|NAME", "the project: a directory (with a slash) or a name; default: where you are"),
    Option("--json", "", "print one JSON value on standard output"),
    Option("--help", "", "show help and exit", also=("-h",)),
    Option("--version", "", "print the version of qlctl and exit"),
)


def parse(argv: list[str], options: Iterable[Option], into: Arguments, *, to_verb: bool = False) -> int:
    """Read options and words of argv into `into`; with `to_verb` stop before the first word. Gives how many were read.

    `--name value`, `--name=value`; after `--` everything is a word, and `-` alone is one. Raises InvalidInput.
    """
    table = {name: option for option in options for name in (option.name, *option.also)}
    at, literal = 0, False
    while at < len(argv):
        word = argv[at]
        if literal or word == "-" or not word.startswith("-"):
            if to_verb:
                return at
            into.words.append(readable(f"argument {len(into.words) + 1}", word))
        elif word == "--":
            literal = True
        else:
            at += _option(argv, at, table, into)
        at += 1
    return at


def _option(argv: list[str], at: int, table: dict[str, Option], into: Arguments) -> int:
    """Read the option at argv[at]; gives how many more elements it took."""
    name, equals, value = argv[at].partition("=")
    option = table.get(name)
    if option is None:
        raise unknown_option(name, list(table))
    taken = 0
    if not option.metavar:
        if equals:
            raise InvalidInput(f"{name} takes no value", hint=f"write {name} alone", field=option.name)
    elif not equals:
        if at + 1 >= len(argv):
            raise InvalidInput(f"{name} needs a value", hint=f"{name} {option.metavar}", field=option.name)
        value, taken = argv[at + 1], 1
    into.options.setdefault(option.name, []).append(readable(name, value))
    return taken


def readable(where: str, text: str) -> str:
    """The text, if the wire can carry it. Python keeps bytes of argv that are no UTF-8 as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = _bytes(text)[:60]
        raise InvalidInput(f"{where}: {shown!r} is not UTF-8", hint="give it in UTF-8", field=where) from None
    if "\0" in text:
        raise InvalidInput(f"{where}: holds a NUL character", hint="remove it", field=where)
    return text


def _bytes(text: str) -> bytes:
    """The bytes behind a text with lone surrogates: those typed, or for one out of a JSON escape the escape."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def unknown_option(name: str, known: list[str]) -> InvalidInput:
    """The error for an option that is none, with the closest that is."""
    shown = readable("an option", name)
    hint = closest(shown, known) or "a word that starts with a dash goes after `--`"
    return InvalidInput(f"unknown option {shown}", hint=hint, field=shown)


def closest(word: str, known: list[str]) -> str:
    """`did you mean X?`, or nothing if no known word is near."""
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {near[0]}?" if near else ""


def check_words(command: Command, given: Arguments) -> None:
    """Refuse too few or too many words, with the usage."""
    usage = f"qlctl {given.verb} {command.words}".rstrip()
    count = len(given.words)
    if count < command.least:
        raise InvalidInput(f"{given.verb}: an argument is missing", hint=usage)
    if command.most is not None and count > command.most:
        extra = given.words[command.most]
        quoting = " (a task of several words wants quotes)" if given.verb == "add" else ""
        raise InvalidInput(f"{given.verb}: too many arguments, from {extra[:40]!r} on{quoting}", hint=usage)
