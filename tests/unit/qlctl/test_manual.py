"""qlctl(1) has what --help has: every verb, every option with its value, every other name, and nothing else."""

from __future__ import annotations

import re

import pytest

from qlctl.main import find
from qlctl.options import GLOBALS, Option
from qlctl.table import ALIASES, HANDED_OVER, VERBS
from tests.support.pages import options, page, section, subsections

PAGE = page("qlctl.1")
SECTIONS = subsections(section(PAGE, "VERBS"))


def _typed(table: tuple[Option, ...]) -> set[tuple[str, ...]]:
    """Names and value of options, as they are typed."""
    return {(*sorted((option.name, *option.also)), option.metavar) for option in table}


def test_page_has_the_verbs_in_the_order_of_help() -> None:
    assert list(SECTIONS) == list(VERBS)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in HANDED_OVER])
def test_page_has_the_options_of_a_verb(verb: str) -> None:
    assert options(SECTIONS[verb]) == _typed(find(verb).options)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in HANDED_OVER and find(verb).forms])
def test_page_has_the_commands_of_a_verb_of_two_words(verb: str) -> None:
    written = re.findall(r"^\.It Cm (\w+)(?: Ar (.*))?$", SECTIONS[verb], re.MULTILINE)
    forms = [form.removeprefix(f"{verb} ").replace("[OPTION]...", "").split() for form in find(verb).forms]
    assert [(name, words.replace(" ...", "...")) for name, words in written] == [
        (name, " ".join(words)) for name, *words in forms
    ]


def test_page_has_the_global_options() -> None:
    assert options(section(PAGE, "OPTIONS")) == _typed(GLOBALS)


def test_page_has_the_other_names_of_verbs() -> None:
    named = {
        alias: verb
        for verb, text in SECTIONS.items()
        for alias in re.findall(r"^Also called\n\.Cm (\w+)", text, re.MULTILINE)
    }
    assert named == ALIASES
