"""Durable adds per second: closed loop on several connections, pipelined, in bulk, each beside a trial of its kind."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator

from tests.bench import trial
from tests.bench.figures import Figure
from tests.bench.rig import ADD_MANY, QUESTS, Rig, Wire, frame, now_ms, rig

CONNECTIONS = 8
DEPTH = 64  # calls under way on one connection, when pipelined
# What is to be reached, and what the trial did where that was set.
CLOSED, PIPELINED, BULK = (6000, 6900), (15_000, 20_400), (30_000, 51_000)


def adds(rounds: int, number: int) -> Iterator[Figure]:
    """All of them with the daemon paused."""
    rates: dict[str, list[float]] = {}

    def keep(name: str, rate: float) -> None:
        rates.setdefault(name, []).append(rate)

    with rig() as one, trial.served() as other:
        one.pause()
        for _ in range(rounds):
            for name, depth in (("closed", 1), ("pipelined", DEPTH)):
                keep(name, _singly(one.daemon.socket, one.directory, number, depth))
                keep(f"{name} trial", _singly(other, one.directory, number, depth))
            keep("bulk", _in_bulk(one, 2 * ADD_MANY))
            keep("bulk trial", trial.bulk_per_second(2 * ADD_MANY))
    for name, title, (wanted, tried) in (
        ("closed", f"{CONNECTIONS} connections", CLOSED),
        ("pipelined", "pipelined", PIPELINED),
        ("bulk", "AddMany", BULK),
    ):
        yield Figure(f"durable adds per second, {title}", "/s", rates[name], wanted, "high")
        trials, share = rates[f"{name} trial"], wanted / tried
        yield Figure("  the same to a trial", "/s", rates[name], share, "high", base=trials, base_name="the trial")


def _singly(path: str, directory: str, number: int, depth: int) -> float:
    """Adds with `depth` calls under way on each connection: a reply makes room for the next call."""
    call = frame(f"{QUESTS}.Add", directory=directory, path=os.environ["PATH"], task="true")
    wires = [Wire(path) for _ in range(CONNECTIONS)]
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire.socket, selectors.EVENT_READ, wire)
        left, answered = number, 0
        began = now_ms()
        for wire in wires:
            wire.socket.sendall(call * depth)
            left -= depth
        while answered < number:
            for key, _ in selector.select():
                data = key.data.socket.recv(1 << 18)
                assert data
                assert b'"error":"io' not in data, data
                replies = data.count(b"\0")
                answered += replies
                more = min(replies, max(0, left))
                left -= more
                if more:
                    key.data.socket.sendall(call * more)
    spent = now_ms() - began
    for wire in wires:
        wire.close()
    return 1000 * number / spent


def _in_bulk(one: Rig, number: int) -> float:
    began = now_ms()
    one.fill(number)
    return 1000 * number / (now_ms() - began)
