"""One holder of a state directory, who can be named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from questlined.store.lock import StateLock
from questlined.wire.errors import Unavailable


def test_a_held_lock_is_refused_and_its_holder_named(tmp_path: Path) -> None:
    """Until it is let go of; the refused one takes nothing away."""
    first, second = StateLock(tmp_path / "lock"), StateLock(tmp_path / "lock")
    first.acquire({"pid": 4711, "socket": "/run/q.sock"})
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"pid 4711, socket /run/q\.sock"):
            second.acquire({"pid": 1})
    first.release()
    second.acquire({"pid": 1})
    with pytest.raises(Unavailable, match="pid 1"):
        first.acquire({"pid": 4711})
    second.release()


@pytest.mark.parametrize("text", [b"", b"{", b'{"pid": 1', b"\xff\xfe", b"[]", b"7"])
def test_a_holder_that_has_not_written_yet_is_said_to_be_starting(tmp_path: Path, text: bytes) -> None:
    """Whatever is in the file: a text cut anywhere is no reason to fail in another way."""
    lock = StateLock(tmp_path / "lock")
    lock.acquire({"pid": 1})
    (tmp_path / "lock").write_bytes(text)
    with pytest.raises(Unavailable, match="it is starting"):
        StateLock(tmp_path / "lock").acquire({"pid": 2})
    lock.release()


def test_the_file_stays_and_is_private(tmp_path: Path) -> None:
    """Removed, it would let two daemons lock two files of one name. A child does not inherit the lock."""
    path = tmp_path / "lock"
    lock = StateLock(path)
    lock.acquire({"pid": 1})
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert lock._descriptor is not None
    assert not os.get_inheritable(lock._descriptor)
    lock.release()
    lock.release()
    assert path.read_bytes() == b""
