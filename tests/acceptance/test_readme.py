"""README.md is true: its commands are run, its lists are compared with the product."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from questlined import __version__ as VERSION
from questlined.config.load import load_from
from questlined.core.states import STATES
from tests.support.daemon import REPOSITORY, Daemon
from tests.support.readme import README, blocks, marked

VERBS = (
    "add",
    "list",
    "show",
    "why",
    "wait",
    "logs",
    "cancel",
    "retry",
    "edit",
    "block",
    "run",
    "pause",
    "resume",
    "health",
)


def test_the_first_two_commands_install_and_run_the_main_job_and_the_tests() -> None:
    """On a machine with nothing of ours, each is one line to paste."""
    first, second, *_ = blocks()
    assert first == "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/qlctl demo\n"
    assert second == "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest\n"


def test_ci_runs_the_test_command_that_people_are_given(tmp_path: Path) -> None:
    """.ci/run finds the block by its mark: in a copy where that is another command, it runs that one.

    Agents that cannot be installed are told of, and are demanded all the same.
    """
    (tmp_path / ".ci").mkdir()
    (tmp_path / "tests/agents").mkdir(parents=True)
    (tmp_path / "tests/agents/install").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "tests/agents/install").chmod(0o755)
    (tmp_path / ".ci/run").write_bytes((REPOSITORY / ".ci/run").read_bytes())
    command = marked("tests")
    (tmp_path / "README.md").write_text(
        README.replace(command, 'echo "it runs with $QUESTLINE_TEST_AGENTS"; exit 9\n', 2)
    )
    # As nobody's root: what is missing is named then, not installed.
    script = tmp_path / ".ci/run"
    script.write_text(script.read_text().replace("EUID == 0", "EUID < 0"))
    env = {**os.environ, "QUESTLINE_TEST_AGENTS": "/some/agents"}
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout) == (9, "it runs with /some/agents\n")
    assert "no agents in /some/agents" in done.stderr


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory for the PATH, with qlctl as an installation has it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "qlctl").write_text(f'#!/bin/sh\nPYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -P -m qlctl "$@"\n')
    (folder / "qlctl").chmod(0o755)
    return folder


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with the configuration that README shows."""
    with Daemon(tmp_path, marked("config")) as running:
        yield running


def test_the_quick_start_does_what_it_says(configured: Daemon, programs: Path) -> None:
    """Pasted as it is: it runs to its end, and the queue is as the comments tell."""
    script = marked("quick start")
    assert [verb for verb in VERBS if f"qlctl {verb}" not in script] == []
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=configured.environ(PATH=f"{programs}:/usr/bin:/bin", TMPDIR=str(configured.folder)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    quests = configured.json("list", "--all-projects")
    assert [(quest["task"], quest["state"], quest["attempts"]) for quest in quests] == [
        ("date", "cancelled", 0),
        ("date -u", "done", 1),
        ("wc -w notes.txt", "done", 1),
        ("cat notes.txt", "done", 2),
        ("date", "done", 1),
    ]
    edited, counted, failed, first = quests[1:]
    assert counted["result"] == "3 notes.txt\n"
    for line in (
        first["result"].strip(),
        f"{failed['id']} is failed: exit code 1",
        f"{counted['id']} is failed: dependency {failed['id']} failed",
        "status 1",
        f"{counted['id']} is done",
        "3 notes.txt",
        edited["result"].strip(),
        f"{quests[0]['id']} is blocked: is it time?",
        f"  paused: project {quests[0]['project']} is paused: lunch",
        f"questlined {VERSION}: all is well",
    ):
        assert line in done.stdout.splitlines()


@pytest.mark.parametrize("mark", ["config", "unit", "credentials"])
def test_a_configuration_that_is_shown_is_one(mark: str, tmp_path: Path) -> None:
    """For an ordinary user's daemon, with nothing ignored."""
    file = tmp_path / "questlined.toml"
    file.write_text(marked(mark))
    loaded = load_from({"HOME": str(tmp_path)}, str(file), uid=1000)
    assert (loaded.files, loaded.warnings) == ((str(file),), ())


def test_the_states_are_those_there_are() -> None:
    table = README.split("## States\n")[1].split("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == STATES


def test_the_exit_statuses_are_those_of_the_manual() -> None:
    table = README.split("## Exit status")[1].split("\n## ")[0]
    told = " ".join(re.findall(r"^\| ([\d ·]+) \|", table, re.MULTILINE))
    page = (REPOSITORY / "man/qlctl.1").read_text().split(".Sh EXIT STATUS\n")[1].split("\n.Sh ")[0]
    written = " ".join(re.findall(r"^\.It (.*)$", page, re.MULTILINE))
    assert sorted(re.findall(r"\d+", told)) == sorted(re.findall(r"\d+", written))
