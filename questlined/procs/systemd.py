"""systemd's manager as its D-Bus interface shows it: units by name, and jobs that are waited for.

The connection is made when something is asked, and anew after it was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from questlined.procs.bus import BUS, Bus, NoBus, Refused, Signal

Property = tuple[str, tuple[str, Any]]  # a name, and a D-Bus signature with its value

JOB_S: Final = 30.0
_NAME: Final = "org.freedesktop.systemd1"
_PATH: Final = "/org/freedesktop/systemd1"
_JOBS: Final = f"type='signal',sender='{_NAME}',path='{_PATH}',interface='{_NAME}.Manager',member='JobRemoved'"
_OWNER: Final = f"type='signal',sender='{BUS[0]}',interface='{BUS[2]}',member='NameOwnerChanged',arg0='{_NAME}'"
NO_SUCH_UNIT: Final = f"{_NAME}.NoSuchUnit"
UNIT_EXISTS: Final = f"{_NAME}.UnitExists"
# What the bus answers in the manager's place, such as while it executes itself anew: after an update, for a moment.
_ABSENT: Final = {f"{BUS[0]}.Error.{name}" for name in ("ServiceUnknown", "NameHasNoOwner")}
_LOST: Final = {f"{BUS[0]}.Error.{name}" for name in ("NoReply", "Disconnected")}
BACK_S: Final = 5.0


class Listed(NamedTuple):
    """A unit that is loaded."""

    name: str
    description: str
    active: str


class Systemd:
    """One manager, the system's or a user's, behind the bus that listens on `address`. For the loop's thread.

    Every call raises NoBus where the manager cannot be asked, or did not answer in time: then whether it did what it
    was asked is unknown. Refused is its own answer.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._bus: Bus | None = None
        self._connecting = asyncio.Lock()
        self._failures = 0
        self._failure = ""
        self._manager: str | None = None  # the manager's own name on the bus, which nobody else can send under
        self._there = asyncio.Event()  # whether it is on the bus
        self._asking = 0
        self._removed: dict[str, str] = {}  # jobs that were over before we knew their names
        self._jobs: dict[str, asyncio.Future[str]] = {}

    async def start(self, unit: str, properties: Sequence[Property]) -> str:
        """Make a transient unit and start it; how its job ended: "done" when it runs. One that exists is Refused."""
        return await self._job("StartTransientUnit", "ssa(sv)a(sa(sv))", (unit, "fail", list(properties), []))

    async def stop(self, unit: str) -> str:
        """Stop a unit; how that job ended: "done" when nothing of it lives any more."""
        return await self._job("StopUnit", "ss", (unit, "replace"))

    async def ask_to_stop(self, unit: str) -> None:
        """The same, without waiting for it."""
        await self._call("StopUnit", "ss", (unit, "replace"))

    async def kill(self, unit: str, number: int) -> None:
        """Send a signal to every process of a unit."""
        await self._call("KillUnit", "ssi", (unit, "all", number))

    async def hold(self, unit: str) -> None:
        """Keep a unit loaded after its end, until `release` or the end of our connection."""
        await self._call("RefUnit", "s", (unit,))

    async def release(self, unit: str) -> None:
        """Let a unit that has ended be forgotten, failed or not."""
        for member in ("ResetFailedUnit", "UnrefUnit"):
            try:
                await self._call(member, "s", (unit,))
            except Refused:  # it is forgotten already, or was not held by us
                pass

    async def units(self, pattern: str) -> list[Listed]:
        """The loaded units with such names."""
        (rows,) = await self._call("ListUnitsByPatterns", "asas", ([], [pattern]))
        return [Listed(row[0], row[1], row[3]) for row in rows]

    async def environment(self) -> list[str]:
        """The NAME=value that the manager gives every unit."""
        return list(await self._get(_PATH, f"{_NAME}.Manager", "Environment"))

    async def facts(self, unit: str, *names: str) -> list[Any]:
        """Properties of a unit: those that every unit has, or a service. LoadState first: the others of one that is
        not loaded say anything."""
        path = _unit_path(unit)
        return [await self._get(path, f"{_NAME}.{_INTERFACES.get(name, 'Service')}", name) for name in names]

    def close(self) -> None:
        """Let go of the connection; units that we hold are released by it."""
        if self._bus is not None:
            self._bus.close()
        self._bus = None

    async def _get(self, path: str, interface: str, name: str) -> Any:
        ((_, value),) = await self._ask(path, f"{BUS[0]}.Properties", "Get", "ss", (interface, name))
        return value

    async def _call(self, member: str, signature: str, body: tuple[Any, ...]) -> tuple[Any, ...]:
        return await self._ask(_PATH, f"{_NAME}.Manager", member, signature, body)

    async def _ask(
        self, path: str, interface: str, member: str, signature: str, body: tuple[Any, ...], *, again: bool = True
    ) -> tuple[Any, ...]:
        bus = await self._connected()
        try:
            return await bus.call(_NAME, path, interface, member, signature, body)
        except Refused as error:
            if again and error.name in _ABSENT and await self._is_back():
                return await self._ask(path, interface, member, signature, body, again=False)
            if error.name in _ABSENT | _LOST:
                raise NoBus(f"{_NAME} is not on the bus: {error}") from None
            raise

    async def _is_back(self) -> bool:
        try:
            async with asyncio.timeout(BACK_S):
                await self._there.wait()
        except TimeoutError:
            return False
        return True

    async def _job(self, member: str, signature: str, body: tuple[Any, ...]) -> str:
        # The word of a job's end may come with the answer that names it.
        self._asking += 1
        try:
            (job,) = await self._call(member, signature, body)
            over = self._removed.pop(job, None)
        finally:
            self._asking -= 1
            if not self._asking:
                self._removed.clear()
        return over if over is not None else await self._end_of(job, member)

    async def _end_of(self, job: str, member: str) -> str:
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._jobs[job] = ended
        try:
            async with asyncio.timeout(JOB_S):
                return await ended
        except TimeoutError:
            raise NoBus(f"systemd is not done with {member}") from None
        finally:
            self._jobs.pop(job, None)

    async def _connected(self) -> Bus:
        before = self._failures
        async with self._connecting:
            if self._failures != before:  # somebody has tried while we waited: that may have taken long
                raise NoBus(self._failure)
            if self._bus is None or not self._bus.alive:
                try:
                    self._bus = await self._connect()
                except NoBus as error:
                    self._failures, self._failure = before + 1, str(error)
                    raise
            return self._bus

    async def _connect(self) -> Bus:
        self._there.clear()
        bus = await Bus.connect(self.address, self._heard, self._lost)
        try:
            await bus.listen(_JOBS)
            await bus.listen(_OWNER)
            await self._meet(bus)
            await bus.call(_NAME, _PATH, f"{_NAME}.Manager", "Subscribe")
        except Refused as error:
            bus.close()
            raise NoBus(f"{self.address}: {error}") from error
        except BaseException:
            bus.close()
            raise
        return bus

    async def _meet(self, bus: Bus) -> None:
        """Learn the manager's own name. One that has just begun takes the known one after its bus is there."""
        try:
            (self._manager,) = await bus.call(*BUS, "GetNameOwner", "s", (_NAME,))
        except Refused as error:
            if error.name not in _ABSENT or not await self._is_back():
                raise
        self._there.set()

    def _heard(self, signal: Signal) -> None:
        if signal.sender == BUS[0] and signal.member == "NameOwnerChanged" and signal.arguments[0] == _NAME:
            self._manager = signal.arguments[2]
            if self._manager:
                self._there.set()
            else:
                self._there.clear()
        elif signal.sender == self._manager and signal.member == "JobRemoved":
            _, job, _, result = signal.arguments
            ended = self._jobs.get(job)
            if ended is not None and not ended.done():
                ended.set_result(result)
            elif self._asking:
                self._removed[job] = result

    def _lost(self) -> None:
        for ended in self._jobs.values():
            if not ended.done():
                ended.set_exception(NoBus("the bus was lost while a job was under way"))


# The interface of a property that every unit has.
_INTERFACES: Final = dict.fromkeys(("LoadState", "ActiveState", "SubState", "Description", "InvocationID"), "Unit")


def _unit_path(unit: str) -> str:
    """The object path of a unit: what is neither a letter nor a digit is escaped."""
    escaped = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 and (number or not chr(byte).isdigit()) else f"_{byte:02x}"
        for number, byte in enumerate(unit.encode())
    )
    return f"{_PATH}/unit/{escaped}"
