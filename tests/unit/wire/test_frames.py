"""Frames come whole out of a stream that is cut anywhere."""

from __future__ import annotations

import itertools
import random

import pytest

from questlined.wire.frames import Framer, FrameTooLong

FRAMES = [b'{"a":1}', b"", "ä€𝄞".encode(), b"x" * 40, b"{}"]
STREAM = b"".join(frame + b"\0" for frame in FRAMES)


def fed(pieces: list[bytes], limit: int = 100) -> list[bytes]:
    framer = Framer(limit)
    return [frame for piece in pieces for frame in framer.feed(piece)]


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_stream_cut_in_two_anywhere_gives_the_same_frames(cut: int) -> None:
    """The cut may lie in a character, before a NUL or after it."""
    assert fed([STREAM[:cut], STREAM[cut:]]) == FRAMES


def test_single_bytes_give_the_same_frames() -> None:
    """A transport may deliver one byte at a time."""
    assert fed([bytes([byte]) for byte in STREAM]) == FRAMES


def test_random_cuts_give_the_same_frames() -> None:
    """Three hundred ways to cut it."""
    chance = random.Random(7)
    for _ in range(300):
        cuts = sorted(chance.sample(range(len(STREAM)), chance.randrange(8)))
        pieces = [STREAM[low:high] for low, high in itertools.pairwise([0, *cuts, len(STREAM)])]
        assert fed(pieces) == FRAMES


def test_a_frame_without_its_nul_is_not_given() -> None:
    """Half a message is nothing yet."""
    framer = Framer(100)
    assert framer.feed(b'{"a":') == []
    assert framer.feed(b"1}") == []
    assert framer.feed(b"\0") == [b'{"a":1}']


def test_a_frame_of_exactly_the_limit_passes() -> None:
    """The bound is inclusive, however the frame arrives."""
    whole = b"x" * 10
    assert fed([whole + b"\0"], limit=10) == [whole]
    assert fed([whole[:4], whole[4:], b"\0"], limit=10) == [whole]


@pytest.mark.parametrize("pieces", [[b"x" * 11 + b"\0"], [b"x" * 11], [b"x" * 6, b"x" * 5], [b"{}\0" + b"x" * 11]])
def test_one_byte_above_the_limit_is_refused(pieces: list[bytes]) -> None:
    """Before its NUL has come, too: what never ends cannot fill the memory."""
    with pytest.raises(FrameTooLong):
        fed(pieces, limit=10)


@pytest.mark.parametrize(
    "pieces", [[b"x" * 11], [b"x" * 11 + b"\0{}\0"], [b"x" * 6, b"x" * 5 + b"\0"], [b"", b"x" * 11]]
)
def test_what_came_whole_before_a_frame_too_long_is_not_lost(pieces: list[bytes]) -> None:
    """However the stream was cut: those calls are answered. What came behind is not given."""
    framer = Framer(10)
    *before, last = [b"[1]\0[2]\0" + pieces[0], *pieces[1:]]
    given = [frame for piece in before for frame in framer.feed(piece)]
    with pytest.raises(FrameTooLong) as caught:
        framer.feed(last)
    assert given + caught.value.frames == [b"[1]", b"[2]"]


def test_many_small_frames_never_reach_the_limit() -> None:
    """The bound is of one frame, not of what one read brings."""
    assert fed([b"{}\0" * 1000], limit=10) == [b"{}"] * 1000
