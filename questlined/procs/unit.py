"""One transient unit: watched by its main process, stopped through its manager, and what became of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

from questlined.procs import cgroup, pidfd, procfs, unit_record
from questlined.procs.bus import NoBus, Refused
from questlined.procs.child import Exit, Trace
from questlined.procs.systemd import NO_SUCH_UNIT, Systemd
from questlined.procs.unit_record import Record

log = logging.getLogger(__name__)

# What is left when the main process has ended gets SIGTERM from systemd, and so long to obey.
LINGER_S = 0.5
STUCK_AFTER_S = 10.0
# Between two tries to reach a manager that went away while something may live: nobody tells when it is back.
AGAIN_S = 1.0
# Where what lives may be killed: not in stop-post, which writes the record.
_KILLABLE = {"start", "running", "stop", "stop-sigterm", "stop-watchdog", "final-sigterm"}


class Unit:
    """An attempt's unit. `pid` and `started` are of its main process, 0 where it had ended before it was seen; `cgroup`
    is its directory. For the loop's thread.

    `exited` is set when the main process has ended. `stuck` names processes that were killed and live on.
    """

    survives = True

    def __init__(self, systemd: Systemd, name: str, directory: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._systemd, self.name, self._directory = systemd, name, directory
        self.pid = self.started = 0
        self.cgroup: str | None = None
        self.exited = asyncio.Event()
        self.stuck: list[int] = []
        self._pidfd = -1
        self._quiet = 0
        self._told = False

    @property
    def trace(self) -> Trace:
        """Who it is."""
        return Trace(self.pid, self.started, self.cgroup, self.name)

    def watch(self, pid: int, last_pid: int = 0, path: str = "") -> None:
        """See the end of its main process; one that is no more has ended, and had `last_pid`. `path` is its cgroup as
        its manager says. Raises OSError (out of descriptors)."""
        self.pid, self.cgroup = last_pid, cgroup.directory_at(path) if path else None
        try:
            self._pidfd = os.pidfd_open(pid) if pid else -1
        except ProcessLookupError:
            self._pidfd = -1
        try:
            # The number cannot become another's from here on; before, it could.
            started = procfs.start_ticks(pid) if self._pidfd >= 0 and self._has(pid) else None
            if started is not None:
                self.pid, self.started = pid, started
                self.cgroup = cgroup.directory_of(pid) or self.cgroup
                self._loop.add_reader(self._pidfd, self._ended)
                return
        except OSError:
            os.close(self._pidfd)
            self._pidfd = -1
            raise
        self._ended()

    async def take_down(self, grace_s: float, *, at_once: bool = False) -> None:
        """SIGTERM to all of it, SIGKILL to all of it after `grace_s`, or at once; returns when it has exited."""
        if self.exited.is_set():
            return
        if not at_once:
            try:
                async with asyncio.timeout(grace_s):
                    await self._ask_to_stop()
                    await self.exited.wait()
                return
            except TimeoutError:
                pass
        if not self.exited.is_set():
            self._kill()
        await self.exited.wait()

    async def sweep(self, keep: bool = False) -> None:
        """After the exit: returns when nothing of it lives any more. `keep` is for others: a unit ends whole."""
        try:
            patience_s = LINGER_S
            while not await self._is_over(patience_s):
                patience_s = STUCK_AFTER_S
        finally:
            self.stuck.clear()

    async def reap(self) -> Exit:
        """How it ended, by its own record or else by its manager; then it is forgotten there. After the sweep."""
        record = await asyncio.to_thread(unit_record.read, self._directory)
        try:
            if record is None:
                record = await self._remembered()
            await self._systemd.release(self.name)
        except (NoBus, Refused) as error:
            log.debug("%s: %s", self.name, error)
        return record.exit() if record is not None else Exit(None, None, None, 0)

    def let_go(self) -> None:
        """Watch it no more and touch nothing of it."""
        self._ended()

    def _has(self, pid: int) -> bool:
        """Whether a process is in the unit, as far as its cgroup tells: there are systems without cgroup2."""
        path = cgroup.path_of(pid)
        return path in {None, "/"} or self.name in str(path).split("/")

    def _ended(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.exited.set()

    async def _ask_to_stop(self) -> None:
        try:
            await self._systemd.ask_to_stop(self.name)
        except (NoBus, Refused) as error:
            self._complain(error)  # nobody is there who would do it
            if self.cgroup is not None:
                _signal_all(self.cgroup, signal.SIGTERM)

    def _kill(self) -> None:
        try:
            if self.cgroup is not None:
                cgroup.kill(self.cgroup)
        except OSError as error:
            log.debug("%s: %s", self.cgroup, error)
        if self._pidfd >= 0:
            pidfd.send(self._pidfd, signal.SIGKILL)

    async def _is_over(self, patience_s: float) -> bool:
        """Whether the unit has stopped within that time. What then lives on is killed."""
        try:
            async with asyncio.timeout(patience_s):
                await self._systemd.stop(self.name)
            return await self._is_inactive()
        except TimeoutError:
            await self._end_rest(told=patience_s >= STUCK_AFTER_S)
        except Refused as error:
            if error.name == NO_SUCH_UNIT:
                return True
            self._complain(error)
            await asyncio.sleep(AGAIN_S)
        except NoBus as error:
            self._complain(error)
            if self._is_empty(patient=patience_s < STUCK_AFTER_S):
                return True
            await asyncio.sleep(AGAIN_S)
        return False

    def _complain(self, error: Exception) -> None:
        if not self._told:
            log.warning("systemd cannot be asked to stop %s: %s", self.name, error)
        self._told = True

    async def _is_inactive(self) -> bool:
        (state,) = await self._systemd.facts(self.name, "ActiveState")
        return state in {"inactive", "failed"}

    async def _end_rest(self, *, told: bool) -> None:
        try:
            (state,) = await self._systemd.facts(self.name, "SubState")
            living = cgroup.pids(self.cgroup) if self.cgroup else []
        except (NoBus, Refused, OSError):
            return
        if state in _KILLABLE:
            self._kill()
        if told:
            self.stuck[:] = living
            if living:
                log.warning("killed processes of %s do not end: %s, waiting", self.name, self.stuck)

    def _is_empty(self, *, patient: bool) -> bool:
        """Whether nothing lives, as seen without the manager. What does is killed, unless one is `patient`.

        The manager may be well and only its bus away: then it asks what is left to end, has its record written, and
        removes the group. One that is empty twice in a row has no manager any more.
        """
        if self.cgroup is None or not os.path.exists(self.cgroup):
            return True
        try:
            left = cgroup.populated(self.cgroup)
        except OSError:  # it could not be looked at
            return False
        if left and not patient:
            _signal_all(self.cgroup, signal.SIGKILL)
        self._quiet = 0 if left else self._quiet + 1
        return self._quiet > 1

    async def _remembered(self) -> Record | None:
        """What the manager knows of a unit that it still holds: a failed one, or one that we held."""
        load, result, code, status, cpu = await self._systemd.facts(
            self.name, "LoadState", "Result", "ExecMainCode", "ExecMainStatus", "CPUUsageNSec"
        )
        if load == "not-found" or code == 0:  # says "success" of what it does not know
            return None
        words = {os.CLD_EXITED: "exited", os.CLD_DUMPED: "dumped"}
        cpu_ms = 0 if cpu >= 2**63 else round(cpu / 1_000_000)
        return Record(result, words.get(code, "killed"), str(status), cpu_ms=cpu_ms)


def _signal_all(group: str, number: signal.Signals) -> None:
    """Signal each process of a group. Out of descriptors none is: who asks looks again."""
    try:
        found = [seen for pid in cgroup.pids(group) if (seen := procfs.stat(pid)) is not None]
        # A number may have become another's between the two looks; that one is in another group.
        found = [seen for seen in found if (cgroup.directory_of(seen.pid) or "").startswith(group)]
    except OSError as error:
        log.debug("%s: %s", group, error)
        return
    for seen in found:
        pidfd.send_same(seen, number)
