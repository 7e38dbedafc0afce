"""One cgroup for each attempt, on the part of the tree that a real systemd delegates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import SHELL
from tests.systemd.lab import Lab, LabDaemon

USER = "erin"
SERVER = """
[executors.server]
command = ["sh", "-c", "{task}"]
keep_children = true
"""
SUITES = (
    "tests/conformance/test_executors.py",
    "tests/integration/procs/test_cgroup.py",
    "tests/integration/procs/test_cgroup_subtree.py",
)


@pytest.fixture(scope="module")
def daemon(lab: Lab) -> LabDaemon:
    return lab.daemon(USER, SHELL + SERVER)


def subtree(daemon: LabDaemon) -> Path:
    """The unit's cgroup, seen from here."""
    return Path(f"{daemon.lab.root}/sys/fs/cgroup{daemon.show('ControlGroup')['ControlGroup']}")


def groups(daemon: LabDaemon) -> list[str]:
    """The groups of attempts that there are."""
    return sorted(path.name for path in (subtree(daemon) / "attempts").iterdir() if path.is_dir())


def group_of(lab: Lab, pid: int) -> str:
    """A process's group, by its pid in the lab."""
    lines = lab.run("cat", f"/proc/{pid}/cgroup").stdout.splitlines()
    return next(line.removeprefix("0::") for line in lines if line.startswith("0::"))


def lives(lab: Lab, pid: str) -> bool:
    return lab.run("kill", "-0", pid, check=False).returncode == 0


@pytest.mark.parametrize("user", [None, "frank"], ids=["root", "user"])
def test_executors_keep_their_promises_below_a_delegated_unit(lab: Lab, user: str | None) -> None:
    done = lab.pytest("-q", "-k", "cgroup", *SUITES, user=lab.user(user) if user else None, delegate=True)
    assert " passed" in done.stdout
    assert "no group can be made" not in done.stdout
    assert "no cgroup2" not in done.stdout
    assert "no systemd to start units" not in done.stdout


def test_the_daemon_and_its_attempts_have_groups_of_their_own(daemon: LabDaemon) -> None:
    quest = daemon.add("grep ^0:: /proc/self/cgroup; cat /proc/self/oom_score_adj")
    daemon.qlctl("wait", quest)
    unit = daemon.show("ControlGroup")["ControlGroup"]
    assert daemon.json("version")["daemon"]["isolation"] == "cgroup"
    assert group_of(daemon.lab, daemon.pid) == f"{unit}/supervisor"
    ran, score = daemon.qlctl("logs", quest).stdout.splitlines()
    assert ran == f"0::{unit}/attempts/{quest}-1"
    assert int(score) >= 200
    assert groups(daemon) == []


def test_nothing_of_an_attempt_outlives_it(daemon: LabDaemon) -> None:
    orphan = daemon.add("env -i setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 1000\" & exit' & sleep 0.2")
    daemon.qlctl("wait", orphan)
    pid = daemon.qlctl("logs", orphan).stdout.strip()
    assert pid.isdecimal()
    assert not lives(daemon.lab, pid)
    assert groups(daemon) == []


def test_a_cancel_kills_all_of_one_attempt_and_nothing_of_another(daemon: LabDaemon) -> None:
    script = "env -i setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & exec sleep 1000"
    cancelled, running = daemon.add(script), daemon.add(script)

    def pids() -> list[str] | None:
        said = [daemon.qlctl("logs", quest, check=False).stdout.strip() for quest in (cancelled, running)]
        return said if all(said) else None

    one, other = daemon.lab.until(pids, "both attempts have started their helpers")
    assert groups(daemon) == sorted([f"{cancelled}-1", f"{running}-1"])
    daemon.qlctl("cancel", cancelled)
    daemon.qlctl("wait", cancelled, check=False)
    assert not lives(daemon.lab, one)
    assert lives(daemon.lab, other)
    assert groups(daemon) == [f"{running}-1"]
    daemon.qlctl("cancel", running)
    daemon.qlctl("wait", running, check=False)
    assert groups(daemon) == []


def test_a_killed_daemon_leaves_nothing_and_the_next_one_has_groups_again(daemon: LabDaemon) -> None:
    quest = daemon.add(
        "[ -e ../again ] || { touch ../again; echo begun; setsid sleep 1000 & exec sleep 1000; }; echo done"
    )
    before = daemon.pid
    daemon.lab.until(lambda: "begun" in daemon.qlctl("logs", quest, check=False).stdout, "the attempt runs")
    daemon.kill()
    daemon.qlctl("wait", quest)
    assert daemon.pid != before
    assert group_of(daemon.lab, daemon.pid).endswith("questlined.service/supervisor")
    assert [run["class"] for run in daemon.json("runs", quest)] == ["lost", "ok"]
    assert groups(daemon) == []
    lines = "find /proc -maxdepth 1 -user \"$1\" -exec cat {}/cmdline ';' 2>/dev/null | tr '\\0' ' '"
    everyone = daemon.lab.run("sh", "-c", lines, "sh", USER).stdout
    assert "questlined" in everyone
    assert "sleep 1000" not in everyone


def test_a_restart_and_another_program_go_on_with_groups(daemon: LabDaemon) -> None:
    unit = daemon.show("ControlGroup")["ControlGroup"]
    for again in (daemon.restart, lambda: daemon.qlctl("reexec")):
        again()
        assert group_of(daemon.lab, daemon.pid) == f"{unit}/supervisor"
        quest = daemon.add("grep ^0:: /proc/self/cgroup")
        daemon.qlctl("wait", quest)
        assert daemon.qlctl("logs", quest).stdout.strip() == f"0::{unit}/attempts/{quest}-1"


def test_what_is_kept_on_purpose_keeps_its_group_over_another_program(daemon: LabDaemon) -> None:
    kept = daemon.add("setsid sleep 1000 & echo $!", "server")
    daemon.qlctl("wait", kept)
    pid = daemon.qlctl("logs", kept).stdout.strip()
    daemon.qlctl("reexec")
    assert lives(daemon.lab, pid)
    assert groups(daemon) == [f"{kept}-1"]
    daemon.lab.run("kill", "-9", pid)
    daemon.lab.until(lambda: groups(daemon) == [], "the group is removed when it is empty")


def test_where_nothing_is_delegated_a_daemon_moves_nobody(lab: Lab, daemon: LabDaemon) -> None:
    look = "import os; from questlined.procs.cgroup import delegated; print(delegated(os.environ))"
    for way in (["--pipe", "--wait"], ["--scope"]):
        for user in (None, USER):
            run = ["systemd-run", *(["--user"] if user else []), "--quiet", *way, "--", lab.python, "-c", look]
            found = lab.run(*run, user=user).stdout.strip()
            if user and "--pipe" in way:  # a user's manager of systemd 252 does not tell; this one is alone there
                assert found.startswith("Cgroups(")
            else:
                assert found == "None"
    assert lab.run(lab.python, "-c", look).stdout.strip() == "None"
