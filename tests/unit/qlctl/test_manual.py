"""qlctl(1) has what --help has: every verb, every option with its value, every other name, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qlctl.main import find
from qlctl.options import GLOBALS, Option
from qlctl.table import ALIASES, HANDED_OVER, VERBS

PAGE = Path(__file__).parents[3] / "man/qlctl.1"


def _typed(options: tuple[Option, ...]) -> set[tuple[str, ...]]:
    """Names and value of options, as they are typed."""
    return {(*sorted((option.name, *option.also)), option.metavar) for option in options}


def _written(section: str) -> set[tuple[str, ...]]:
    """The same, read from the page's option lists."""
    found = set()
    for line in re.findall(r"^\.It (Fl .*)$", section, re.MULTILINE):
        flags, _, metavar = line.partition(" Ar ")
        found.add((*sorted("-" + name for name in re.findall(r"Fl (\S+)", flags)), metavar))
    return found


def _verb_sections() -> dict[str, str]:
    text = PAGE.read_text().split(".Sh VERBS\n")[1].split("\n.Sh ")[0]
    return {part.split()[0]: part for part in text.split(".Ss ")[1:]}


def test_page_has_the_verbs_in_the_order_of_help() -> None:
    assert list(_verb_sections()) == list(VERBS)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in HANDED_OVER])
def test_page_has_the_options_of_a_verb(verb: str) -> None:
    assert _written(_verb_sections()[verb]) == _typed(find(verb).options)


def test_page_has_the_global_options() -> None:
    section = PAGE.read_text().split(".Sh OPTIONS\n")[1].split("\n.Sh ")[0]
    assert _written(section) == _typed(GLOBALS)


def test_page_has_the_other_names_of_verbs() -> None:
    named = {
        alias: verb
        for verb, section in _verb_sections().items()
        for alias in re.findall(r"^Also called\n\.Cm (\w+)", section, re.MULTILINE)
    }
    assert named == ALIASES


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_page_is_clean_mdoc() -> None:
    lint = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", str(PAGE)], capture_output=True, text=True, check=False
    )
    assert (lint.returncode, lint.stdout) == (0, "")
