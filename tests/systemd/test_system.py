"""The system service, in a lab of its own: whom it serves, as whom it runs, and what a reboot makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.daemon import REPOSITORY, SHELL
from tests.systemd.lab import Lab, packaged
from tests.systemd.test_units import TWICE, fired_in_vain

CONFIG = f'{SHELL}executors.boxed = {{ command = ["sh", "-c", "{{task}}"], isolation = "unit" }}\n'

FOLDER = "/run/questlined"
SOCKET = f"{FOLDER}/questlined.sock"
PROJECT = "/srv/project"
# What an agent finds out about itself.
SELF = "id -un; echo $HOME; umask; grep -E 'NoNewPrivs|CapBnd' /proc/self/status"
SYS_BOOT, SETUID = 22, 7  # capabilities: one that the unit takes away, and one that sudo needs


@pytest.fixture(scope="module")
def system(lab: Lab) -> Iterator[Lab]:
    """A lab with the system units as packaged, running as the user of sysusers.d."""
    own = Lab()
    for name, text in packaged("system").items():
        own.write(f"/etc/systemd/system/{name}", text)
    for kind in ("sysusers", "tmpfiles"):
        own.write(f"/etc/{kind}.d/questlined.conf", (REPOSITORY / f"units/{kind}.d/questlined.conf").read_text())
    own.run("systemd-sysusers")
    own.run("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/questlined.conf")
    own.write("/etc/questlined/questlined.toml", CONFIG)
    own.run("mkdir", "-m", "777", PROJECT)
    own.systemctl("daemon-reload")
    own.systemctl("start", "questlined.socket", "questlined.service")
    yield own
    own.close()
    assert own.left() == []


def qlctl(lab: Lab, *arguments: str, user: str | None = None, check: bool = True) -> tuple[int, str]:
    """What qlctl says about the project; it finds the system's socket by itself."""
    done = lab.run(lab.qlctl, *arguments, user=user, cwd=PROJECT, check=check)
    return done.returncode, done.stdout or done.stderr


def modes(lab: Lab, *paths: str) -> list[str]:
    return lab.run("stat", "--format=%A %U %G", *paths).stdout.splitlines()


def test_its_user_its_home_and_its_queue_are_there(system: Lab) -> None:
    """And the queue is for nobody else to look at."""
    home = ":/var/lib/questline:/usr/sbin/nologin"
    assert system.run("getent", "passwd", "questline").stdout.strip().endswith(home)
    assert modes(system, "/var/lib/questline", "/var/lib/questlined") == [
        "drwxr-x--- questline questline",
        "drwx------ questline questline",
    ]


def test_quests_run_as_its_user_with_what_builds_need(system: Lab) -> None:
    """sudo could work, and what no build needs is out of its reach, too."""
    _, told = qlctl(system, "add", "--wait", "--", SELF)
    name, home, umask, *status = told.splitlines()
    assert (name, home, umask) == ("questline", "/var/lib/questline", "0022")
    fields = dict(line.split(":\t") for line in status)
    assert fields["NoNewPrivs"] == "0"
    assert int(fields["CapBnd"], 16) >> SETUID & 1 == 1
    assert int(fields["CapBnd"], 16) >> SYS_BOOT & 1 == 0


def test_its_socket_is_for_its_group_and_nobody_can_replace_it(system: Lab) -> None:
    """Also after a restart: a RuntimeDirectory= would have given socket and directory to the service's user alone."""
    expected = ["drwxr-xr-x root root", "srw-rw---- questline questline"]
    assert modes(system, FOLDER, SOCKET) == expected
    system.systemctl("restart", "questlined.service")
    assert modes(system, FOLDER, SOCKET) == expected
    member, outsider = system.user("mia"), system.user("oscar")
    system.run("usermod", "--append", "--groups", "questline", member)
    assert qlctl(system, "add", "--wait", "--", "id -un", user=member) == (0, "questline\n")
    status, said = qlctl(system, "list", user=outsider, check=False)
    assert status == 77
    assert SOCKET in said


def test_reload_speaks_to_this_daemon(system: Lab) -> None:
    """And fails with the reason where the new configuration is wrong, which leaves the daemon as it was."""
    system.systemctl("reload", "questlined.service")
    before = system.show("questlined.service", "MainPID")
    system.write("/etc/questlined/questlined.toml", "nonsense = 1\n")
    assert system.systemctl("reload", "questlined.service", check=False).returncode != 0
    system.until(
        lambda: any("nonsense: unknown key" in record["MESSAGE"] for record in system.journal("--unit=questlined")),
        "the reason in the journal",
    )
    system.write("/etc/questlined/questlined.toml", CONFIG)
    assert system.show("questlined.service", "MainPID") == before
    assert qlctl(system, "list")[0] == 0


def test_its_hardened_services_reach_the_daemon(system: Lab) -> None:
    """The daily copy is made, and firing what is not there tells so, once."""
    system.systemctl("start", "questlined-backup.service")
    copies = system.run("find", "/var/lib/questlined/backups", "-name", "*.sqlite").stdout.split()
    assert len(copies) == 1
    assert fired_in_vain(system)


def test_as_a_person_it_runs_in_their_checkouts(system: Lab) -> None:
    """`--run-as` writes their name into User= and SocketUser=; the group's members are let in as before."""
    person = system.user("paula")
    units = packaged("system")
    for name, text in units.items():
        system.write(f"/etc/systemd/system/{name}", text.replace("User=questline\n", f"User={person}\n"))
    system.systemctl("daemon-reload")
    system.systemctl("stop", "questlined.socket", "questlined.service")
    system.systemctl("start", "questlined.service")
    assert modes(system, SOCKET, "/var/lib/questlined") == [
        f"srw-rw---- {person} questline",
        f"drwx------ {person} {person}",
    ]
    system.run("mkdir", "checkout", user=person)
    done = system.run(
        system.qlctl, "add", "--wait", "--", "id -un >who; cat who", user=person, cwd="/home/paula/checkout"
    )
    assert done.stdout == "paula\n"
    assert modes(system, "/home/paula/checkout/who") == ["-rw-r--r-- paula paula"]
    _, cgroup = qlctl(system, "add", "--wait", "boxed", "cat /proc/self/cgroup", user=person)
    slice_ = f"/user.slice/user-{system.uid(person)}.slice/user@{system.uid(person)}.service/questline.slice/"
    assert f"0::{slice_}questline-attempt-q-" in cgroup  # a unit of her own manager, which needs no login


def test_after_a_reboot_both_daemons_go_on_without_a_login_or_a_client(system: Lab) -> None:
    """What ran when the machine went down is run again."""
    rita = system.daemon("rita")
    rita.systemctl("enable", "questlined.service")
    system.systemctl("enable", "questlined.service")
    for enabled in ("questlined.socket", "questlined.service"):
        assert system.show(enabled, "UnitFileState", user=rita.user) == {"UnitFileState": "enabled"}
    qlctl(system, "add", "--", TWICE)
    rita.add(TWICE)
    places = (PROJECT, rita.project)
    for place in places:
        system.until(lambda place=place: (system.root / place[1:] / "pids").exists(), "it runs")
    system.reboot()
    for place in places:
        system.until(lambda place=place: (system.root / place[1:] / "again").exists(), f"it runs again in {place}")
    runs = json.loads(qlctl(system, "list", "--json")[1])
    assert [quest["state"] for quest in runs][:1] == ["done"]
