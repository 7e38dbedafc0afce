"""Placeholders are filled in one pass; what came in stays text."""

from __future__ import annotations

import re

import pytest

from questlined.core.prompts import (
    ARGUMENT_MAX,
    PLACEHOLDERS,
    TOTAL_MAX,
    fill,
    oversized,
    task_text,
    unknown_placeholders,
    used_placeholders,
)

AWKWARD = [
    "{context}",
    "{task}",
    "{{task}}",
    "$$ $& $1 \\1 \\g<0>",
    "{}",
    "{0} {!r} %s %(x)s",
    "$(touch x) `touch x` ; & | > <",
    "'\"\\",
    "-leading --dashes",
    "two\nlines\r\n\ttabs",
    "ä€𝄞",
    "{ task } {Task} {task",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_a_task_arrives_as_it_came(text: str) -> None:
    """Whatever it holds: placeholders, template signs, quotes, dashes."""
    values = dict.fromkeys(PLACEHOLDERS, "WRONG") | {"task": text}
    assert fill(["agent", "-p", "{task}", "x{task}y{task}"], values) == ["agent", "-p", text, f"x{text}y{text}"]


def test_a_value_is_never_expanded_again() -> None:
    """Not in whatever order placeholders stand."""
    values = dict.fromkeys(PLACEHOLDERS, "") | {"task": "{context}", "context": "{task}"}
    assert fill(["{task}{context}", "{context}{task}"], values) == ["{context}{task}", "{task}{context}"]


@pytest.mark.parametrize("name", sorted(PLACEHOLDERS))
def test_every_placeholder_is_filled(name: str) -> None:
    """By its own value."""
    assert fill([f"<{{{name}}}>"], {each: f"value of {each}" for each in PLACEHOLDERS}) == [f"<value of {name}>"]


@pytest.mark.parametrize("text", ["{}", "{0}", "{Task}", "{ task }", "${HOME}", "{a-b}", "awk '{print $1}'", "{", "}"])
def test_other_braces_are_text(text: str) -> None:
    """A command of awk or jq needs no escapes."""
    assert unknown_placeholders([text]) == []
    assert fill([text], dict.fromkeys(PLACEHOLDERS, "x")) == [text]


def test_unknown_placeholders_are_named_in_order() -> None:
    """So that a config error can say which."""
    assert unknown_placeholders(["{tusk}", "{task}", "a{id}{no}"]) == ["tusk", "no"]


def test_used_placeholders_are_those_in_the_command() -> None:
    """Wherever in an argument they stand."""
    assert used_placeholders(["a", "{task_file}", "--x={role}"]) == {"task_file", "role"}


def test_context_follows_the_task_after_an_empty_line() -> None:
    """Without any, the task stands alone."""
    assert task_text("do it", "mind the gap") == "do it\n\nContext:\nmind the gap"
    assert task_text("do it", None) == task_text("do it", "") == "do it"


@pytest.mark.parametrize("letter", ["x", "é", "€", "𝄞"])
def test_an_argument_is_measured_in_bytes(letter: str) -> None:
    """131,071 pass, one more is refused, with both numbers."""
    width = len(letter.encode())
    fits = letter * (ARGUMENT_MAX // width) + "x" * (ARGUMENT_MAX % width)
    assert oversized(["agent", fits], {}) is None
    refused = oversized(["agent", fits + "x"], {})
    assert refused is not None
    assert re.findall(r"\d+", refused) == ["131072", "131071"]


def test_argv_and_environment_together_have_a_bound() -> None:
    """Many arguments that fit one by one may not fit together."""
    many = ["x" * ARGUMENT_MAX] * (TOTAL_MAX // ARGUMENT_MAX + 1)
    assert oversized(many[:10], {}) is None
    assert "argv and environment" in (oversized(many, {}) or "")
    assert "argv and environment" in (oversized(many[:10], {"BIG": "x" * (TOTAL_MAX - 10 * ARGUMENT_MAX)}) or "")
