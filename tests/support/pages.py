"""The manual pages, as tests read them: source text in mdoc, cut into sections and list items."""

from __future__ import annotations

import re

from tests.support.daemon import REPOSITORY

FOLDER = REPOSITORY / "man"
PAGES = sorted(FOLDER.iterdir())


def page(name: str) -> str:
    """The source of a page."""
    return (FOLDER / name).read_text()


def section(text: str, title: str) -> str:
    """What stands below `.Sh title`, up to the next section."""
    return text.split(f"\n.Sh {title}\n")[1].split("\n.Sh ", maxsplit=1)[0]


def subsections(text: str) -> dict[str, str]:
    """What stands below each `.Ss`, by the first word of its title."""
    return {part.split()[0]: part for part in text.split(".Ss ")[1:]}


def plain(source: str) -> str:
    """A piece of a line without the escapes of roff."""
    return source.replace(r"\(dq", '"').replace(r"\-", "-").replace(r"\&", "").replace(r"\e", "\\")


def options(text: str) -> set[tuple[str, ...]]:
    """The options of the lists in a section, each as its sorted names and then its value's name ("" for a flag)."""
    found = set()
    for line in re.findall(r"^\.It (Fl .*)$", text, re.MULTILINE):
        flags, _, metavar = line.partition(" Ar ")
        found.add((*sorted("-" + name for name in re.findall(r"Fl (\S+)", flags)), metavar))
    return found
