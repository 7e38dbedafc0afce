"""The lab itself: it ends with the tests however they end, and leaves nothing."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import REPOSITORY
from tests.systemd import machine
from tests.systemd.lab import Lab

HOLD = "from tests.systemd.lab import Lab\nlab = Lab()\nprint(lab.name, flush=True)\ninput()"
LAUNCHER = str(Path(__file__).with_name("systemd-lab"))


@pytest.fixture
def own(lab: Lab) -> Iterator[Lab]:
    """A second lab, beside that of all tests, for a test that ends it."""
    running = Lab()
    yield running
    running.close()


def test_a_lab_that_is_up_is_seen_and_one_that_was_closed_left_nothing(own: Lab) -> None:
    """Also with a process of it that sits in namespaces of its own and ignores what it is told."""
    script = "trap '' TERM HUP INT; echo up; exec sleep 1000"
    stubborn = own.start("unshare", "--mount", "sh", "-c", script)
    assert stubborn.stdout is not None
    assert stubborn.stdout.readline() == "up\n"
    seen = own.left()
    assert any(trace.startswith("cgroup") for trace in seen)
    assert len([trace for trace in seen if trace.startswith("process")]) > 5
    own.close()
    assert own.left() == []
    stubborn.communicate()


def test_a_lab_dies_with_the_tests_that_are_killed(lab: Lab) -> None:
    """kill -9 of the process that asked for it. Its power-off may come to nothing: then the next boot clears up."""
    argv = [sys.executable, "-c", HOLD]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        name = holder.stdout.readline().strip()
        leader = machine.leader_of(name)
        ended, namespaces = os.pidfd_open(leader), machine.traces(leader)
        holder.send_signal(signal.SIGKILL)
    assert select.select([ended], [], [], 20)[0]
    os.close(ended)
    lab.until(lambda: not machine.left(name, namespaces), "nothing is left of it")


def test_a_boot_sweeps_what_a_killed_lab_left(lab: Lab) -> None:
    """Its cgroups, empty as they are; not those of a lab that is up."""
    stale = machine.cgroup_of(f"stale-{os.getpid()}")
    (stale / "payload/system.slice").mkdir(parents=True)
    own = Lab()
    own.close()
    assert not stale.exists()
    assert lab.run("true").returncode == 0


def test_the_status_of_a_command_is_the_launchers(lab: Lab) -> None:
    """A command that is killed, too; and 125 with the reason where there is no such lab."""
    for script, status in [("exit 7", 7), ("kill -TERM $$", 143)]:
        argv = [LAUNCHER, "exec", "--name", lab.name, "--", "sh", "-c", script]
        assert subprocess.run(argv, check=False).returncode == status
    none = subprocess.run(
        [LAUNCHER, "exec", "--name", "none", "--", "true"], capture_output=True, text=True, check=False
    )
    assert none.returncode == 125
    assert none.stderr == "systemd-lab: lab 'none' is not up\n"


def test_the_check_says_why_a_lab_cannot_run(lab: Lab, tmp_path: Path) -> None:
    """No root, a program that is not there, and a container that may not mount."""
    lacks = subprocess.run(
        [sys.executable, LAUNCHER, "check"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert lacks.returncode == 125
    assert lacks.stderr == "systemd-lab: systemd-nspawn not found (Debian package: systemd-container)\n"
    no_admin = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", sys.executable, LAUNCHER, "check"]
    contained = subprocess.run(no_admin, capture_output=True, text=True, check=False)
    assert contained.returncode == 125
    assert "no mount namespace with an overlay of / can be made here: unshare" in contained.stderr
    argv = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-S", "-E", "-"]
    no_root = subprocess.run(
        argv, input=Path(machine.__file__).read_text() + "\ncheck()", capture_output=True, text=True, check=False
    )
    assert "a lab must be run by root" in no_root.stderr


def test_files_of_the_lab_are_its_own(lab: Lab) -> None:
    """It sees this machine's files, and what it writes stays inside; the code under test cannot be written at all."""
    lab.run("sh", "-c", "echo changed >/etc/hostname && echo made >/var/lib/made-in-lab")
    assert "changed" not in Path("/etc/hostname").read_text()
    assert not Path("/var/lib/made-in-lab").exists()
    assert (lab.root / "var/lib/made-in-lab").read_text() == "made\n"
    refused = lab.run("touch", "/opt/questline/checkout/README.md", check=False)
    assert "Read-only file system" in refused.stderr


def test_a_user_has_a_manager_a_bus_and_a_journal(lab: Lab) -> None:
    user = lab.user("lena")
    assert lab.systemctl("is-system-running", "--wait", user=user).stdout == "running\n"
    lab.run("systemd-run", "--user", "--wait", "--quiet", "--unit=says", "echo", "hello", user=user)

    def heard() -> bool:
        # Not by its unit: of a program that is over so soon, journald may not learn it any more.
        return "hello" in [record["MESSAGE"] for record in lab.journal("SYSLOG_IDENTIFIER=echo", user=user)]

    lab.until(heard, "what the unit said")  # its output goes another way than its end


def test_without_root_the_tests_here_are_skipped_and_say_why(lab: Lab) -> None:
    """Where they are asked for, they fail."""
    user = lab.user("lena")
    one = "tests/systemd/test_lab.py::test_files_of_the_lab_are_its_own"
    skipped = lab.pytest(one, "-rs", user=user)
    assert "1 skipped" in skipped.stdout
    assert "no lab: a lab must be run by root" in skipped.stdout
    failed = lab.pytest(one, user=user, env={"QUESTLINE_TEST_SYSTEMD": "1"}, check=False)
    assert failed.returncode == 1
    assert "no lab: a lab must be run by root" in failed.stdout
