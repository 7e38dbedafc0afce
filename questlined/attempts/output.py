"""An attempt's files: the task file, stdout and stderr, their sealed sizes and their previews. All calls here block."""

from __future__ import annotations

import codecs
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from questlined.procs import unit_record
from questlined.store.protocol import Sealed

log = logging.getLogger(__name__)
STREAMS = ("stdout", "stderr")
RECORDS = "records"  # the attempt's index, see questlined.attempts.index


@dataclass(frozen=True, slots=True)
class Files:
    """The open files of an attempt, for the child or the pump, and where they are. Close them with `close`."""

    directory: Path
    stdin: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Let go of the descriptors."""
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.close(descriptor)


def directory_of(artifacts: Path, quest: str, attempt: int) -> Path:
    """`<artifacts>/<quest>/<attempt>`."""
    return artifacts / quest / str(attempt)


def task_file(directory: Path) -> Path:
    """Where `{task_file}` is."""
    return directory / "task"


def create(directory: Path, *, prompt: str | None, stdin_prompt: bool, append: bool) -> Files:
    """Make the directory (0700) and its files (0600). `prompt` is written to the task file where one is needed.

    `append`: for a child that writes itself, so that no write of several processes is lost; splice takes no such file.
    Raises OSError, with nothing left open."""
    _make(directory.parent)
    if not _make(directory):
        for stale in (RECORDS, unit_record.NAME):  # of another life of this attempt: the database is a backup
            (directory / stale).unlink(missing_ok=True)
    if prompt is not None:
        _write(task_file(directory), prompt)
    stdin = str(task_file(directory)) if stdin_prompt else os.devnull
    return _opened(directory, stdin, os.O_CREAT | os.O_TRUNC | (os.O_APPEND if append else 0))


def reopen(directory: Path) -> Files:
    """The files of an attempt that was left running, as they are; one that somebody removed is made anew, empty.

    Raises OSError, with nothing left open."""
    _make(directory)
    return _opened(directory, os.devnull, os.O_CREAT | os.O_APPEND)


def _opened(directory: Path, stdin: str, how: int) -> Files:
    """Raises OSError, with nothing left open."""
    opened = [os.open(stdin, os.O_RDONLY | os.O_CLOEXEC)]
    # Readable, too: they are sealed by these descriptors, whatever somebody makes of their names meanwhile.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | how
    try:
        opened.extend(os.open(directory / name, flags, 0o600) for name in STREAMS)
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return Files(directory, *opened)


def _make(directory: Path) -> bool:
    """Whether it was not there before."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return False
    except FileNotFoundError:  # what is above it was removed
        os.makedirs(directory, 0o700)
    return True


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, slots=True)
class Seal:
    """Artifacts at their final size, previews of both streams, and when the last byte came (epoch ms)."""

    artifacts: tuple[Sealed, ...]
    stdout: str
    stderr: str
    last_output_at: int | None


def seal(files: Files, *, whole: int, preview: int) -> Seal:
    """Read the files to their end. Text up to `whole` bytes is kept whole, above that its two ends of `preview`.

    A disk that does not give them back costs the text, not the outcome."""
    found: dict[str, tuple[int, str, int]] = {}
    for name, descriptor in (("stdout", files.stdout), ("stderr", files.stderr)):
        try:
            status = os.fstat(descriptor)
            text = _text(descriptor, status.st_size, whole, preview)
            found[name] = (status.st_size, text, status.st_mtime_ns // 1_000_000)
        except OSError as error:
            log.warning("%s cannot be read: %s, ignoring", files.directory / name, error)
            found[name] = (0, "", 0)
    artifacts = tuple(Sealed(name, str(files.directory / name), found[name][0]) for name in STREAMS)
    last = max((at for size, _, at in found.values() if size), default=None)
    return Seal(artifacts, found["stdout"][1], found["stderr"][1], last)


def seal_silent(files: Files) -> Seal | None:
    """The seal of an attempt that wrote nothing, None of any other. Asks the descriptors only, which waits for no
    disk: a thread's turn is saved."""
    if any(os.fstat(descriptor).st_size for descriptor in (files.stdout, files.stderr)):
        return None
    return Seal(tuple(Sealed(name, str(files.directory / name), 0) for name in STREAMS), "", "", None)


def _text(descriptor: int, size: int, whole: int, preview: int) -> str:
    if size <= whole:
        return readable(os.pread(descriptor, size, 0))
    head, tail = os.pread(descriptor, preview, 0), os.pread(descriptor, preview, size - preview)
    head, tail = _whole_characters_at_end(head), _whole_characters_at_start(tail)
    left_out = size - len(head) - len(tail)
    return f"{readable(head)}\n… {left_out} bytes left out …\n{readable(tail)}"


def readable(data: bytes) -> str:
    """Valid text of any bytes: what is no UTF-8, and NUL, is shown as U+FFFD."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character whose rest is not there: 0 to 3. What can become no
    character is none."""
    for back in range(1, min(3, len(data)) + 1):
        if data[-back] & 0xC0 != 0x80:  # the last byte that may begin one
            try:
                _, used = codecs.utf_8_decode(data[-back:], "strict", False)
            except UnicodeDecodeError:
                return 0
            return back - used
    return 0


def _whole_characters_at_end(data: bytes) -> bytes:
    """Without the beginning of a character whose rest was cut off."""
    return data[: len(data) - unfinished(data)]


def _whole_characters_at_start(data: bytes) -> bytes:
    """Without the end of a character whose beginning was cut off."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def sizes(directory: Path) -> tuple[Sealed, ...]:
    """The files of an attempt as they are; those that are not there are left out."""
    found = []
    for name in STREAMS:
        try:
            found.append(Sealed(name, str(directory / name), (directory / name).stat().st_size))
        except OSError:
            continue
    return tuple(found)
