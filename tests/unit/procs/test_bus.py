"""The D-Bus client, against a bus of the test's own."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jeepney.low_level import HeaderFields, MessageType

from questlined.procs import bus as bus_module
from questlined.procs.bus import Bus, NoBus, Refused, Signal
from questlined.procs.systemd import Systemd
from tests.unit.procs.fake_bus import FakeBus, usual

SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


async def connect(fake: FakeBus) -> tuple[Bus, list[Signal], list[str]]:
    signals: list[Signal] = []
    lost: list[str] = []
    return await Bus.connect(fake.path, signals.append, lambda: lost.append("lost")), signals, lost


def test_calls_under_way_together_get_their_own_answers(play: Callable[..., None]) -> None:
    async def scene(fake: FakeBus) -> None:
        bus, _, _ = await connect(fake)
        words = [f"word {number} " + "x" * 40_000 for number in range(50)]
        answers = await asyncio.gather(*(bus.call(*SYSTEMD, "Echo", "s", (word,)) for word in words))
        assert [answer for (answer,) in answers] == words
        bus.close()

    play(scene)


def test_an_error_has_its_name_and_the_connection_goes_on(play: Callable[..., None]) -> None:
    async def scene(fake: FakeBus) -> None:
        bus, _, _ = await connect(fake)
        with pytest.raises(Refused, match="not today") as raised:
            await bus.call(*SYSTEMD, "Fail")
        assert raised.value.name == "org.example.No"
        assert await bus.call(*SYSTEMD, "Echo", "s", ("still here",)) == ("still here",)
        bus.close()

    play(scene)


def test_descriptors_arrive(play: Callable[..., None]) -> None:
    read, write = os.pipe()

    def answer(member: str, body: tuple[Any, ...]) -> Any:
        if member != "Write":
            return usual(member, body)
        os.write(body[0], b"through")
        os.close(body[0])
        return "", ()

    async def scene(fake: FakeBus) -> None:
        bus, _, _ = await connect(fake)
        await bus.call(*SYSTEMD, "Write", "h", (write,))
        assert os.read(read, 100) == b"through"
        bus.close()

    play(scene, answer)
    os.close(read)
    os.close(write)


def test_a_bus_that_goes_is_told_to_all_who_wait(play: Callable[..., None]) -> None:
    async def scene(fake: FakeBus) -> None:
        bus, _, lost = await connect(fake)
        asking = [asyncio.ensure_future(bus.call(*SYSTEMD, "Silence")) for _ in range(3)]
        await asyncio.sleep(0)
        fake.links[0].shutdown(socket.SHUT_RDWR)
        for answer in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(answer, NoBus)
        assert (lost, bus.alive) == (["lost"], False)
        with pytest.raises(NoBus, match="closed the connection"):
            await bus.call(*SYSTEMD, "Echo", "s", ("too late",))

    play(scene)


def test_who_does_not_answer_in_time_is_not_waited_for(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(fake: FakeBus) -> None:
        bus, _, lost = await connect(fake)
        monkeypatch.setattr(bus_module, "CALL_S", 0.01)
        with pytest.raises(NoBus, match="does not answer Silence"):
            await bus.call(*SYSTEMD, "Silence")
        assert lost == ["lost"]

    play(scene)


@pytest.mark.parametrize("rubbish", [b"x" * 200, b"l\x63\0\1" + b"\xff" * 60])
def test_rubbish_ends_the_connection_and_nothing_else(play: Callable[..., None], rubbish: bytes) -> None:
    async def scene(fake: FakeBus) -> None:
        bus, _, lost = await connect(fake)
        asking = asyncio.ensure_future(bus.call(*SYSTEMD, "Silence"))
        await asyncio.sleep(0)
        await asyncio.get_running_loop().sock_sendall(fake.links[0], rubbish)
        fake.links[0].shutdown(socket.SHUT_WR)
        with pytest.raises(NoBus):
            await asking
        assert lost == ["lost"]

    play(scene)


def test_what_a_stranger_sends_that_cannot_be_read_is_passed_over(play: Callable[..., None]) -> None:
    """Everybody on the system's bus may send us signals, with descriptors that we do not take."""

    async def scene(fake: FakeBus) -> None:
        bus, signals, lost = await connect(fake)
        head = {HeaderFields.path: "/", HeaderFields.interface: "a.b", HeaderFields.member: "Odd"}
        head |= {HeaderFields.signature: "h"}
        await fake.send(fake.links[0], MessageType.signal, head, (2,))
        await fake.announce("Plain", "s", ("read",))
        assert await bus.call(*SYSTEMD, "Echo", "s", ("still here",)) == ("still here",)
        assert ([signal.member for signal in signals], lost) == (["Plain"], [])
        bus.close()

    play(scene)


def test_no_more_calls_are_under_way_than_a_bus_lets_one_connection_have(play: Callable[..., None]) -> None:
    """The system's bus refuses all beyond 128."""

    async def scene(fake: FakeBus) -> None:
        bus, _, _ = await connect(fake)
        asking = [asyncio.ensure_future(bus.call(*SYSTEMD, "Silence")) for _ in range(bus_module.CALLS_MAX)]
        words = [str(number) for number in range(300)]
        answers = asyncio.gather(*(bus.call(*SYSTEMD, "Echo", "s", (word,)) for word in words))
        await asyncio.sleep(0)
        assert len(bus._waiting) == bus_module.CALLS_MAX <= 128
        asking.pop().cancel()
        assert [answer for (answer,) in await answers] == words
        bus.close()
        assert all(isinstance(each, NoBus) for each in await asyncio.gather(*asking, return_exceptions=True))

    play(scene)


def test_who_is_refused_by_the_bus_is_told(play: Callable[..., None]) -> None:
    async def scene(fake: FakeBus) -> None:
        fake.greeting = b"REJECTED EXTERNAL\r\n"
        with pytest.raises(NoBus, match="Authentication failed"):
            await connect(fake)

    play(scene)


def test_who_has_too_many_connections_is_told(play: Callable[..., None]) -> None:
    def full(member: str, body: tuple[Any, ...]) -> Any:
        raise Refused("org.freedesktop.DBus.Error.LimitsExceeded", "too many connections")

    async def scene(fake: FakeBus) -> None:
        with pytest.raises(NoBus, match="too many connections"):
            await connect(fake)

    play(scene, full)


def test_no_bus_is_named_by_its_path(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(NoBus, match=f"{tmp_path}/none: No such file"):
            await Bus.connect(f"{tmp_path}/none", lambda _: None, lambda: None)

    asyncio.run(main())


def test_a_bus_that_does_not_greet_is_waited_for_once(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "CALL_S", 0.05)

    async def scene(fake: FakeBus) -> None:
        fake.greeting = b""
        systemd = Systemd(fake.path)
        asked = await asyncio.gather(*(systemd.environment() for _ in range(50)), return_exceptions=True)
        assert [str(error) for error in asked] == [f"{fake.path}: no answer"] * 50
        assert len(fake.links) == 1
        with pytest.raises(NoBus):  # who comes later tries for himself
            await systemd.environment()
        assert len(fake.links) == 2

    play(scene)
