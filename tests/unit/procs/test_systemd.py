"""systemd's manager as it is asked over D-Bus: jobs that are waited for, and a manager that comes and goes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from jeepney.low_level import HeaderFields, MessageType

from questlined.procs.bus import NoBus, Refused
from questlined.procs.systemd import Systemd
from tests.unit.procs.fake_bus import FakeBus, usual


async def _job_over(fake: FakeBus, result: str, sender: str = ":1.7") -> None:
    await fake.announce("JobRemoved", "uoss", (1, "/job/1", "x.service", result), sender)


def test_a_job_is_over_when_the_manager_says_so_and_nobody_else(play: Callable[..., None]) -> None:
    async def scene(fake: FakeBus) -> None:
        systemd = Systemd(fake.path)
        stopping = asyncio.ensure_future(systemd.stop("x.service"))
        while not systemd._jobs:  # noqa: ASYNC110  no event tells of the answer
            await asyncio.sleep(0)
        await _job_over(fake, "failed", sender=":1.66")
        await _job_over(fake, "done")
        assert await stopping == "done"
        systemd.close()

    play(scene)


def test_a_job_that_is_over_before_its_name_is_known_is_not_waited_for(play: Callable[..., None]) -> None:
    async def scene(fake: FakeBus) -> None:
        systemd = Systemd(fake.path)

        def early(member: str, body: tuple[Any, ...]) -> Any:
            return None if member == "StopUnit" else usual(member, body)

        fake.answer = early
        stopping = asyncio.ensure_future(systemd.stop("x.service"))
        while not systemd._asking or systemd._bus is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        serial = systemd._bus._serial
        await _job_over(fake, "done")
        head = {HeaderFields.reply_serial: serial, HeaderFields.signature: "o"}
        await fake.send(fake.links[0], MessageType.method_return, head, ("/job/1",))
        assert await stopping == "done"
        assert not systemd._removed
        systemd.close()

    play(scene)


def test_a_manager_that_is_away_for_a_moment_is_waited_for(play: Callable[..., None]) -> None:
    asked: list[str] = []

    def absent(member: str, body: tuple[Any, ...]) -> Any:
        asked.append(member)
        if member == "KillUnit" and asked.count("KillUnit") == 1:
            raise Refused("org.freedesktop.DBus.Error.NameHasNoOwner", "no such name")
        return ("", ()) if member == "KillUnit" else usual(member, body)

    async def owner(fake: FakeBus, old: str, new: str) -> None:
        name = "org.freedesktop.systemd1"
        await fake.announce("NameOwnerChanged", "sss", (name, old, new), sender="org.freedesktop.DBus")

    async def scene(fake: FakeBus) -> None:
        systemd = Systemd(fake.path)
        await systemd.kill("x.service", 15)
        asked.clear()
        await owner(fake, ":1.7", "")
        while systemd._there.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0)
        killing = asyncio.ensure_future(systemd.kill("x.service", 15))
        while "KillUnit" not in asked:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await owner(fake, "", ":1.8")
        await killing
        assert (asked, systemd._manager) == (["KillUnit", "KillUnit"], ":1.8")
        systemd.close()

    play(scene, absent)


def test_a_manager_that_has_just_begun_is_waited_for(play: Callable[..., None]) -> None:
    """Its bus is there before it has its name: a user's, right after lingering was enabled."""
    asked: list[str] = []

    def without_name(member: str, body: tuple[Any, ...]) -> Any:
        asked.append(member)
        if member == "GetNameOwner":
            raise Refused("org.freedesktop.DBus.Error.NameHasNoOwner", "no such name")
        return ("", ()) if member == "KillUnit" else usual(member, body)

    async def scene(fake: FakeBus) -> None:
        systemd = Systemd(fake.path)
        killing = asyncio.ensure_future(systemd.kill("x.service", 15))
        while "GetNameOwner" not in asked:  # noqa: ASYNC110
            await asyncio.sleep(0)
        name = "org.freedesktop.systemd1"
        await fake.announce("NameOwnerChanged", "sss", (name, "", ":1.8"), sender="org.freedesktop.DBus")
        await killing
        assert (asked[-2:], systemd._manager) == (["Subscribe", "KillUnit"], ":1.8")
        systemd.close()

    play(scene, without_name)


def test_a_manager_that_stays_away_is_no_refusal(play: Callable[..., None]) -> None:
    def absent(member: str, body: tuple[Any, ...]) -> Any:
        if member == "KillUnit":
            raise Refused("org.freedesktop.DBus.Error.ServiceUnknown", "not provided")
        return usual(member, body)

    async def scene(fake: FakeBus) -> None:
        systemd = Systemd(fake.path)
        with pytest.raises(NoBus, match="not on the bus"):
            await systemd.kill("x.service", 15)
        systemd.close()

    play(scene, absent)


def test_a_manager_is_asked_anew_after_its_bus_was_lost(play: Callable[..., None]) -> None:
    async def scene(fake: FakeBus) -> None:
        systemd = Systemd(fake.path)
        stopping = asyncio.ensure_future(systemd.stop("x.service"))
        while not systemd._jobs:  # noqa: ASYNC110
            await asyncio.sleep(0)
        fake.links[0].shutdown(socket.SHUT_RDWR)
        with pytest.raises(NoBus, match="while a job was under way"):
            await stopping
        again = asyncio.ensure_future(systemd.stop("x.service"))
        while not systemd._jobs:  # noqa: ASYNC110
            await asyncio.sleep(0)
        fake.links.pop(0).close()
        await _job_over(fake, "done")
        assert await again == "done"
        systemd.close()

    play(scene)
