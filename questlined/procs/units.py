"""Attempts as transient units of systemd: started, found again by a later daemon, and stopped where nobody wants them.

They run in the manager of the daemon's own user, or for a daemon of root in the system's, and outlive the daemon.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import pwd
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

from questlined.clock import SystemClock
from questlined.procs import cgroup, procfs, unit_order, unit_record
from questlined.procs.bus import NoBus, Refused
from questlined.procs.systemd import NO_SUCH_UNIT, UNIT_EXISTS, Systemd
from questlined.procs.unit import AGAIN_S, Unit
from questlined.procs.unit_order import Order
from questlined.wire.errors import Unavailable

log = logging.getLogger(__name__)

# Answers that say nothing about what was asked for: later it may work.
_PASSING: Final = {
    UNIT_EXISTS: "",
    "org.freedesktop.systemd1.ShuttingDown": "",
    "org.freedesktop.systemd1.TransactionIsDestructive": "",  # its slice is being stopped, as at a shutdown
    "org.freedesktop.DBus.Error.LimitsExceeded": "",
    "org.freedesktop.DBus.Error.NoMemory": "",
    "org.freedesktop.DBus.Error.AccessDenied": "may this user start units?",
    "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired": "may this user start units?",
}
_BOOTED: Final = "/run/systemd/system"  # see sd_booted(3)
_WATCHED: Final = ("MainPID", "ExecMainPID", "ControlGroup")  # what Unit.watch takes
# The statuses of systemd's own, before a program runs; a program that is quick may end with the same. Those that users
# meet → what to look at.
_CHDIR, _EXEC, _SETUP_LAST = 200, 203, 245
_SETUP: Final = {
    _CHDIR: "CHDIR: may its account enter its directory, and do its properties leave it there?",
    205: "LIMITS: a Limit property cannot be set",
    216: "GROUP: is there such a group?",
    217: "USER: is there such an account?",
    226: "NAMESPACE: does every path of its properties exist, and may this user make user namespaces?",
    228: "SECCOMP: the kernel refuses the filter",
}


class Open(Protocol):
    """An attempt that was left open, as the store knows it."""

    @property
    def quest_id(self) -> str: ...
    @property
    def lease_gen(self) -> int: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def pid_started(self) -> int | None: ...
    @property
    def unit(self) -> str | None: ...


class Unfit(Exception):
    """No unit can be made of this, now or later. The message is the reason."""


def address(environ: Mapping[str, str], uid: int) -> str:
    """Where the bus of the manager is in which this daemon's units run."""
    if uid == 0:
        return "/run/dbus/system_bus_socket"
    return f"{environ.get('XDG_RUNTIME_DIR') or f'/run/user/{uid}'}/bus"


class Units:
    """The units of one store's attempts. `store_uuid` begins their markers; `path` is the bus. For the loop's thread.

    `trouble` is why the last one could not be had, None while all is well.
    """

    def __init__(self, store_uuid: str, path: str, uid: int) -> None:
        self._store_uuid, self._uid = store_uuid, uid
        self._systemd = Systemd(path)
        self.trouble: str | None = None

    @property
    def hint(self) -> str:
        """What helps where there is no manager."""
        if self._uid == 0:
            return 'isolation = "unit" needs systemd and dbus'
        name = _name_of(self._uid)
        return f"loginctl enable-linger {name}; its bus comes with the package dbus-user-session (Debian) or dbus"

    async def start(self, order: Order) -> Unit:
        """Start a unit whose files are staged; it runs when this returns, or has ended by itself.

        Raises Unfit; OSError where its directory cannot be entered or its program not be executed, with that as the
        filename, and when descriptors have run out; Unavailable where there is no manager. Nothing of it runs then.
        """
        reason = unit_order.unfit(order)
        if reason is None and self._uid == 0:
            reason = await asyncio.to_thread(unit_order.exposed, order.directory)
        if reason is not None:
            raise Unfit(reason)
        try:
            inherited = [entry.partition("=")[0] for entry in await self._systemd.environment()]
        except (NoBus, Refused) as error:
            raise self._unavailable(error) from error
        now_s = SystemClock().boot_ms() / 1000
        wanted = unit_order.properties(order, inherited, own_user=self._uid != 0, now_s=now_s)
        try:
            result = await self._systemd.start(order.name, wanted)
        except Refused as error:
            if error.name in _PASSING:
                raise self._unavailable(error, _PASSING[error.name]) from error
            raise Unfit(f"systemd refuses it: {error}") from error
        except NoBus as error:  # whether it was started is unknown
            await self._undo(order.name)
            raise self._unavailable(error) from error
        unit = await self._started(order, result)
        self.trouble = None
        return unit

    async def find(self, run: Open, marker: str, directory: Path) -> Unit | None:
        """The unit of an attempt that was left open: it runs, or there is a record of its end. None where there is
        neither. Raises Unavailable where that cannot be told now."""
        if run.unit is None and not await asyncio.to_thread(unit_record.tried, directory):
            return None
        await asyncio.to_thread(unit_order.unstage, directory)
        unit = Unit(self._systemd, run.unit or unit_order.name_of(run.quest_id, run.lease_gen), directory)
        try:
            loaded = await self._loaded(unit.name, marker)
            if loaded:
                await self._systemd.hold(unit.name)
                unit.watch(*await self._systemd.facts(unit.name, *_WATCHED))
        except Refused as error:
            if error.name != NO_SUCH_UNIT:
                raise self._unavailable(error) from error
            loaded = False
        except (NoBus, OSError) as error:
            raise self._unavailable(error) from error
        else:
            self.trouble = None
        if not loaded:
            if await asyncio.to_thread(unit_record.read, directory) is None:
                return None
            unit.watch(0)
        if not unit.started:
            unit.pid, unit.started = run.pid or 0, run.pid_started or 0
        return unit

    async def stop_strays(self, markers: Collection[str]) -> list[str]:
        """Stop every attempt's unit of this store but those with these markers; the units that were stopped. Raises
        Unavailable."""
        if not self._is_there():
            return []
        stopped = []
        try:
            for listed in await self._systemd.units(unit_order.PATTERN):
                marker = unit_order.marker_in(listed.description)
                if marker is None or not marker.startswith(f"{self._store_uuid}:") or marker in markers:
                    continue
                await self._end(listed.name)
                if listed.active not in {"inactive", "failed"}:
                    stopped.append(listed.name)
        except (NoBus, Refused) as error:  # perhaps nobody wants a unit: no trouble
            raise Unavailable(f"no unit can be had from systemd: {error}", hint=self.hint) from error
        return stopped

    def close(self) -> None:
        """Let go of the bus; units that run go on."""
        self._systemd.close()

    def _is_there(self) -> bool:
        """Whether there can be a manager at all: where there is none, nothing of a unit lives. A bus proves none."""
        return os.path.isdir(_BOOTED) and os.path.exists(self._systemd.address)

    async def _loaded(self, name: str, marker: str) -> bool:
        if not self._is_there():
            if await asyncio.to_thread(_living_in, name):
                raise NoBus(f"{self._systemd.address} is not there")
            return False
        load, description = await self._systemd.facts(name, "LoadState", "Description")
        # After a daemon-reload systemd 252 may say "bad-setting" of a unit that it made itself.
        return load != "not-found" and unit_order.marker_in(description) == marker

    async def _started(self, order: Order, result: str) -> Unit:
        unit = Unit(self._systemd, order.name, order.directory)
        try:
            if result != "done":
                await self._see_failure(order, result)
            unit.watch(*await self._systemd.facts(order.name, *_WATCHED))
        except (NoBus, Refused) as error:
            await self._undo(order.name)
            raise self._unavailable(error) from error
        except BaseException:
            await self._undo(order.name)
            raise
        return unit

    async def _see_failure(self, order: Order, result: str) -> None:
        """Raises what kept a unit from starting. A program that fails at once is told as one that did not start."""
        why, code, status = await self._systemd.facts(order.name, "Result", "ExecMainCode", "ExecMainStatus")
        if code == 0:
            raise self._unavailable(Exception(f"its job ended as {result}, the unit as {why}"))
        if code != os.CLD_EXITED:
            return
        cwd, program = order.command.cwd, order.command.argv[0]
        if status == _CHDIR and not os.access(cwd, os.X_OK):
            raise OSError(errno.ENOENT, "it cannot be entered", cwd)
        if status == _EXEC and (order.properties or not await asyncio.to_thread(_is_executed, program)):
            raise OSError(errno.EACCES, "it cannot be executed, or its interpreter is not there", program)
        # Where nothing was asked of systemd that it could fail at, the status is the program's own.
        if order.properties and _CHDIR <= status <= _SETUP_LAST:
            raise Unfit(f"systemd cannot set its unit up: {status}/{_SETUP.get(status, 'see systemd.exec(5)')}")

    async def _undo(self, name: str) -> None:
        """Returns when nothing of a unit lives that may have been started: with its name, so would the attempt."""
        while True:
            try:
                await self._end(name)
                return
            except (NoBus, Refused) as error:
                log.warning("%s cannot be stopped: %s, waiting", name, error)
            if not self._is_there() and not await asyncio.to_thread(_living_in, name):
                return
            await asyncio.sleep(AGAIN_S)

    async def _end(self, name: str) -> None:
        try:
            await self._systemd.kill(name, 9)
        except Refused:  # nothing of it lives
            pass
        try:
            await self._systemd.stop(name)
        except Refused as error:
            if error.name != NO_SUCH_UNIT:
                raise
        await self._systemd.release(name)

    def _unavailable(self, error: Exception, hint: str = "") -> Unavailable:
        text = f"no unit can be had from systemd: {error}"
        if not (isinstance(error, Refused) and error.name == UNIT_EXISTS):
            self.trouble = text
        return Unavailable(text, hint=hint or self.hint)


def _is_executed(program: str) -> bool:
    """Whether the kernel would execute a file, as far as its first bytes tell. Blocks."""
    try:
        with open(program, "rb") as file:
            head = file.read(256)
    except PermissionError:  # only what is no script can be executed and not read
        return True
    except OSError:
        return False
    script = head.removeprefix(b"#!").split(None, 1)
    return head.startswith(b"\x7fELF") or (head.startswith(b"#!") and bool(script) and os.access(script[0], os.X_OK))


def _living_in(name: str) -> bool:
    """Whether any process is in a unit of this name. Blocks: all of /proc is searched."""
    return any(name in (cgroup.path_of(pid) or "").split("/") for pid in procfs.pids())


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
