"""Install and uninstall on a machine in a folder: what is written, told to systemd, kept, refused."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import questlined
from questlined.sysd import install as installing
from questlined.sysd import programs
from questlined.sysd.install import ENABLED, SERVICE, SOCKET, TIMER, Report, Wanted, install, uninstall
from questlined.sysd.machine import Account, Done
from questlined.sysd.placing import NotOurs
from questlined.sysd.rendering import Origin, origin, packaged, signed
from questlined.wire.errors import InvalidInput, PermissionDenied, Unavailable
from tests.unit.sysd.fake_systemd import FakeSystemd

CAROL = Account("carol", 1000, 1000, Path("/home/carol"))
USER_FILES = sorted(path.name for path in (packaged() / "user").iterdir())


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that stays where it is."""
    monkeypatch.setattr(programs, "candidates", lambda name: iter([[f"/opt/questline/bin/{name}"]]))


@pytest.fixture
def fake(tmp_path: Path) -> FakeSystemd:
    """carol's machine; she lingers."""
    made = FakeSystemd(tmp_path)
    made.linger()
    return made


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below it: its bytes, and when it was written."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_units_are_written_enabled_and_started_in_this_order(fake: FakeSystemd) -> None:
    """Readable by everybody, naming the programs of this installation; the socket comes before the service."""
    report = install(fake.machine(), Wanted())
    assert sorted(path.name for path in fake.units.iterdir()) == USER_FILES
    for path in fake.units.iterdir():
        assert oct(path.stat().st_mode & 0o777) == "0o644"
        assert "/usr/bin/q" not in path.read_text()
    service = (fake.units / "questlined.service").read_text()
    assert "\nExecStart=/opt/questline/bin/questlined\n" in service
    assert "\nExecReload=/opt/questline/bin/qlctl --socket=" in service
    assert fake.calls == [
        "systemctl daemon-reload",
        "systemctl enable questlined.socket questlined.service questlined-backup.timer",
        "systemctl start questlined.socket",
        "systemctl start questlined.service",
        "systemctl start questlined-backup.timer",
    ]
    assert (report.fresh, report.missing, report.warnings) == (True, None, [])


def test_a_second_run_changes_nothing(fake: FakeSystemd) -> None:
    """No file is written again, systemd is told nothing, and the report says so."""
    install(fake.machine(), Wanted())
    before, fake.calls = snapshot(fake.root), []
    report = install(fake.machine(), Wanted())
    assert snapshot(fake.root) == before
    assert (fake.calls, report.done, report.fresh) == ([], [], False)


def test_a_timer_that_was_disabled_since_stays_so(fake: FakeSystemd) -> None:
    """Only the first install turns the backup on."""
    install(fake.machine(), Wanted())
    fake.enabled["questlined-backup.timer"] = "disabled"
    fake.active.discard("questlined-backup.timer")
    assert install(fake.machine(), Wanted()).done == []


def test_an_install_that_was_cut_short_is_finished_by_the_next(fake: FakeSystemd) -> None:
    """Whether it was killed with the files written, or its service did not start."""
    whole = [
        "enable questlined.socket questlined.service questlined-backup.timer",
        *(f"start {unit}" for unit in ENABLED),
    ]
    install(fake.machine(), Wanted())
    fake.calls, fake.enabled, fake.active, fake.stale = [], {}, set(), True
    install(fake.machine(), Wanted())
    assert fake.calls == [f"systemctl {words}" for words in ("daemon-reload", *whole)]
    fake.calls, fake.active, fake.stale = [], {SOCKET, SERVICE}, False
    install(fake.machine(), Wanted())
    assert fake.calls == ["systemctl start questlined-backup.timer"]


def test_a_dry_run_says_the_same_and_does_nothing(tmp_path: Path) -> None:
    """Lingering, files, systemd: all is as before."""
    fake = FakeSystemd(tmp_path)
    before = snapshot(tmp_path)
    told = install(fake.machine(), Wanted(dry_run=True))
    assert (snapshot(tmp_path), fake.calls) == (before, [])
    done = install(fake.machine(), Wanted()).done
    assert [line.split(" ", 2)[2] for line in told.done] == [line.split(" ", 1)[1] for line in done]


FOREIGN: list[tuple[str, Callable[[Path], object]]] = [
    ("was not written by questlined install", lambda path: path.write_text("[Service]\nExecStart=/bin/mine\n")),
    ("was edited", lambda path: path.write_text(path.read_text() + "Nice=5\n")),
    ("was not written by questlined install", lambda path: (path.unlink(), path.symlink_to("/dev/null"))),
]


@pytest.mark.parametrize(("says", "change"), FOREIGN)
def test_what_somebody_else_wrote_or_edited_is_refused_whole(
    fake: FakeSystemd, says: str, change: Callable[[Path], object]
) -> None:
    """Before anything is changed, also beside it, with the file and the remedy; uninstall leaves it, too."""
    install(fake.machine(), Wanted())
    theirs = fake.units / "questlined.service"
    change(theirs)
    (fake.units / "questline.slice").unlink()
    kept = os.readlink(theirs) if theirs.is_symlink() else theirs.read_text()
    before, fake.calls = snapshot(fake.root), []
    with pytest.raises(NotOurs, match=says) as refused:
        install(fake.machine(), Wanted())
    assert str(theirs) in refused.value.message
    assert "drop-in" in refused.value.hint
    assert (snapshot(fake.root), fake.calls, refused.value.exit_status) == (before, [], 1)
    uninstall(fake.machine(), user=True)
    assert [path.name for path in fake.units.iterdir()] == ["questlined.service"]
    assert (os.readlink(theirs) if theirs.is_symlink() else theirs.read_text()) == kept


def test_units_of_an_earlier_version_are_replaced(fake: FakeSystemd) -> None:
    """What this version has no more goes, drop-ins stay, and the way to replace the daemon that runs is told."""
    install(fake.machine(), Wanted())
    fake.calls = []
    (fake.units / "questlined.service").write_text(signed("[Service]\nExecStart=/old/questlined\n", "edit"))
    (fake.units / "questlined-old.service").write_text(signed("[Service]\n", "edit"))
    drop_in = fake.units / "questlined.service.d/override.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nNice=5\n")
    report = install(fake.machine(), Wanted())
    assert "/opt/questline/bin/questlined" in (fake.units / "questlined.service").read_text()
    assert not (fake.units / "questlined-old.service").exists()
    assert drop_in.read_text() == "[Service]\nNice=5\n"
    assert fake.calls == ["systemctl daemon-reload"]
    assert any("qlctl reexec" in note for note in report.notes)
    uninstall(fake.machine(), user=True)
    assert drop_in.exists()


def test_uninstall_undoes_it_and_a_second_one_does_nothing(fake: FakeSystemd) -> None:
    """Units are stopped and disabled before their files go; lingering and timers of recurrences stay, and are named."""
    install(fake.machine(), Wanted())
    (fake.units / "questline-recurring@r-1.timer").write_text("[Timer]\n")
    fake.calls = []
    report = uninstall(fake.machine(), user=True)
    assert fake.calls == [
        "systemctl disable --now questlined.socket questlined.service questlined-backup.timer",
        "systemctl daemon-reload",
    ]
    assert [path.name for path in fake.units.iterdir()] == ["questline-recurring@r-1.timer"]
    assert installing.lingers(fake.machine(), fake.me)
    assert any("qlctl timer remove r-1" in warning for warning in report.warnings)
    fake.calls = []
    assert uninstall(fake.machine(), user=True).done == []
    assert fake.calls == []


def test_lingering_is_turned_on_once(tmp_path: Path) -> None:
    """And left alone with --no-linger."""
    fake = FakeSystemd(tmp_path)
    install(fake.machine(), Wanted(linger=False))
    assert not [call for call in fake.calls if "linger" in call]
    install(fake.machine(), Wanted())
    install(fake.machine(), Wanted())
    assert [call for call in fake.calls if "linger" in call] == ["loginctl enable-linger carol"]


def test_lingering_that_needs_root_is_told_with_the_command_and_the_rest_is_done(tmp_path: Path) -> None:
    """The exit status is that of a permission that is missing."""
    fake = FakeSystemd(tmp_path)
    fake.fails["loginctl"] = Done(1, "", "Could not enable linger: Access denied\n")
    report = install(fake.machine(), Wanted())
    assert "questlined.service" in fake.active
    assert report.missing is not None
    assert report.missing.exit_status == 77
    assert "Access denied" in report.missing.message
    assert "loginctl enable-linger carol" in report.missing.hint
    assert not [line for line in report.done if "enable-linger" in line]


def refusal(fake: FakeSystemd, wanted: Wanted | None = None, **environ: str) -> Exception:
    """How an install was refused, without having written anything."""
    with pytest.raises((Unavailable, InvalidInput, PermissionDenied, NotOurs)) as refused:
        install(fake.machine(**environ), wanted or Wanted())
    assert not fake.units.exists()
    assert not (fake.root / "etc").exists()
    return refused.value


def test_a_machine_without_systemd_is_told_of_the_other_way(fake: FakeSystemd) -> None:
    (fake.root / "run/systemd/system").rmdir()
    assert "questlined --detach" in getattr(refusal(fake), "hint", "")


def test_a_user_manager_that_does_not_answer(fake: FakeSystemd) -> None:
    """Named, with the way to get one; without the runtime directory there was no login."""
    fake.version = None
    assert "dbus" in getattr(refusal(fake), "hint", "")
    (fake.root / "run/user/1000/systemd").rmdir()
    (fake.root / "run/user/1000").rmdir()
    error = refusal(fake)
    assert "/run/user/1000 is not there" in str(error)
    assert "enable-linger carol" in getattr(error, "hint", "")


def test_an_old_systemd_is_warned_of(fake: FakeSystemd) -> None:
    fake.version = "249.11-0ubuntu3"
    assert any("249" in warning for warning in install(fake.machine(), Wanted()).warnings)


@pytest.mark.parametrize("place", ["XDG_RUNTIME_DIR", "XDG_STATE_HOME"])
def test_a_daemon_that_was_started_by_hand_keeps_its_socket(
    fake: FakeSystemd, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """systemd would put its own in place of it, or could not start another for the same state."""
    runtime = fake.root / "run/user/1000"
    (runtime / "questlined").mkdir()
    monkeypatch.chdir(runtime)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("questlined/questlined.sock")
        listening.listen()
        assert "by hand" in str(refusal(fake, **{place: "."}))


def test_an_install_by_sudo_is_not_roots(tmp_path: Path) -> None:
    assert "--run-as dora" in getattr(refusal(FakeSystemd(tmp_path, uid=0), SUDO_USER="dora"), "hint", "")


def test_the_system_needs_root_and_somebody_else_to_run_as(tmp_path: Path) -> None:
    """Agents of a daemon that is root would be root."""
    assert "root" in str(refusal(FakeSystemd(tmp_path), Wanted(CAROL)))
    assert "as root" in str(refusal(FakeSystemd(tmp_path, uid=0), Wanted(Account("root", 0, 0, Path("/root")))))
    with pytest.raises(PermissionDenied):
        uninstall(FakeSystemd(tmp_path).machine(), user=False)


def test_the_systems_units_run_as_whom_they_were_told(tmp_path: Path) -> None:
    """Every unit that had the packaged user; its programs are tried as that user, who lingers from then on."""
    fake = FakeSystemd(tmp_path, uid=0)
    install(fake.machine(), Wanted(CAROL))
    system = tmp_path / "etc/systemd/system"
    for path in system.iterdir():
        original = (packaged() / "system" / path.name).read_text()
        assert path.read_text().count("\nUser=carol\n") == original.count("\nUser=questline\n")
    service = (system / "questlined.service").read_text()
    assert "\nUser=carol\n" in service
    for key in ("Wants", "After"):  # units of attempts are in that user's manager
        assert re.search(rf"^{key}=user@\d+\.service$", service, re.MULTILINE)
    assert "\nSocketGroup=questline\n" in (system / "questlined.socket").read_text()
    assert set(fake.as_users) == {"carol"}
    assert fake.calls[0] == "loginctl enable-linger carol"
    applied = [call for call in fake.calls if call.startswith("systemd-")]
    assert applied == [
        f"systemd-sysusers {tmp_path}/etc/sysusers.d/questlined.conf",
        f"systemd-tmpfiles --create {tmp_path}/etc/tmpfiles.d/questlined.conf",
    ]
    before, fake.calls = snapshot(tmp_path), []
    assert install(fake.machine(), Wanted(CAROL)).done == []
    assert (snapshot(tmp_path), fake.calls) == (before, [])
    uninstall(fake.machine(), user=False)
    assert [path for path in (tmp_path / "etc").rglob("*") if path.is_file()] == []


def test_a_user_that_could_not_be_made_is_tried_again(tmp_path: Path) -> None:
    """By the next install, as the message has it."""
    fake = FakeSystemd(tmp_path, uid=0)
    fake.linger()
    fake.fails["systemd-sysusers"] = Done(1, "", "no space\n")
    with pytest.raises(Unavailable, match="no space"):
        install(fake.machine(), Wanted(run_as=CAROL))
    fake.fails.clear()
    install(fake.machine(), Wanted(run_as=CAROL))
    assert f"systemd-sysusers {tmp_path}/etc/sysusers.d/questlined.conf" in fake.calls


def test_what_systemd_complains_of_is_told_with_where_to_look(fake: FakeSystemd) -> None:
    fake.fails["systemctl --user start questlined.service"] = Done(1, "", "Job for questlined.service failed.\n")
    with pytest.raises(Unavailable, match=r"start questlined\.service: Job for questlined\.service failed") as failed:
        install(fake.machine(), Wanted())
    assert "journalctl --user -u questlined" in failed.value.hint


def test_what_was_done_before_that_is_known(fake: FakeSystemd) -> None:
    fake.fails["systemctl --user start questlined.service"] = Done(1, "", "Job for questlined.service failed.\n")
    report = Report()
    with pytest.raises(Unavailable):
        install(fake.machine(), Wanted(), report)
    assert report.done[-1] == "ran systemctl --user start questlined.socket"


def test_a_service_that_was_given_up_is_started_all_the_same(fake: FakeSystemd) -> None:
    """Whatever its start limit says; all is reset before the first client can come."""
    install(fake.machine(), Wanted())
    fake.calls, fake.active, fake.failed = [], {TIMER}, {SOCKET, SERVICE}
    install(fake.machine(), Wanted())
    assert fake.calls == [
        "systemctl reset-failed questlined.socket questlined.service",
        "systemctl start questlined.socket",
        "systemctl start questlined.service",
    ]


def test_a_daemon_of_another_version_is_told_of(fake: FakeSystemd) -> None:
    """Also where no unit has changed; one of this version and one that does not answer are not."""
    install(fake.machine(), Wanted())
    for status, version in ((0, "0.0.9"), (0, questlined.__version__), (69, None)):
        daemon = {"version": version} if version else None
        fake.running = Done(status, json.dumps({"version": questlined.__version__, "daemon": daemon}), "")
        notes = install(fake.machine(), Wanted()).notes
        assert any("qlctl reexec" in note for note in notes) is (version == "0.0.9")


def test_a_masked_unit_is_not_unmasked(fake: FakeSystemd) -> None:
    fake.enabled["questlined.socket"] = "masked-runtime"
    with pytest.raises(NotOurs, match=r"questlined\.socket: masked") as refused:
        install(fake.machine(), Wanted())
    assert "unmask questlined.socket" in refused.value.hint


def test_a_file_that_systemd_does_not_use_is_warned_of(fake: FakeSystemd) -> None:
    """XDG_CONFIG_HOME of the shell is not that of the manager, for instance."""
    fake.fails["systemctl --user show questlined.service"] = Done(0, "/usr/lib/systemd/user/questlined.service\n", "")
    report = install(fake.machine(), Wanted())
    assert any("/usr/lib/systemd/user/questlined.service" in warning for warning in report.warnings)


def test_a_file_tells_whose_it_is() -> None:
    """By a digest of what was written, whatever the version that wrote it."""
    text = signed("[Service]\n", "systemctl edit x")
    assert origin(text) is Origin.OURS
    assert origin(text + "\n") is Origin.EDITED
    assert origin(text.replace("Service", "Servicf")) is Origin.EDITED
    assert origin("[Service]\n") is Origin.FOREIGN
    assert origin("") is Origin.FOREIGN


def test_a_report_of_a_dry_run_does_nothing() -> None:
    done: list[str] = []
    Report(dry_run=True).do("run", "x", lambda: done.append("x"))
    assert done == []
