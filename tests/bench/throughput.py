"""Durable adds per second: closed loop on several connections, pipelined, in bulk."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator

from tests.bench.figures import Figure
from tests.bench.rig import ADD_MANY, QUESTS, Rig, Wire, frame, now_ms, rig

CONNECTIONS = 8
DEPTH = 64  # calls under way on one connection, when pipelined


def adds(rounds: int, number: int) -> Iterator[Figure]:
    """All of them with the daemon paused. For information: their bars are not yet to be held."""
    closed, pipelined, bulk = [], [], []
    with rig() as one:
        one.pause()
        for _ in range(rounds):
            closed.append(_singly(one, number, 1))
            pipelined.append(_singly(one, number, DEPTH))
            bulk.append(_in_bulk(one, 2 * ADD_MANY))
    yield Figure("durable adds per second, 8 connections", "/s", closed)
    yield Figure("durable adds per second, pipelined", "/s", pipelined)
    yield Figure("durable adds per second, AddMany", "/s", bulk)


def _singly(one: Rig, number: int, depth: int) -> float:
    """Adds with `depth` calls under way on each connection: a reply makes room for the next call."""
    call = frame(f"{QUESTS}.Add", directory=one.directory, path=os.environ["PATH"], task="true")
    wires = [Wire(one.daemon.socket) for _ in range(CONNECTIONS)]
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
