"""How things end: the daemon by kill -9 in the middle of its work, and a quest whose child left its session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.rig import Pipe, Rig, now_ms, rig
from tests.bench.starts import SHELL

GRACE_MS = 300
# One second where a start took 0.3.
TIMES = 3.3
DEAF = "trap '' TERM; echo $$ > {signs}; read line < {hold}"


def killed(rounds: int) -> Iterator[Figure]:
    """kill -9 with 4 running and 4 queued: nothing is lost, nothing lives on or runs twice at once."""
    pairs = [_kill() for _ in range(rounds)]
    again = [after for _, after in pairs]
    yield Figure("kill -9: all four run again after the restart", "s", again, 1.0)
    starts = [start for start, _ in pairs]
    yield Figure("  the same to a start with nothing left", "s", again, TIMES, base=starts, base_name="a start")


def _kill() -> tuple[float, float]:
    """Seconds of a start with an empty queue, and from the restart to the fourth child."""
    with rig(SHELL + "scheduler.max_concurrent = 4\n") as one:
        signs, hold = Pipe(one.daemon.folder / "signs"), Pipe(one.daemon.folder / "hold")
        one.daemon.stop()
        began = now_ms()
        one.restart()
        start = (now_ms() - began) / 1000
        quests = [one.add(f"echo $QUESTLINE_ID $$ > {signs.path}; read line < {hold.path}; :") for _ in range(8)]
        first = dict(signs.line().split() for _ in range(4))
        one.daemon.kill()
        began = now_ms()
        one.restart()
        again: dict[str, str] = {}
        for _ in range(4):
            quest, pid = signs.line().split()
            assert not _alive(first.get(quest)), f"{quest} runs twice at once"
            again[quest] = pid
        spent = (now_ms() - began) / 1000
        assert again.keys() == first.keys(), "others were run before those that were interrupted"
        assert not [pid for pid in first.values() if _alive(pid)], "a child outlived its daemon's restart"
        hold.write("\n" * len(quests))
        assert {one.wait(quest) for quest in quests} == {"done"}
        assert one.counts()["done"] == len(quests)
        _none_left(one)
        signs.close()
        hold.close()
        return start, spent


def cancelled(rounds: int) -> Iterator[Figure]:
    """Cancel of a quest whose child did setsid and hears no SIGTERM: when the next one has its slot."""
    with rig(SHELL + "scheduler.max_concurrent = 1\n") as one:
        signs, hold = Pipe(one.daemon.folder / "signs"), Pipe(one.daemon.folder / "hold")
        samples = [_cancel(one, signs, hold) for _ in range(rounds)]
        signs.close()
        hold.close()
    yield Figure("cancel, child did setsid: slot free after grace", "s", samples, 0.5)


def _cancel(one: Rig, signs: Pipe, hold: Pipe) -> float:
    deaf = DEAF.format(signs=signs.path, hold=hold.path)
    quest = one.add(f"trap '' TERM; setsid sh -c \"{deaf.replace('$', chr(92) + '$')}\" & wait; {deaf}")
    pid = signs.line()
    following = one.add(f"echo next > {signs.path}")
    began = now_ms()
    one.wire.call("io.questline.Quests.Cancel", id=quest)
    assert signs.line() == "next"
    spent = now_ms() - began - GRACE_MS
    assert not _alive(pid), "the child lives on though its slot is free"
    assert one.wait(quest) == "cancelled"
    assert one.wait(following) == "done"
    return max(0.0, spent) / 1000


def _alive(pid: str | None) -> bool:
    try:
        return pid is not None and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _none_left(one: Rig) -> None:
    """No process of any attempt of this daemon is there."""
    mark = f"QUESTLINED_SOCKET={one.daemon.socket}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = environ.read_bytes()
        except OSError:
            continue
        assert mark not in variables or b"QUESTLINE_ATTEMPT=" not in variables, f"{environ} is left"
