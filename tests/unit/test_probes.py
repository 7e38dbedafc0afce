"""Points at which a test crashes the daemon or makes it hang, and how they are named."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from questlined import probes
from tests.support.daemon import Daemon


class Never(threading.Event):
    """It comes when the test is over, and tells who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.awaited.set()
        return super().wait(timeout)


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> Never:
    """What hangs waits for this; after the test all is as it was."""
    for name in ("armed", "_target", "_remaining", "_hangs"):
        monkeypatch.setattr(probes, name, getattr(probes, name))
    made = Never()
    monkeypatch.setattr(probes, "_never", made)
    return made


def test_the_thread_that_reaches_its_point_the_nth_time_hangs_and_no_other(never: Never) -> None:
    probes.arm_hang("claim.before:2")
    passed = list[int]()

    def reach() -> None:
        for number in range(3):
            probes.reached("claim.after")
            probes.reached("claim.before")
            passed.append(number)

    hanging = threading.Thread(target=reach, daemon=True)
    hanging.start()
    assert never.awaited.wait(30)
    assert passed == [0]
    probes.reached("claim.before")
    assert hanging.is_alive()
    never.set()
    hanging.join()
    assert passed == [0, 1, 2]


def test_a_service_that_begins_its_round_hangs_alone() -> None:
    async def run() -> None:
        probes.arm_hang("scheduler.round")
        await probes.round_begins("rescuer.round")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await probes.round_begins("scheduler.round")
        await probes.round_begins("scheduler.round")

    asyncio.run(run())


@pytest.mark.parametrize("arm", [probes.arm, probes.arm_hang])
def test_an_unknown_point_is_refused(arm: Callable[[str], None]) -> None:
    with pytest.raises(ValueError, match=r"unknown point 'nowhere'; known: .*claim\.before"):
        arm("nowhere:2")


def test_a_round_is_no_place_to_crash() -> None:
    """Nothing of it is half done."""
    with pytest.raises(ValueError, match="unknown point"):
        probes.arm("scheduler.round")


@pytest.mark.parametrize("variable", ["QUESTLINED_CRASH_AT", "QUESTLINED_HANG_AT"])
def test_a_daemon_does_not_start_with_an_unknown_point(tmp_path: Path, variable: str) -> None:
    daemon = Daemon(tmp_path)
    daemon.start(ready=False, **{variable: "nowhere"})
    assert daemon.wait() == 2
    assert f"unset {variable}" in daemon.log.read_text()
