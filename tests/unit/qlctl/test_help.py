"""Help is made of the tables, fits 80 columns, and comes where it was asked for."""

from __future__ import annotations

import pytest

from qlctl.commands.help import text
from qlctl.main import find, main
from qlctl.table import HANDED_OVER, VERBS


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_eighty_columns(verb: str) -> None:
    assert max(len(line) for line in text(verb).splitlines()) <= 80


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in HANDED_OVER])
def test_help_names_every_option_of_the_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    out = capsys.readouterr().out
    for option in find(verb).options:
        assert all(name in out.split("Options of every verb")[0] for name in (option.name, *option.also))
        assert option.help.split()[0] in out


def test_overview_names_every_verb() -> None:
    words = text("").split()
    assert set(VERBS) <= set(words)


def test_nothing_typed_is_a_usage_error_with_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: qlctl")


@pytest.mark.parametrize("argv", [["--help"], ["help"], ["-h"], ["help", "add"], ["--help", "add"], ["requeue", "-h"]])
def test_help_asked_for_is_on_stdout(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Usage: qlctl")
    assert captured.err == ""


def test_version_option_needs_no_daemon(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("qlctl ")
