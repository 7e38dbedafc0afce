"""Which part of the tree is ours to divide, and what an earlier daemon left in it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from questlined.procs import cgroup, procfs
from questlined.procs.cgroup import Cgroups
from questlined.procs.leftovers import Recorded, boot_id, kill_leftovers
from tests.integration.procs.groups import grouped, lone, until_gone
from tests.integration.procs.scene import alive, scene


def test_groups_of_an_earlier_daemon_go_but_for_those_that_are_spared(cgroups: Cgroups) -> None:
    async def play() -> None:
        cgroups.enter()
        with lone(cgroups.make("q-old-1")) as old, lone(cgroups.make("q-kept-1")) as kept:
            cgroups.make("q-empty-1")
            async with grouped(cgroups) as here:
                child = here.spawn("exec sleep 1000", group="q-1-1")
                assert await here.family.clear_groups({"q-kept-1"}) == [old.pid]
                assert {os.path.basename(group) for group in cgroups.groups()} == {"q-kept-1", "q-1-1"}
                assert alive(child.pid)
                assert alive(kept.pid)
                await here.end(child)
                os.kill(kept.pid, signal.SIGKILL)
                await until_gone(cgroups, f"{cgroups.directory}/attempts/q-kept-1")

    asyncio.run(play())


def test_what_does_not_die_in_time_is_named_and_its_group_stays(
    cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cgroups.enter()
    group, other = cgroups.make("q-1-1"), cgroups.make("q-2-1")
    with lone(group) as left, caplog.at_level(logging.WARNING):
        with monkeypatch.context() as patch:
            patch.setattr(cgroup, "kill", lambda group: None)
            assert cgroup.end([group, other], 0) == []
        assert alive(left.pid)
        assert cgroups.groups() == [group]
        assert [record.getMessage() for record in caplog.records] == [
            f"processes of {group} do not end: [{left.pid}], ignoring"
        ]
        assert cgroup.end([group]) == [left.pid]
    assert cgroups.groups() == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EOPNOTSUPP])
def test_a_group_that_may_not_be_killed_is_named_and_holds_up_nothing(
    cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    cgroups.enter()
    group, other = cgroups.make("q-1-1"), cgroups.make("q-2-1")
    write = cgroup._write

    def refuse(path: str, text: str) -> None:
        if path == f"{group}/cgroup.kill":
            raise OSError(number, os.strerror(number), path)
        write(path, text)

    with lone(group) as left, lone(other) as killed, caplog.at_level(logging.WARNING):
        with monkeypatch.context() as patch:
            patch.setattr(cgroup, "_write", refuse)
            assert cgroup.end([group, other]) == [killed.pid]
        assert alive(left.pid)
        assert [record.getMessage() for record in caplog.records] == [
            f"{group} cannot be killed: {os.strerror(number)}, ignoring"
        ]
        cgroup.end([group])


def test_delegation_is_believed_only_where_it_is_said_and_nobody_else_is_there(cgroups: Cgroups) -> None:
    assert cgroup.delegated({}) == cgroups
    with lone(cgroups.directory):
        assert cgroup.delegated({}) is None
    os.setxattr(cgroups.directory, "user.delegate", b"0")
    assert cgroup.delegated({"SYSTEMD_EXEC_PID": str(os.getpid())}) is None
    os.removexattr(cgroups.directory, "user.delegate")
    assert cgroup.delegated({"SYSTEMD_EXEC_PID": str(os.getpid())}) is None  # the main process, but of no service


def test_who_is_of_another_pid_namespace_is_somebody_else(cgroups: Cgroups, tmp_path: Path) -> None:
    look = "import os; from questlined.procs import cgroup; print(cgroup.delegated(os.environ))"
    alone = "mount -t proc proc /proc; exec"
    cgroup.put(f"{cgroups.directory}/..", 0)
    enter = (
        f'echo 0 >"{cgroups.directory}/cgroup.procs"; exec unshare --pid --fork --mount sh -c \'{alone} "$0" -c "$1"\''
    )
    found = subprocess.run(
        ["sh", "-c", f'{enter} "$0" "$1"', sys.executable, look], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"no PID namespace can be made: {found.stderr}")
    assert found.stdout == "None\n"


def test_the_program_after_an_exec_finds_the_same_subtree(cgroups: Cgroups) -> None:
    cgroups.enter()
    assert cgroup.delegated({}) == cgroups
    # A program of ours that could not enter its group.
    with lone(f"{cgroups.directory}/supervisor"):
        assert cgroup.delegated({}, again=True) == cgroups
    cgroups.enter()
    assert cgroup.path_of(os.getpid()) == f"{cgroups.path}/supervisor"


def test_who_stands_beside_a_supervisor_does_not_take_its_subtree(cgroups: Cgroups) -> None:
    cgroups.enter()
    with lone(f"{cgroups.directory}/supervisor"):
        assert cgroup.delegated({}) is None


def test_a_subtree_that_cannot_be_entered_is_not_used() -> None:
    async def play() -> None:
        async with scene(cgroups=Cgroups("/x", "/proc/no/such/place")) as here:
            assert here.family.isolation == "group"
            child = here.spawn("exit 3", group="q-1-1")
            _, ended = await here.finish(child)
            assert (child.cgroup, ended.code) == (None, 3)

    asyncio.run(play())


def test_a_killed_daemons_attempt_is_found_by_its_recorded_group(cgroups: Cgroups) -> None:
    cgroups.enter()
    group = cgroups.make("q-1-1")
    record = Recorded(2**22, 1, boot_id(), group)
    with lone(group) as left:
        assert procfs.marker(left.pid) is None
        assert kill_leftovers("store", [Recorded(2**22, 1, "another boot", group)]) == []
        assert alive(left.pid)
        assert kill_leftovers("store", [record]) == [left.pid]
    assert kill_leftovers("store", [record]) == []
    assert cgroups.groups() == []


def test_a_recorded_group_that_is_no_attempts_or_has_ourselves_in_it_is_left_alone(cgroups: Cgroups) -> None:
    with lone(cgroups.directory) as stranger:
        assert kill_leftovers("store", [Recorded(2**22, 1, boot_id(), cgroups.directory)]) == []
        assert alive(stranger.pid)
    cgroups.enter()
    group = cgroups.make("q-1-1")
    cgroup.put(group, 0)
    assert kill_leftovers("store", [Recorded(2**22, 1, boot_id(), group)]) == []
    cgroup.put(f"{cgroups.directory}/supervisor", 0)
