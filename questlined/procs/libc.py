"""The system interfaces that the standard library lacks, and the only import of ctypes: prctl and inotify."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
IN_MODIFY = 0x2
IN_IGNORED = 0x8000

_libc: Any = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def set_subreaper(on: bool) -> None:
    """Whether orphaned descendants of this process become its children. Raises OSError."""
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(on), 0, 0, 0), "prctl")


def set_name(name: str) -> None:
    """What ps and pgrep call this process: 15 bytes at most. To be called on the main thread."""
    _libc.prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def end_with_parent() -> None:
    """Between fork and exec: SIGTERM for this process when the thread that forked it ends, however that happens."""
    _libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)


def inotify_open() -> int:
    """A new non-blocking inotify descriptor, closed on exec. Raises OSError (EMFILE: too many for this user)."""
    return _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")


def inotify_add(fd: int, path: str, mask: int) -> int:
    """The watch's number; one inode has one number, whatever it is called. Raises OSError (ENOSPC: too many)."""
    return _checked(_libc.inotify_add_watch(fd, os.fsencode(path), mask), path)


def inotify_remove(fd: int, watch: int) -> None:
    """End a watch. One that the kernel ended already (file deleted) is no error."""
    _libc.inotify_rm_watch(fd, watch)
