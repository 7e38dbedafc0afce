"""Output that flows: written at once, and never left in a buffer for the interpreter to empty at its end."""

from __future__ import annotations

import os
import sys

from qlctl.codec import encode
from qlctl.output import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


class Flow:
    """Text for stdout and stderr, as it comes, and messages that never begin in the middle of a line of it."""

    def __init__(self) -> None:
        self._one_place = _one_place()
        self._open_line = {"stdout": False, "stderr": False}  # whether the text there ends within a line

    def put(self, stream: str, text: str) -> None:
        """Write a text to `stdout` or `stderr`, verbatim and in UTF-8, whatever the locale says."""
        if text:
            write(sys.stderr if stream == "stderr" else sys.stdout, text)
            self._open_line[self._place(stream)] = not text.endswith("\n")

    def put_json(self, value: object) -> None:
        """Write one JSON value as a line of stdout."""
        write(sys.stdout, encode(value) + "\n")

    def say(self, message: str, hint: str = "") -> None:
        """Say something on stderr, on a line of its own."""
        if self._open_line[self._place("stderr")]:
            self.put("stderr", "\n")
        say(message, hint)

    def _place(self, stream: str) -> str:
        return "stdout" if self._one_place else stream


def write(file: TextIO | None, text: str) -> None:
    """Write all of the text to a standard stream, past its buffer; nothing where the stream was closed at the start.

    A lone surrogate, which UTF-8 cannot hold, is written as an escape.
    """
    if file is None:
        return
    file.flush()
    raw = getattr(file.buffer, "raw", file.buffer)
    left = memoryview(text.encode("utf-8", "backslashreplace"))
    while left:
        count = raw.write(left)
        if count is None:  # somebody who shares the terminal or pipe has made it non-blocking, and it is full
            _until_writable(raw.fileno())
        else:
            left = left[count:]


def _until_writable(descriptor: int) -> None:
    from select import select

    select([], [descriptor], [])


def _one_place() -> bool:
    """Whether stdout and stderr are the same terminal, pipe or file."""
    try:
        return sys.stdout is not None and os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):  # one of them is closed, or no file
        return False
