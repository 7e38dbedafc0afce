"""What one program hands to the next survives the way there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from questlined.procs.handing import HandedChild, Handing
from questlined.reexec import handover
from questlined.reexec.handover import FORMAT, VARIABLE, HandedAttempt, Handover
from questlined.wire.errors import Internal

ODD = os.fsdecode(b"/tmp/caf\xe9 \xe2\x82\xac")  # one byte of it is no UTF-8


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Handover]:
    """One with ten open descriptors."""
    opened = [os.open(tmp_path, os.O_RDONLY | os.O_CLOEXEC) for _ in range(10)]
    child = HandedChild(4711, opened[3], 123456, "store:q-1:2", "/sys/fs/cgroup/x", terminating=True)
    attempt = HandedAttempt(
        "q-1",
        2,
        ODD,
        (opened[4], opened[5], opened[6]),
        {"stdout": opened[7], "stderr": opened[8]},
        True,
        "timeout",
        "x",
    )
    family = Handing((child,), (11, 12), ("store:q-7:1",))
    yield Handover(
        "1.2.3", 1_700_000_000_000, (opened[0],), True, {ODD: opened[1]}, family, (attempt,), in_terminal=True
    )
    for descriptor in opened:
        os.close(descriptor)


def test_it_comes_as_it_went_and_ends_with_the_next_exec(given: Handover) -> None:
    """Whatever bytes a path holds. No descriptor of it is inherited any further."""
    for descriptor in given.descriptors():
        os.set_inheritable(descriptor, True)
    environ = {VARIABLE: f"{os.getpid()}:{handover.write(given)}", "PATH": "/bin"}
    assert handover.take(environ) == given
    assert environ == {"PATH": "/bin"}
    assert not any(os.get_inheritable(descriptor) for descriptor in given.descriptors())
    assert len(list(given.descriptors())) == 8


def test_fields_of_another_version_of_one_format_do_no_harm(given: Handover) -> None:
    """What is new is ignored, what is missing has its default."""
    descriptor = handover.write(given)
    with open(descriptor, closefd=False) as file:
        told = json.load(file)
    told["later"] = {"more": 1}
    del told["attempts"][0]["stopped"], told["family"]["kept_sessions"]
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(told).encode(), 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    found = handover.read(descriptor)
    assert found.attempts == (replace(given.attempts[0], stopped=None),)
    assert found.family == replace(given.family, kept_sessions=())


@pytest.mark.parametrize("value", ["", "1:3", f"{os.getpid()}:", f"{os.getpid()}:x", f"{os.getpid()}"])
def test_what_is_meant_for_another_process_is_nothing(value: str) -> None:
    """And is not passed on."""
    environ = {VARIABLE: value} if value else {}
    assert handover.take(environ) is None
    assert environ == {}


@pytest.mark.parametrize("text", ["", "{", "{}", '{"version": 3}'])
def test_rubbish_is_a_fault_and_is_told(text: str) -> None:
    descriptor = os.memfd_create("rubbish", os.MFD_CLOEXEC)
    os.pwrite(descriptor, text.encode(), 0)
    with pytest.raises(Internal, match="cannot be read"):
        handover.read(descriptor)


def test_a_format_of_the_future_is_refused(given: Handover) -> None:
    with pytest.raises(Internal, match=f"format {FORMAT + 1}"):
        handover.read(handover.write(replace(given, format=FORMAT + 1)))


def test_a_descriptor_that_is_not_open_is_a_fault(given: Handover) -> None:
    with pytest.raises(Internal, match="cannot be read"):
        handover.read(handover.write(replace(given, sockets=(99_999,))))
