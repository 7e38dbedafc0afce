"""What a new quest must be."""

from __future__ import annotations

import pytest

from questlined.core import quest
from questlined.wire.errors import InvalidInput


def refused(check: object, *arguments: object, **more: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check(*arguments, **more)  # type: ignore[operator]
    return caught.value


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u00a0"])
def test_an_empty_text_is_refused_naming_the_field(text: str) -> None:
    """White space alone is empty, too."""
    assert refused(quest.check_text, "task", text).details == {"field": "task"}


def test_a_text_that_may_be_empty_passes() -> None:
    """A context of nothing is no context."""
    assert quest.check_text("context", "", empty=True) == ""


@pytest.mark.parametrize("text", ["a\0b", "\0"])
def test_a_nul_is_refused(text: str) -> None:
    """No program can be given one."""
    error = refused(quest.check_text, "context", text, empty=True)
    assert "NUL" in error.message
    assert error.details["field"] == "context"


@pytest.mark.parametrize("text", ["ok\ud800", "\udfff"])
def test_half_a_character_is_refused(text: str) -> None:
    """A lone surrogate cannot be written as UTF-8; the message is printable."""
    error = refused(quest.check_text, "task", text)
    assert "no valid Unicode" in error.message
    error.message.encode()


@pytest.mark.parametrize("text", ["ä", "𝄞", "\ufffd", "a\nb", "--x", "\x1b[2J"])
def test_any_other_text_passes_unchanged(text: str) -> None:
    """Control characters belong to tasks."""
    assert quest.check_text("task", text) == text


@pytest.mark.parametrize("word", ["a", "build", "Review-2", "a.b_c", "0", "x" * 64])
def test_well_formed_words_pass(word: str) -> None:
    """Any such name is a role."""
    assert quest.check_word("role", word) == word


@pytest.mark.parametrize("word", ["", "-x", ".x", "_x", "a b", "a/b", "x" * 65, "ä", "a\n", "a\0", "{task}", "٣"])
def test_malformed_words_are_refused(word: str) -> None:
    """A trailing newline and foreign digits, too."""
    assert refused(quest.check_word, "role", word).details["field"] == "role"


@pytest.mark.parametrize("name", ["two\nlines", "bell\x07", "\x7f", "x" * 201, "", " "])
def test_names_are_one_printable_line(name: str) -> None:
    """Up to 200 characters."""
    assert refused(quest.check_name, name).details["field"] == "name"
    assert quest.check_name("x" * 200) == "x" * 200


@pytest.mark.parametrize("value", [quest.INTEGER_MAX + 1, -quest.INTEGER_MAX - 1, 10**30])
def test_integers_are_those_that_json_readers_hold(value: int) -> None:
    """±(2^53 − 1)."""
    assert refused(quest.check_integer, "priority", value).details["field"] == "priority"
    assert quest.check_integer("priority", quest.INTEGER_MAX) == 2**53 - 1


def test_sizes_are_bytes_of_all_texts_together() -> None:
    """The setting that bounds them is named."""
    quest.check_size("task", ("ää", None, "b"), 5, "bounds.max_task_bytes")
    error = refused(quest.check_size, "task", ("ää", "bb"), 5, "bounds.max_task_bytes")
    assert error.details == {"field": "task", "setting": "bounds.max_task_bytes"}
    assert "6 bytes" in error.message


def test_a_bound_that_is_no_setting_is_not_to_be_raised() -> None:
    error = refused(quest.check_size, "reason", ("abc",), 2, None)
    assert (error.message, error.hint) == ("reason: 3 bytes are more than 2", "shorten it")
    assert error.details == {"field": "reason"}


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("\n\n  first line \nsecond", "first line"),
        ("a\tb", "a b"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("a\x1b[2Jb", "a [2Jb"),
    ],
)
def test_a_name_is_made_of_the_first_line(task: str, name: str) -> None:
    """Without control characters, up to 60."""
    assert quest.default_name(task) == name
