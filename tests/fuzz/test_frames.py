"""A million frames and calls against a daemon's inside: each gets its one answer, and nothing of it is left.

A run is a function of SEED: its inputs follow from the replies, and ids and chance come from the seed. (Only calls that
wait are hung up on by the clock: a slow machine may go another way from there.) A failure names the seed and the number
of the first input of the batch that failed, and the smallest part of the batch that still fails on a new connection.
FUZZ_SEED and FUZZ_INPUTS choose another run, which is two: half of the inputs each, of the seed and the one after it.
The usual one takes about three minutes of one core.

Nine in ten inputs are refused at decoding or checking; the others reach the store: adds, claims, ends, looks and pages.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from pathlib import Path
from random import Random

import msgspec
import pytest

from questlined.operations.context import Reply
from questlined.operations.registry import METHODS, Method
from tests.fuzz.calls import Memory
from tests.fuzz.house import INFO, House, checked, house
from tests.fuzz.inputs import Inputs
from tests.fuzz.mutate import FRAME_MAX, encoded
from tests.support.invariants import broken
from tests.support.processes import PROCESSES, shared_out

SEED = int(os.environ.get("FUZZ_SEED", "20260"))
INPUTS = int(os.environ.get("FUZZ_INPUTS", "1000000"))
BATCH = 100
REACHES_ALL = 200_000  # so many inputs have a good call of every method among them
NEED_A_DAEMON = {"io.questline.Manager.Reload", "io.questline.Manager.Reexec"}  # here are only sessions and a store
GROWTH_MAX_KIB = 16 * 1024  # of resident memory from the second quarter's end to the last's
GROWTH_MAX_OBJECTS = 2_000


async def smallest(rig: House, frames: list[bytes]) -> list[bytes]:
    """The part of a failing batch that fails by itself on a new connection: one frame cut down, if one is enough."""

    async def fails(frame: bytes) -> bool:
        try:
            await rig.tell([frame], Random(0), patience_s=1)
        except AssertionError:
            return True
        finally:
            await rig.settled()
        return bool(rig.complaints.take())

    failing = [frame for frame in frames if await fails(frame)]
    if not failing:
        return frames
    frame = failing[0]
    size = len(frame) // 2
    while size:
        for at in range(0, len(frame), size):
            if await fails(shorter := frame[:at] + frame[at + size :]):
                frame = shorter
                break
        else:
            size //= 2
    return [frame]


class Size:
    """What a process has that could grow."""

    def __init__(self, rig: House) -> None:
        gc.collect()
        self.kib = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024
        self.objects = len(gc.get_objects())
        self.descriptors = len(os.listdir("/proc/self/fd"))
        self.tasks = len(asyncio.all_tasks())
        kept = [each for each in vars(rig.ctx.changes).values() if isinstance(each, dict)]
        self.watchers = sum(map(len, kept)) + rig.ctx.streams


async def deliver(rig: House, frames: list[bytes], seed: int, number: int) -> None:
    """One batch. A failure says how to get it again."""
    try:
        await rig.tell(frames, Random(seed * 1_000_003 + number))
        assert not (found := rig.complaints.take()), "\n".join(found)
    except AssertionError as error:
        told = rig.complaints.take()
        part = await smallest(rig, frames)
        shown = "\n".join(repr(frame[:2000]) for frame in part[:BATCH])
        logged = "\n".join(told)
        raise AssertionError(
            f"FUZZ_SEED={seed}, input {number} and on: {error}\n{logged}\nfrom {len(part)} frames:\n{shown}"
        ) from None  # of a kind that another process can be told


def test_every_input_is_answered_once_and_nothing_is_left_of_it() -> None:
    """A call by one reply, success or one of our errors; rubbish by InvalidInput and the end of its connection."""
    shared_out(share)


def share(number: int) -> None:
    """One of the runs."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        inputs = Inputs(Memory(f"{folder}/project"))
        asyncio.run(run(Path(folder), inputs, SEED + number, INPUTS // PROCESSES))
        assert broken(Path(folder, "quests.sqlite")) == []


async def run(folder: Path, inputs: Inputs, seed: int, most: int) -> None:
    """All inputs, measured at each quarter's end."""
    sizes: list[Size] = []
    async with house(folder, seed, inputs.memory.learn) as rig:
        at_rest = Size(rig)
        for number in range(0, most, BATCH):
            await deliver(rig, inputs.batch(seed, number, min(BATCH, most - number)), seed, number)
            if len(sizes) < (number + BATCH) * 4 // most:
                await rig.settled()
                sizes.append(Size(rig))
        refused = set(METHODS) - rig.succeeded - NEED_A_DAEMON
        counts = rig.told
    last = sizes[-1]
    print(dict(inputs.kinds), dict(counts), [vars(size) for size in sizes])
    assert not refused or most < REACHES_ALL, f"methods that never succeeded: {refused}"
    assert last.kib - sizes[1].kib < GROWTH_MAX_KIB
    assert last.objects - sizes[1].objects < GROWTH_MAX_OBJECTS
    assert (last.tasks, last.watchers) == (at_rest.tasks, 0)
    assert last.descriptors - sizes[1].descriptors <= 0


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"{}",
        b'{"parameters":[]}',
        b'{"parameters":{},"more":true}',
        b'{"parameters":{"a":NaN}}',
        b'{"error":"io.questline.Internal","parameters":{"message":"m","hint":"h","reference":"r"}}',
        b'{"error":"io.questline.NotFound","parameters":{"message":"m","hint":"","id":null}}',
        b'{"error":"io.questline.NotFound","parameters":{"message":"m","hint":"h"}}',
        b'{"error":"io.questline.NotFound","parameters":{"message":"m","hint":"h","id":"x"},"continues":true}',
        b'{"error":"org.varlink.service.MethodNotFound","parameters":{}}',
        b'{"parameters":{"a":"' + b"x" * FRAME_MAX + b'"}}',
    ],
    ids=lambda reply: repr(reply[:60]),
)
def test_a_reply_that_is_not_in_order_is_found(reply: bytes) -> None:
    """No JSON, not ours, a fault, an error without its words or fields, one that goes on, one too long."""
    with pytest.raises((AssertionError, msgspec.MsgspecError, LookupError)):
        checked(reply)


def test_a_fault_is_found_and_cut_down_to_the_frame_that_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with its seed and number."""

    async def faulty(*_: object) -> Reply:
        raise RuntimeError("no such luck")

    name = "io.questline.Manager.Status"
    monkeypatch.setitem(METHODS, name, Method(METHODS[name].request, faulty))
    frames = [INFO, encoded({"method": name, "parameters": {}, "upgrade": False}), INFO]

    async def run() -> None:
        async with house(tmp_path, 1, lambda _: None) as rig:
            with pytest.raises(AssertionError, match=r"(?s)FUZZ_SEED=1, input 700 .*from 1 frames"):
                await deliver(rig, frames, 1, 700)

    asyncio.run(run())
