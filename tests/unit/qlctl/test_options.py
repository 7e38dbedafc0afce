"""The parser: options before and after the verb, values, words, and what it refuses."""

from __future__ import annotations

import os

import pytest

from qlctl.main import main
from qlctl.options import GLOBALS, Arguments, Option, parse
from questlined.wire.errors import InvalidInput

OPTIONS = (Option("--name", "NAME"), Option("--wait"), Option("--state", "S", also=("--in",), many=True), *GLOBALS)


def _parsed(*argv: str) -> Arguments:
    given = Arguments()
    parse(list(argv), OPTIONS, given)
    return given


def test_value_follows_or_stands_behind_an_equals_sign() -> None:
    assert _parsed("--name", "a").text("--name") == "a"
    assert _parsed("--name=a=b").text("--name") == "a=b"
    assert _parsed("--name=").text("--name") == ""
    assert _parsed("--name", "--wait").text("--name") == "--wait"


def test_last_value_counts_and_all_are_kept() -> None:
    given = _parsed("--state", "a", "--in=b")
    assert given.text("--state") == "b"
    assert given.many("--state") == ["a", "b"]
    assert given.many("--name") == []
    assert given.text("--name") is None


def test_words_and_options_mix_until_the_double_dash() -> None:
    given = _parsed("a", "--wait", "-", "--", "--name", "--", "-x")
    assert given.words == ["a", "-", "--name", "--", "-x"]
    assert given.flag("--wait")
    assert not given.flag("--name")


def test_reading_for_the_verb_stops_before_it() -> None:
    given = Arguments()
    assert parse(["--socket", "/s", "--json", "add", "--wait"], GLOBALS, given, to_verb=True) == 3
    assert given.text("--socket") == "/s"
    assert given.words == []


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["--nam", "x"], "unknown option --nam", "did you mean --name?"),
        (["--zzzzz=1"], "unknown option --zzzzz", "a word that starts with a dash goes after `--`"),
        (["-5"], "unknown option -5", "a word that starts with a dash goes after `--`"),
        (["--name"], "--name needs a value", "--name NAME"),
        (["--wait=yes"], "--wait takes no value", "write --wait alone"),
        (["--name=a\0b"], "--name: holds a NUL character", "remove it"),
        (["x", "caf\udce9"], "argument 2: b'caf\\xe9' is not UTF-8", "give it in UTF-8"),
        (["--name", "caf\udce9"], "--name: b'caf\\xe9' is not UTF-8", "give it in UTF-8"),
    ],
)
def test_bad_arguments_are_named(argv: list[str], message: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        _parsed(*argv)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["ad", "x"], "qlctl: unknown verb 'ad'\n  did you mean add?\n"),
        (["--jsn", "list"], "qlctl: unknown option --jsn\n  did you mean --json?\n"),
        (["show"], "qlctl: show: an argument is missing\n  qlctl show ID\n"),
        (["why", "a", "b"], "qlctl: why: too many arguments, from 'b' on\n  qlctl why ID\n"),
        (["resume", "--reason", "x"], "qlctl: unknown option --reason\n"),
    ],
)
def test_usage_errors_end_with_2_and_keep_stdout_clean(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(said)


@pytest.mark.parametrize(
    ("argv", "handed"),
    [
        (["demo", "--agent", "claude"], ["demo", "--agent", "claude"]),
        (["--json", "demo"], ["demo", "--json"]),
        (["--socket", "/s", "daemon", "--detach"], ["--socket", "/s", "--detach"]),
    ],
)
def test_verbs_of_questlined_are_handed_over_as_typed(
    argv: list[str], handed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Replaced(BaseException):
        pass

    def execv(_path: str, arguments: list[str]) -> None:
        raise Replaced(arguments)

    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Replaced) as caught:
        main(argv)
    arguments = caught.value.args[0]
    assert arguments[arguments.index("-m") + 1 :] == ["questlined", *handed]
