"""questlined(8) has what --help has: every command, every option with its value, and nothing else."""

from __future__ import annotations

import argparse
import re

import pytest

from questlined.arguments import parser
from questlined.sysd.messages import MESSAGE_IDS
from questlined.wire import errors
from tests.support.pages import options, page, section, subsections

PAGE = page("questlined.8")


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command that --help names."""
    (found,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    named = {choice.dest for choice in found._choices_actions}
    return {name: command for name, command in found.choices.items() if name in named}


def typed(command: argparse.ArgumentParser) -> set[tuple[str, ...]]:
    """Names and value of the options that a command shows in its help, as they are typed."""
    shown = [action for action in command._actions if action.option_strings and action.help != argparse.SUPPRESS]
    return {(*sorted(action.option_strings), str(action.metavar or "")) for action in shown}


def test_the_page_has_the_commands_in_the_order_of_help() -> None:
    assert list(subsections(section(PAGE, "COMMANDS"))) == list(commands())


@pytest.mark.parametrize("name", commands())
def test_the_page_has_the_options_of_a_command(name: str) -> None:
    assert options(subsections(section(PAGE, "COMMANDS"))[name]) == typed(commands()[name]) - {("--help", "-h", "")}


def test_the_page_has_the_options_of_the_daemon() -> None:
    assert options(section(PAGE, "DESCRIPTION")) == typed(parser())


@pytest.mark.parametrize("name", ["", *commands()])
def test_help_fits_eighty_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = (commands()[name] if name else parser()).format_help()
    assert [line for line in shown.splitlines() if len(line) >= 80] == []


def test_the_messages_are_those_there_are() -> None:
    told = re.findall(r"^\.It Cm (\w+) Ta (\w+)$", section(PAGE, "JOURNAL"), re.MULTILINE)
    assert told == list(MESSAGE_IDS.items())


def test_the_statuses_are_of_errors_that_there_are() -> None:
    tree = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    known = {str(kind.exit_status) for kind in tree if issubclass(kind, errors.QuestlineError)}
    told = set(re.findall(r"^\.It (\d+)$", section(PAGE, "EXIT STATUS"), re.MULTILINE))
    assert told - {"0"} <= known
