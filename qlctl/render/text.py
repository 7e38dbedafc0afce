"""Text that is safe to show: nothing in it can move a cursor, change a title or hide a line."""

from __future__ import annotations

# Spaces and joiners that isprintable() refuses, and that real languages and emoji need.
HARMLESS = frozenset("\u00a0\u00ad\u2009\u200c\u200d\u202f\u3000")
AS_SPACE = str.maketrans("\n\t", "  ")


def clean(text: str, *, lines: bool = False) -> str:
    r"""The text with control, direction and other invisible characters as escapes such as \x1b.

    With `lines`, newlines and tabs stay; without, each becomes a space.
    """
    if text.isprintable():
        return text
    if not lines:
        text = text.replace("\r\n", "\n").translate(AS_SPACE)
    kept = HARMLESS | {"\n", "\t"} if lines else HARMLESS
    return "".join(char if char.isprintable() or char in kept else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def width(text: str) -> int:
    """Terminal columns that a cleaned text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    import unicodedata

    if unicodedata.combining(char) or char in "\u00ad\u200c\u200d":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The text if it fits, else its beginning and `...`, in at most that many columns."""
    if width(text) <= columns:
        return text
    room, taken = max(columns - 3, 0), 0
    for index, char in enumerate(text):
        taken += _columns(char)
        if taken > room:
            return text[:index] + "..."[:columns]
    return text


def cut_front(text: str, columns: int) -> str:
    """Like `cut`, but what is kept is the end, as of a path."""
    return text if width(text) <= columns else cut(text[::-1], columns)[::-1]


def pad(text: str, columns: int) -> str:
    """The text with spaces behind it, up to that many columns."""
    return text + " " * (columns - width(text))


def indent(text: str, margin: str = "    ") -> str:
    """Every line of a cleaned text behind a margin."""
    return "\n".join(margin + line for line in text.splitlines())
