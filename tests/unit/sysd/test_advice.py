"""What an installation would stumble over later is said when it is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from questlined.sysd import advice
from questlined.sysd.install import run
from questlined.sysd.machine import Account, Machine
from tests.unit.sysd.fake_systemd import FakeSystemd

ROOT = os.geteuid() == 0


def nobody(home: Path) -> Account:
    """A user who owns nothing here."""
    return Account("nobody", 65534, 65534, home)


def me(home: Path) -> Account:
    return Account("me", os.geteuid(), os.getegid(), home)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that everybody may enter; pytest's are its own user's."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.skipif(not ROOT, reason="needs root, to be somebody else")
def test_projects_that_the_user_cannot_write_are_named(open_folder: Path) -> None:
    """Tried as that user; three by name. What may be written, or is gone, is no matter."""
    mine = [open_folder / f"p{number}" for number in range(5)]
    for path in mine:
        path.mkdir(mode=0o755)
    theirs = open_folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    paths = [str(path) for path in (*mine, theirs, open_folder / "gone")]
    (warning,) = advice.on_projects(Machine(run, me(open_folder), {}), nobody(open_folder), paths)
    assert warning.startswith(f"nobody cannot write {mine[0]}, {mine[1]}, {mine[2]} and 2 more:")


def test_a_checkout_of_somebody_else_is_refused_by_git(tmp_path: Path) -> None:
    """The warning has the command that lets it in."""
    if not ROOT or shutil.which("git") is None:
        pytest.skip("needs git, and root to give a checkout away")
    project = tmp_path / "checkout"
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    for path in (project, project / ".git"):
        os.chown(path, 65534, 65534)
    (warning,) = advice.on_projects(Machine(run, me(tmp_path), {}), me(tmp_path), [str(project)])
    assert f"git config --global --add safe.directory {project}" in warning


def test_nothing_amiss_is_no_warning(tmp_path: Path) -> None:
    """Nor is a queue without projects."""
    machine = Machine(run, me(tmp_path), {})
    assert advice.on_projects(machine, me(tmp_path), [str(tmp_path), str(tmp_path), "a\nb"]) == []
    assert advice.on_projects(machine, me(tmp_path), []) == []


def test_logins_of_the_one_who_installs_are_not_those_of_the_daemon(tmp_path: Path) -> None:
    """Those that only the caller has are named."""
    caller, runs = Account("dora", 1, 1, tmp_path / "dora"), Account("carol", 2, 2, tmp_path / "carol")
    for path in ("dora/.claude", "dora/.codex", "carol/.codex", "carol/.pi"):
        (tmp_path / path).mkdir(parents=True)
    (warning,) = advice.on_logins(runs, caller)
    assert "dora (~/.claude), and not as carol" in warning
    assert advice.on_logins(caller, caller) == []


def test_a_user_with_a_service_of_their_own_needs_no_second(tmp_path: Path) -> None:
    carol = Account("carol", 2, 2, tmp_path)
    assert advice.on_two_services(carol) == []
    unit = tmp_path / ".config/systemd/user/questlined.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    (warning,) = advice.on_two_services(carol)
    assert "as carol: questlined uninstall --user" in warning


def test_a_shell_that_is_missing_is_no_error(tmp_path: Path) -> None:
    """Advice is given where it can be."""
    fake = FakeSystemd(tmp_path)
    assert advice.on_projects(fake.machine(), fake.me, ["/p"]) == []


def test_a_program_is_run_to_its_end_and_one_that_is_not_there_told(tmp_path: Path) -> None:
    """With what it wrote, what it got, and 127 as a shell says it."""
    done = run(["sh", "-c", "echo $X; echo bad >&2; pwd >&2; exit 3"], environ={"X": "given"})
    assert (done.status, done.out, done.complaint) == (3, "given\n", "bad")
    missing = run(["/no/such/program"])
    assert missing.status == 127
    assert "/no/such/program" in missing.complaint
