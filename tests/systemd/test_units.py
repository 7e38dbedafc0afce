"""The packaged units: systemd takes each without a word, and they do what their comments say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.daemon import REPOSITORY
from tests.systemd.lab import Lab, LabDaemon, packaged

USER = "ursula"
KINDS = ("user", "system")
INSTANCE = "r-0123456789ab"
# How exposed systemd says that a system unit is, in tenths of ten. The daemon's own is what agents need that build
# software; the others only speak to it.
EXPOSURE = {"questlined.service": 85, "questlined-backup.service": 8, "questline-recurring@.service": 8}
RELIED_ON = {
    "Type": "notify",
    "NotifyAccess": "main",
    "Restart": "on-failure",
    "KillMode": "mixed",
    "Delegate": "yes",
    "DelegateControllers": "cpu memory pids",
    "OOMPolicy": "continue",
    "ManagedOOMPreference": "avoid",
    "WatchdogUSec": "1min",
    "TimeoutStopUSec": "30s",
    "RuntimeDirectory": "questlined",
    "RuntimeDirectoryPreserve": "yes",
    "StateDirectory": "",
    "NoNewPrivileges": "no",
    "StartLimitIntervalUSec": "5min",
    "StartLimitBurst": "20",
}
# The first time it runs until somebody ends it, with a child in a session of its own; the second time it is done.
TWICE = "test -e began && exec touch again; touch began; setsid sleep 1000 & echo $! $$ >pids; exec sleep 1000"
# A client that waits for an answer or for the end of the connection.
KNOCK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    try:
        client.sendall(b"x")
        assert not client.recv(100)
    except ConnectionResetError:
        pass
"""


def complaints(lab: Lab, kind: str, units: dict[str, str]) -> str:
    """What systemd-analyze says about these units together. It exits 0 on unknown keys: only silence is good."""
    folder = lab.run("mktemp", "-d", "/opt/units.XXXX").stdout.strip()
    lab.run("chmod", "755", folder)
    files = [f"{folder}/{name.replace('@.', f'@{INSTANCE}.')}" for name in sorted(units)]
    for file, text in zip(files, (units[name] for name in sorted(units)), strict=True):
        lab.write(file, text)
    user = lab.user(USER) if kind == "user" else None
    scope = ["--user"] if kind == "user" else []
    done = lab.run("systemd-analyze", "verify", "--man=no", *scope, *files, user=user, check=False)
    lab.run("rm", "-r", folder)
    return done.stderr if done.returncode == 0 else done.stderr or f"exit {done.returncode}"


def as_packaged(kind: str) -> dict[str, str]:
    """The units as they are in the repository, for programs in /usr/bin."""
    return {name: (REPOSITORY / "units" / kind / name).read_text() for name in packaged(kind)}


@pytest.fixture
def distribution(lab: Lab) -> Iterator[None]:
    """The programs where a distribution has them."""
    programs = {"/usr/bin/questlined": lab.questlined, "/usr/bin/qlctl": lab.qlctl}
    for link, target in programs.items():
        lab.run("ln", "-s", target, link)
    yield
    lab.run("rm", *programs)


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize("kind", KINDS)
def test_systemd_has_nothing_to_say_about_the_packaged_units(lab: Lab, kind: str) -> None:
    assert complaints(lab, kind, as_packaged(kind)) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_systemd_has_nothing_to_say_about_the_rendered_units(lab: Lab, kind: str) -> None:
    """And it has about each of them with a word that it does not know, or a program that is not there."""
    units = packaged(kind)
    assert complaints(lab, kind, units) == ""
    for name, text in units.items():
        assert "Descripzion" in complaints(lab, kind, units | {name: text.replace("Description=", "Descripzion=")})
    absent = units["questlined.service"].replace("/bin/questlined", "/bin/questlinde")
    assert "questlinde is not executable" in complaints(lab, kind, units | {"questlined.service": absent})


def test_system_units_are_no_more_exposed_than_noted(lab: Lab) -> None:
    """Nor less, so that the note is true."""
    for name, threshold in EXPOSURE.items():
        file = lab.write(f"/opt/security/{name}", packaged("system")[name])
        judge = ["systemd-analyze", "security", "--offline=yes", "--no-pager"]
        lab.run(*judge, f"--threshold={threshold}", file)
        assert lab.run(*judge, f"--threshold={threshold - 1}", file, check=False).returncode != 0


@pytest.fixture(scope="module")
def daemon(lab: Lab) -> LabDaemon:
    """A user's daemon, as the packaged units have it."""
    return lab.daemon(USER)


def test_the_manager_understood_what_the_daemon_relies_on(daemon: LabDaemon) -> None:
    assert daemon.show(*RELIED_ON) == RELIED_ON
    assert daemon.show("RestartPreventExitStatus") == {"RestartPreventExitStatus": "78"}


def test_what_runs_when_the_service_is_restarted_is_interrupted_and_runs_again(daemon: LabDaemon) -> None:
    """Nothing of its first attempt lives on, in whatever session, and none of its tries is used up."""
    quest = begun(daemon)
    daemon.restart()
    assert runs_again(daemon, quest)
    assert daemon.show("Result", "ExecMainStatus") == {"Result": "success", "ExecMainStatus": "0"}


def test_a_daemon_that_is_killed_comes_back_by_itself(daemon: LabDaemon) -> None:
    """And what it left running is killed and run again."""
    quest, before = begun(daemon), daemon.pid
    daemon.kill()
    daemon.lab.until(lambda: daemon.pid not in (0, before), "another daemon")
    assert runs_again(daemon, quest)
    assert int(daemon.show("NRestarts")["NRestarts"]) == 1


def test_a_wrong_configuration_ends_the_service_until_it_is_mended(daemon: LabDaemon) -> None:
    """It says what is wrong and where; clients are told that nobody is there, and the queue is as it was."""
    quest = daemon.add("true")
    daemon.qlctl("wait", quest)
    right = daemon.lab.run("cat", daemon.config).stdout
    daemon.lab.write(f"{daemon.drop_ins}/few.conf", "[Unit]\nStartLimitBurst=3\n", user=USER)
    daemon.systemctl("daemon-reload")
    daemon.lab.write(daemon.config, f"{right}\nexecutor.comand = []\n", user=USER)
    assert daemon.systemctl("restart", "questlined.service", check=False).returncode != 0
    daemon.lab.run(daemon.lab.python, "-c", KNOCK, daemon.socket, user=USER, timeout_s=20)
    assert daemon.lab.show("questlined.socket", "Result", user=USER) == {"Result": "service-start-limit-hit"}
    wrong = f"{daemon.config}:5: executor.comand: unknown key (did you mean executor.command?)"
    daemon.lab.until(lambda: wrong in daemon.log(), "the reason in the journal")
    daemon.lab.write(daemon.config, right, user=USER)
    daemon.systemctl("reset-failed")
    daemon.start()
    assert quest in [known["id"] for known in daemon.json("list")]


def test_projects_below_tmp_are_the_ones_that_people_see(daemon: LabDaemon) -> None:
    """The daemon has no /tmp of its own, or it would look for a project of theirs in another place."""
    there = daemon.lab.run("mktemp", "-d", user=USER).stdout.strip()
    daemon.qlctl("add", "--wait", "--", "echo made >file", cwd=there)
    assert daemon.lab.run("cat", f"{there}/file").stdout == "made\n"


def test_the_backup_timer_is_set_for_once_a_day(daemon: LabDaemon) -> None:
    """Its service makes a copy of the queue that is one."""
    daemon.systemctl("start", "questlined-backup.timer")
    timer = daemon.lab.show("questlined-backup.timer", "Persistent", "RandomizedDelayUSec", "TimersCalendar", user=USER)
    assert (timer["Persistent"], timer["RandomizedDelayUSec"]) == ("yes", "1h")
    assert "OnCalendar=*-*-* 00:00:00" in timer["TimersCalendar"]
    daemon.systemctl("stop", "questlined-backup.timer")
    daemon.systemctl("start", "questlined-backup.service")
    copies = daemon.lab.run("find", f"{daemon.state}/backups", "-name", "*.sqlite", user=USER).stdout.split()
    assert len(copies) == 1
    check = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('pragma quick_check').fetchone())"
    assert daemon.lab.run(daemon.lab.python, "-c", check, copies[0], user=USER).stdout == "ok\n"


def test_a_timer_whose_recurrence_is_gone_fails_once_and_says_so(daemon: LabDaemon) -> None:
    """Without trying again, as it does where the daemon is not there for a while."""
    assert fired_in_vain(daemon.lab, USER)


def fired_in_vain(lab: Lab, user: str | None = None) -> bool:
    """Whether the service of a recurrence that there is not ends for good with the daemon's own words."""
    unit = f"questline-recurring@{INSTANCE}.service"
    assert lab.systemctl("start", unit, user=user, check=False).returncode != 0
    ended = lab.show(unit, "ActiveState", "ExecMainStatus", "NRestarts", user=user)
    assert ended == {"ActiveState": "failed", "ExecMainStatus": "1", "NRestarts": "0"}
    # Of a user's program that is over so soon, journald may not learn the unit any more.
    whose = (f"_UID={lab.uid(user)}", "SYSLOG_IDENTIFIER=qlctl") if user else (f"_SYSTEMD_UNIT={unit}",)
    return lab.until(lambda: any(INSTANCE in record["MESSAGE"] for record in lab.journal(*whose)), "what it said")


def begun(daemon: LabDaemon) -> str:
    """A quest whose first attempt runs."""
    daemon.lab.run("rm", "-f", *(f"{daemon.project}/{name}" for name in ("began", "again", "pids")))
    quest = daemon.add(TWICE)
    daemon.lab.until(lambda: len(_pids(daemon)) == 2, "the attempt has begun")
    return quest


def runs_again(daemon: LabDaemon, quest: str) -> bool:
    """Whether its second attempt ended well, the first was interrupted, and no process of either lives."""
    daemon.qlctl("wait", quest)
    told = daemon.json("show", quest)
    assert [run["outcome"] for run in told["runs"]] == ["interrupted", "done"]
    alive = [pid for pid in _pids(daemon) if daemon.lab.run("test", "-e", f"/proc/{pid}", check=False).returncode == 0]
    return alive == []


def _pids(daemon: LabDaemon) -> list[str]:
    return daemon.lab.run("cat", f"{daemon.project}/pids", check=False).stdout.split()
