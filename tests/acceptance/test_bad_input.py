"""Bad input: what is wrong on stderr, the documented exit status, nothing half done, and stdout clean with --json."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk
from tests.support.daemon import REPOSITORY, SHELL, Daemon

ADD = [
    (("",), ("task", "empty")),
    ((" \n\t",), ("task", "empty")),
    ((), ("no task",)),
    (("x" * 120_000, "--context", "y" * 120_000), ("task", "131071")),
    (("a b", "true"), ("role", "'a b'", "1 to 64")),
    (("../up", "true"), ("role",)),
    (("x" * 65, "true"), ("role",)),
    (("true", "--lane", "a/b"), ("lane",)),
    (("true", "--name", "two\nlines"), ("name",)),
    (("true", "--pirority", "1"), ("unknown option --pirority", "did you mean --priority?")),
    (("true", "--priority"), ("--priority needs a value",)),
    (("true", "--external=yes"), ("--external takes no value",)),
    (("true", "--priority", "high"), ("--priority", "'high'", "whole number")),
    (("true", "--priority", "1.5"), ("--priority",)),
    (("true", "--priority", ""), ("--priority",)),
    (("true", "--priority", "1" * 5000), ("--priority", "out of range")),
    (("true", "--max-attempts", "-1"), ("--max-attempts",)),
    (("true", "--max-attempts", "2000000"), ("maxAttempts",)),
    (("true", "--not-before", "tomorrow"), ("--not-before", "'tomorrow'", "2027-01-31")),
    (("true", "--not-before", "2027-13-01"), ("--not-before",)),
    (("true", "--not-before", "+"), ("--not-before",)),
    (("true", "--not-before", "+5 parsecs"), ("--not-before",)),
    (("true", "--not-before", "@-99"), ("notBefore",)),
    (("true", "--timeout", "soon"), ("--timeout", "'soon'", "15min")),
    (("true", "--timeout", "0"), ("timeoutMs",)),
    (("true", "--timeout", "-5"), ("--timeout",)),
    (("true", "--depends", ""), ("--depends",)),
    (("true", "--depends", "q-000000000000"), ("dependsOn", "q-000000000000")),
    (("true", "--depends", "zzz"), ("dependsOn", "zzz")),
    (("a", "b", "c"), ("too many arguments", "'c'", "quotes")),
    (("--file", "nowhere"), ("--file", "nowhere")),
    (("--file", "."), ("--file",)),
    (("--project", "/no/such/place", "true"), ("project", "/no/such/place", "no directory")),
    (("--project", "/etc/passwd", "true"), ("project", "no directory")),
    (("--project", "a b", "true"), ("project",)),
    (("--project", "", "true"), ("--project",)),
]


@pytest.mark.parametrize(("arguments", "says"), ADD, ids=lambda value: repr(value)[:40])
def test_add_refuses_it_with_2_naming_the_field(desk: Desk, arguments: tuple[str, ...], says: tuple[str, ...]) -> None:
    """And adds nothing."""
    desk.refused("add", *arguments, says=says)


@pytest.mark.parametrize("where", ["stdin", "file"])
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a\0b", ("NUL",)),
        (b"caf\xe9", ("byte 3", "UTF-8")),
        (b"", ("task", "empty")),
        (b"x" * (512 * 1024 + 1), ("task", "bounds.max_task_bytes", "524288")),
        ("ä".encode() * (256 * 1024) + b"x", ("task", "bounds.max_task_bytes")),
        (b"x" * (5 * 1024 * 1024), ("bounds.max_frame_bytes",)),
        (b"x" * 131_072, ("task", "131071")),
    ],
    ids=["nul", "latin-1", "empty", "long", "long in bytes", "longer than a frame", "longer than an argument"],
)
def test_a_bad_text_is_refused_whichever_way_it_came(
    desk: Desk, tmp_path: Path, where: str, data: bytes, says: tuple[str, ...]
) -> None:
    """Naming the bound it broke."""
    path = tmp_path / "task"
    path.write_bytes(data)
    before = desk.count()
    with path.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "qlctl", "--json", "add", *(["-"] if where == "stdin" else ["--file", str(path)])],
            env=desk.daemon.environ(PYTHONPATH=str(REPOSITORY)),
            cwd=desk.folder,
            stdin=file if where == "stdin" else subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert not [words for words in says if words not in done.stderr], done.stderr
    assert desk.count() == before


@pytest.mark.parametrize(
    "arguments",
    [("add", b"caf\xe9"), ("add", "true", "--name", b"\xff"), ("show", b"\xff"), ("add", "--lane=\udcff", "x")],
)
def test_an_argument_that_is_not_utf8_is_refused(desk: Desk, arguments: tuple[str | bytes, ...]) -> None:
    """It is shown escaped, and nothing is guessed."""
    before = desk.count()
    done = subprocess.run(
        [sys.executable, "-m", "qlctl", "--json", *arguments],
        env=desk.daemon.environ(PYTHONPATH=str(REPOSITORY)),
        cwd=desk.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    assert b"not UTF-8" in done.stderr
    assert desk.count() == before


def test_a_dependency_of_another_project_is_refused(desk: Desk, tmp_path: Path) -> None:
    """Naming that project."""
    other = Desk(desk.daemon, tmp_path / "other")
    quest = other.add("true", "--external")
    desk.refused("add", "true", "--depends", quest, says=("dependsOn", other.key, "its own project"))
    other.close()


@pytest.mark.parametrize(
    "verb", [("show",), ("why",), ("runs",), ("events",), ("wait",), ("cancel",), ("retry",), ("requeue",)]
)
def test_an_unknown_id_is_1_and_an_ambiguous_one_2(desk: Desk, verb: tuple[str, ...]) -> None:
    """The candidates are named."""
    desk.refused(*verb, "q-00000000zzzz", status=1, says=("there is no quest q-00000000zzzz",))
    desk.refused(*verb, "", status=2, says=("id", "empty"))
    with desk.peer() as peer:
        ids = [peer.add(external=True) for _ in range(17)]  # two of seventeen begin with the same digit
    double = next(quest[:3] for quest in ids if sum(other[:3] == quest[:3] for other in ids) > 1)
    desk.refused(*verb, double, status=2, says=(f"{double} fits", f"write more of it: {double}"))
    assert {desk.quest(quest)["state"] for quest in ids} == {"queued"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("lisst",), ("unknown verb 'lisst'", "did you mean list?")),
        (("show",), ("an argument is missing", "qlctl show ID")),
        (("show", "a", "b"), ("too many arguments",)),
        (("list", "--state", "lost"), ("states", "'lost'", "queued")),
        (("list", "--limit", "0"), ("--limit",)),
        (("list", "--limit", "many"), ("--limit",)),
        (("list", "extra"), ("too many arguments",)),
        (("events", "--cursor", "x"), ("cursor",)),
        (("pause", "--all", "--project", "x"), ("--all", "--project")),
        (("wait", "q-1", "--timeout", "never"), ("--timeout",)),
        (("--frobnicate", "list"), ("unknown option --frobnicate",)),
        (("--socket", "", "list"), ("--socket",)),
    ],
)
def test_other_verbs_refuse_with_2(desk: Desk, arguments: tuple[str, ...], says: tuple[str, ...]) -> None:
    """Naming what is wrong."""
    desk.refused(*arguments, says=says)


def test_without_a_verb_the_help_goes_to_stderr(desk: Desk) -> None:
    """It was not asked for: 2. Asked for, it is on stdout with 0."""
    bare, asked = desk.run(), desk.run("--help")
    assert (bare.returncode, bare.stdout, asked.returncode, asked.stderr) == (2, "", 0, "")
    assert bare.stderr == asked.stdout


def test_a_directory_that_is_gone_is_named(desk: Desk) -> None:
    """The working directory, while the shell still stands in it."""
    gone = desk.folder / "gone"
    gone.mkdir()
    script = f'rmdir "{gone}"; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "qlctl", "add", "true"],
        env=desk.daemon.environ(PYTHONPATH=str(REPOSITORY)),
        cwd=gone,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "working directory is gone" in done.stderr


class TestNoDaemon:
    """69, with the command that starts it; --json stays clean."""

    @pytest.mark.parametrize("arguments", [("list",), ("add", "true"), ("health", "--json"), ("wait", "q-1", "--json")])
    def test_nobody_on_the_socket(self, tmp_path: Path, arguments: tuple[str, ...]) -> None:
        """Nothing is printed but the error."""
        done = Daemon(tmp_path).qlctl(*arguments, check=False, XDG_CONFIG_HOME=str(tmp_path))
        assert (done.returncode, done.stdout) == (69, "")
        assert f"no daemon answers on {tmp_path}/s.sock" in done.stderr
        assert "start it: questlined" in done.stderr

    def test_a_user_unit_is_what_starts_it(self, tmp_path: Path) -> None:
        """Where one is installed."""
        unit = tmp_path / "systemd/user/questlined.service"
        unit.parent.mkdir(parents=True)
        unit.touch()
        done = Daemon(tmp_path).qlctl("list", check=False, XDG_CONFIG_HOME=str(tmp_path))
        assert done.returncode == 69
        assert "systemctl --user start questlined" in done.stderr

    def test_a_file_that_is_no_socket(self, tmp_path: Path) -> None:
        """A dead socket is nobody, a directory or a path too long is bad input."""
        daemon = Daemon(tmp_path)
        (tmp_path / "s.sock").write_text("")
        assert daemon.qlctl("list", check=False).returncode == 69
        done = daemon.qlctl("list", "--socket", "/" + "x" * 200, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert "--socket" in done.stderr


class TestConfig:
    """questlined refuses a bad configuration with 78, naming file, line, key and a suggestion."""

    @pytest.mark.parametrize(
        ("text", "line", "says"),
        [
            ("\nmax_attemps = 3\n", 2, ("max_attemps", "max_attempts")),
            ("[executor]\ncomand = ['true']\n", 2, ("executor.comand", "command")),
            ("[bounds]\n\n\nmax_frame = 1\n", 4, ("bounds.max_frame", "max_frame_bytes")),
            ("max_attempts = 'three'\n", 1, ("max_attempts",)),
            ("executor.command = []\n", 1, ("executor.command",)),
            ("executor.command = ['x', '{tusk}']\n", 1, ("executor.command", "{tusk}")),
            ("heartbeat = 120\nlease_ttl = 60\n", None, ("heartbeat", "lease_ttl")),
            ("scheduler.max_concurrent = 0\n", 1, ("scheduler.max_concurrent", "pause")),
            ("a = \n", 1, ()),
        ],
    )
    def test_a_bad_file(self, tmp_path: Path, text: str, line: int | None, says: tuple[str, ...]) -> None:
        """Nothing is made: no socket, no state."""
        daemon = Daemon(tmp_path, text)
        daemon.start(ready=False)
        assert daemon.wait() == 78
        told = daemon.log.read_text()
        assert f"{daemon.config}:{line}" in told if line else str(daemon.config) in told, told
        assert not [words for words in says if words not in told], told
        assert "Traceback" not in told
        assert not daemon.state.exists()
        assert not os.path.exists(daemon.socket)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        """One that was named must be there."""
        daemon = Daemon(tmp_path)
        daemon.config.unlink()
        daemon.start(ready=False)
        assert daemon.wait() == 78
        assert str(daemon.config) in daemon.log.read_text()


class TestProgram:
    """A program that cannot be run fails its quest at once, named, with no attempt charged."""

    def test_one_that_is_missing(self, desk: Desk) -> None:
        """Whatever attempts are left."""
        done = desk.run("add", "missing", "x", "--max-attempts", "5", "--wait")
        assert done.returncode == 1
        assert "program no-such-program-here is not on the PATH" in done.stderr
        (found,) = desk.json("list", "--role", "missing")
        assert (found["state"], found["class"], found["failureKind"]) == ("failed", "bad_config", "execution")
        assert (found["attempts"] - found["refunds"], found["maxAttempts"] - found["refunds"]) == (0, 5)
        assert "0 of 5" in desk.ok("show", found["id"])

    @pytest.mark.parametrize(
        ("kind", "says"), [("plain", "not executable"), ("directory", "not"), ("gone", "not there")]
    )
    def test_one_in_the_project(self, tmp_path: Path, kind: str, says: str) -> None:
        """Not executable, a directory, not there."""
        with Daemon(tmp_path, SHELL + 'executors.own.command = ["./prog"]\n') as daemon:
            program = daemon.project / "prog"
            if kind == "plain":
                program.write_text("#!/bin/sh\n")
            elif kind == "directory":
                program.mkdir()
            quest = daemon.json("add", "own", "x", "--wait", check=False)
            assert (quest["state"], quest["class"], quest["attempts"] - quest["refunds"]) == ("failed", "bad_config", 0)
            assert "prog" in quest["error"]
            assert says in quest["error"]

    def test_an_interpreter_that_is_missing(self, tmp_path: Path) -> None:
        """The kernel says the script is not there: the script is named."""
        with Daemon(tmp_path, SHELL + 'executors.own.command = ["./prog"]\n') as daemon:
            program = daemon.project / "prog"
            program.write_text("#!/no/such/interpreter\n")
            program.chmod(0o755)
            quest = daemon.json("add", "own", "x", "--wait", check=False)
            assert (quest["class"], quest["attempts"] - quest["refunds"]) == ("bad_config", 0)
            assert "prog" in quest["error"]
