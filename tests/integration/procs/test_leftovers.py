"""What a killed daemon left is found by marker, by record and by descent; what is not its own is spared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from questlined.procs import procfs
from questlined.procs.leftovers import Recorded, boot_id, kill_leftovers, start_ticks
from tests.integration.procs.scene import PATH, Lines, alive

SLEEP = "echo $$; exec sleep 1000"


class Crashed:
    """Processes whose parent was killed, so that they are nobody's but init's."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.store = str(uuid.uuid4())
        self.pids: list[int] = []

    def leave(self, script: str, count: int = 1, marker: str = "q-1:1", store: str = "") -> list[int]:
        """Run a script in a session of its own below a process that is then killed; the pids that it printed."""
        given = f"{store or self.store}:{marker}"
        env = {"PATH": PATH, "SLEEP": SLEEP, procfs.MARKER: given}
        argv = ["sh", "-c", 'setsid sh -c "$LEFT" & wait']
        daemon = subprocess.Popen(argv, env={**env, "LEFT": script}, stdout=self.lines.sink, start_new_session=True)
        pids = [self.lines.pid() for _ in range(count)]
        self.pids += pids
        daemon.kill()
        daemon.wait()
        return pids

    def close(self) -> None:
        for pid in self.pids:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.lines.close()


@pytest.fixture
def crashed() -> Iterator[Crashed]:
    scene = Crashed()
    yield scene
    scene.close()


def record(pid: int, later: int = 0, boot: str = "") -> Recorded:
    return Recorded(pid, (start_ticks(pid) or 0) + later, boot or boot_id())


def test_every_process_with_our_marker_dies_and_is_named(crashed: Crashed) -> None:
    left = crashed.leave('setsid sh -c "$SLEEP" & (sh -c "$SLEEP" &); eval "$SLEEP"', count=3)
    left += crashed.leave(SLEEP, marker="q-2:7")
    assert all(alive(pid) for pid in left)
    assert set(kill_leftovers(crashed.store, [])) >= set(left)
    assert not any(alive(pid) for pid in left)
    assert kill_leftovers(crashed.store, []) == []


def test_what_hangs_below_a_marked_process_dies_without_a_marker(crashed: Crashed) -> None:
    left = crashed.leave(f"env -i setsid sh -c '{SLEEP}' & eval \"$SLEEP\"", count=2)
    kill_leftovers(crashed.store, [])
    assert not any(alive(pid) for pid in left)


def test_another_stores_and_spared_processes_live_on(crashed: Crashed) -> None:
    other = crashed.leave(f"env -i setsid sh -c '{SLEEP}' & eval \"$SLEEP\"", count=2, store=str(uuid.uuid4()))
    spared = crashed.leave(f"env -i setsid sh -c '{SLEEP}' & eval \"$SLEEP\"", count=2, marker="q-3:1")
    longer = crashed.leave(SLEEP, store=crashed.store + "x")
    ended = crashed.leave(SLEEP)
    assert set(kill_leftovers(crashed.store, [], {f"{crashed.store}:q-3:1"})) >= set(ended)
    assert all(alive(pid) for pid in other + spared + longer)
    assert not any(alive(pid) for pid in ended)


def test_a_nested_daemons_attempts_are_not_touched(crashed: Crashed) -> None:
    nested = f'{procfs.MARKER}=other:q-1:1 setsid sh -c "$SLEEP" & eval "$SLEEP"'
    inner, outer = sorted(crashed.leave(nested, count=2), key=lambda pid: procfs.marker(pid) != "other:q-1:1")
    kill_leftovers(crashed.store, [])
    assert alive(inner)
    assert not alive(outer)


def test_a_recorded_leader_dies_with_its_group_although_unmarked(crashed: Crashed) -> None:
    group = "echo $$; (sh -c 'echo $$; exec sleep 1000' &) ; exec sleep 1000"
    leader, member = crashed.leave(f'exec env -i setsid -w sh -c "{group}"'.replace("$$", "\\$\\$"), count=2)
    assert procfs.marker(leader) is None
    assert member not in procfs.children(leader)
    assert kill_leftovers(crashed.store, []) == []
    assert set(kill_leftovers(crashed.store, [record(leader)])) >= {leader, member}
    assert not alive(leader)
    assert not alive(member)


def test_a_record_of_another_process_or_another_boot_kills_nobody(crashed: Crashed) -> None:
    (stranger,) = crashed.leave(SLEEP, store="someone")
    unmarked = subprocess.Popen(["sleep", "1000"], env={}, start_new_session=True, executable="/bin/sleep")
    crashed.pids.append(unmarked.pid)
    records = [record(unmarked.pid, later=1), record(unmarked.pid, boot="another boot"), record(stranger)]
    assert kill_leftovers(crashed.store, records) == []
    assert unmarked.poll() is None
    assert alive(stranger)
    assert kill_leftovers(crashed.store, [record(unmarked.pid)]) == [unmarked.pid]
    assert unmarked.wait() == -signal.SIGKILL


def test_the_searching_process_survives_its_own_marker(crashed: Crashed) -> None:
    program = (
        "import sys; from questlined.procs.leftovers import kill_leftovers; print(kill_leftovers(sys.argv[1], []))"
    )
    (left,) = crashed.leave(SLEEP)
    env = {"PATH": PATH, procfs.MARKER: f"{crashed.store}:q-1:1"}
    argv = [sys.executable, "-c", program, crashed.store]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(left) in done.stdout
    assert not alive(left)
