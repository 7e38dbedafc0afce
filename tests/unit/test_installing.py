"""`questlined install` on the command line: who is meant, what is refused, what is printed."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from questlined import installing
from questlined.main import main
from questlined.store.sqlite.looking import project_paths
from questlined.sysd import programs
from questlined.sysd.machine import Done, Machine
from tests.support.stores import Bench, on_store
from tests.unit.sysd.fake_systemd import FakeSystemd


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    """carol's machine, in place of this one."""
    made = FakeSystemd(tmp_path)
    made.linger()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "QUESTLINED_STATE", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(programs, "candidates", lambda name: iter([[f"/opt/questline/bin/{name}"]]))
    monkeypatch.setattr(installing, "this_machine", made.machine)
    return made


def test_the_first_install_leads_on_and_the_second_says_that_all_is_there(
    fake: FakeSystemd, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a quest, its journal, and a nightly one."""
    assert main(["install", "--user"]) == 0
    said = capsys.readouterr().out
    for words in (
        "wrote ",
        "ran systemctl --user enable",
        "at every boot",
        "add ",
        "journalctl --user",
        "recurring add",
    ):
        assert words in said
    assert main(["install", "--user"]) == 0
    assert capsys.readouterr().out == "all is in place already; nothing was changed\n"


def test_a_dry_run_says_would(fake: FakeSystemd, capsys: pytest.CaptureFixture[str]) -> None:
    """And leads nowhere, as nothing is there."""
    assert main(["install", "--user", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("would ") for line in lines)


def test_json_is_one_value(fake: FakeSystemd, capsys: pytest.CaptureFixture[str]) -> None:
    """For install and uninstall alike; also what is kept is in it."""
    (fake.home / ".config/questlined").mkdir(parents=True)
    drop_in = fake.units / "questlined.service.d"
    drop_in.mkdir(parents=True)
    assert main(["install", "--user", "--json"]) == 0
    installed = json.loads(capsys.readouterr().out)
    assert set(installed) == {"done", "dryRun", "warnings", "notes"}
    assert main(["uninstall", "--user", "--json"]) == 0
    removed = json.loads(capsys.readouterr().out)
    assert any(f"{fake.home}/.config/questlined, {drop_in}" in note for note in removed["notes"])
    assert any("disable-linger" in note for note in removed["notes"])


def test_a_missing_permission_comes_last_and_is_the_exit_status(
    fake: FakeSystemd, capsys: pytest.CaptureFixture[str]
) -> None:
    """What could be done is done, and told first."""
    (fake.root / "var/lib/systemd/linger/carol").unlink()
    fake.fails["loginctl"] = Done(1, "", "Access denied\n")
    assert main(["install", "--user"]) == 77
    told = capsys.readouterr()
    assert "wrote " in told.out
    assert "as root: loginctl enable-linger carol" in told.err


def test_what_was_done_is_told_also_where_the_service_does_not_start(
    fake: FakeSystemd, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.fails["systemctl --user start questlined.service"] = Done(1, "", "Job for questlined.service failed.\n")
    assert main(["install", "--user"]) == 75
    told = capsys.readouterr()
    assert "ran systemctl --user start questlined.socket\n" in told.out
    assert "nothing" not in told.out
    assert "Job for questlined.service failed" in told.err


def test_a_configuration_with_which_the_service_could_not_start_is_refused_first(
    fake: FakeSystemd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one of the usual place, with file, line and key: a variable of this shell names none for the service."""
    file = fake.home / ".config/questlined/questlined.toml"
    file.parent.mkdir(parents=True)
    file.write_text("\nnonsense = 1\n")
    monkeypatch.setattr(installing, "this_machine", lambda: fake.machine(QUESTLINED_CONFIG="/dev/null"))
    assert main(["install", "--user"]) == 78
    assert f"{file}:2: nonsense: unknown key" in capsys.readouterr().err
    assert (fake.calls, fake.units.exists()) == ([], False)


def test_a_program_that_only_the_shell_finds_and_variables_that_only_it_has_are_warned_of(
    fake: FakeSystemd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not where env.path is set or the unit has a PATH with the program in it, nor where the service has the
    variable, too."""
    agent = fake.home / "bin/agent"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\n")
    agent.chmod(0o755)
    fake.environment = "PATH=/usr/bin:/bin\nLANG=C\n"
    file = fake.home / ".config/questlined/questlined.toml"
    file.parent.mkdir(parents=True)
    file.write_text('executor.command = ["agent"]\n')
    shell = {"PATH": f"{agent.parent}:/usr/bin", "QUESTLINED_STATE": "/elsewhere"}
    monkeypatch.setattr(installing, "this_machine", lambda: fake.machine(**shell))

    def warnings() -> list[str]:
        main(["install", "--user", "--json"])
        return list(json.loads(capsys.readouterr().out)["warnings"])

    variable, program = warnings()
    assert "QUESTLINED_STATE" in variable
    assert f"{agent} is not on the PATH of the service (/usr/bin:/bin)" in program
    fake.drop_in = f'"QUESTLINED_STATE=/elsewhere" PATH={agent.parent}:/bin'
    assert warnings() == []
    fake.drop_in = "QUESTLINED_STATE=/elsewhere"
    file.write_text('executor.command = ["agent"]\nexecutor.env.path = "/x"\n')
    assert warnings() == []


def test_a_shell_of_su_is_told_what_it_lacks(
    fake: FakeSystemd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """systemctl --user works in no shell without XDG_RUNTIME_DIR."""
    main(["install", "--user"])
    assert f"export XDG_RUNTIME_DIR={fake.root}/run/user/1000" in capsys.readouterr().out
    main(["uninstall", "--user"])
    capsys.readouterr()
    runtime = str(fake.root / "run/user/1000")
    monkeypatch.setattr(installing, "this_machine", lambda: fake.machine(XDG_RUNTIME_DIR=runtime))
    main(["install", "--user"])
    assert "export" not in capsys.readouterr().out


MEANT = [
    (["install"], 2, "--user --system is required"),
    (["install", "--user", "--system"], 2, "not allowed with"),
    (["install", "--system"], 2, "needs --run-as USER"),
    (["install", "--system", "--run-as", "nobody-of-that-name"], 1, "no user nobody-of-that-name"),
    (["install", "--user", "--run-as", "root"], 2, "--run-as goes with --system"),
    (["install", "--user", "--project", "x"], 2, "takes no --socket, --project"),
    (["--detach", "install", "--user"], 2, "--detach"),
    (["--state", "/x", "uninstall", "--user"], 2, "--state"),
    (["uninstall", "--system"], 77, "needs root"),
]


@pytest.mark.parametrize(("argv", "status", "says"), MEANT, ids=lambda value: str(value)[:50])
def test_what_is_not_meant_is_refused(
    fake: FakeSystemd, capsys: pytest.CaptureFixture[str], argv: list[str], status: int, says: str
) -> None:
    """Before anything is done, with what to type instead."""
    try:
        found = main(argv)
    except SystemExit as left:
        found = left.code if isinstance(left.code, int) else -1
    assert found == status
    assert says in " ".join(capsys.readouterr().err.split())
    assert fake.calls == []


def test_the_one_behind_sudo_is_proposed(
    fake: FakeSystemd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """root sits at no terminal."""
    caller = next(entry for entry in pwd.getpwall() if entry.pw_uid != 0)
    monkeypatch.setattr(installing, "this_machine", lambda: fake.machine(SUDO_USER=caller.pw_name))
    assert main(["install", "--system"]) == 2
    assert f"--run-as {caller.pw_name}" in capsys.readouterr().err


def test_this_machine_is_asked_as_whom_we_are() -> None:
    machine = installing.this_machine()
    assert isinstance(machine, Machine)
    assert (machine.me.uid, machine.root) == (os.geteuid(), Path("/"))


def test_projects_of_a_queue_are_looked_up_without_a_trace(tmp_path: Path) -> None:
    """Neither log nor index is left beside a database that nobody has open; what is none has none."""

    async def add(bench: Bench) -> None:
        await bench.add()
        assert project_paths(tmp_path / "quests.sqlite") == ["/p"]

    on_store(tmp_path, add)
    before = sorted(tmp_path.iterdir())
    assert project_paths(tmp_path / "quests.sqlite") == ["/p"]
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "rubbish").write_text("rubbish")
    assert project_paths(tmp_path / "rubbish") == []
    assert project_paths(tmp_path / "missing") == []
