"""A power cut, played: what a process asked of its files, and what a disk may hold of it when the power is gone.

A file's bytes and size are sure up to its last fsync, its name up to its directory's. Of what was written later each
sector is there or is not, in any order; names come in the order of their making.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import strace

SECTOR = 512
CALLS = "openat,?unlink,unlinkat,pwrite64,write,fsync,fdatasync,ftruncate"
_LINE = re.compile(r"^\d+ +(\w+)\((.*)\) += (\d+)(?:<.*>)?$")
_DESCRIPTOR = re.compile(r"\d+<([^>]*)>")
_HEX = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass(frozen=True, slots=True)
class Call:
    """One of `make`, `drop`, `write`, `truncate`, `sync` (of a file or of the directory ""), or `mark`."""

    what: str
    name: str = ""
    offset: int = 0
    data: bytes = b""


def recorded(folder: Path, marks: Path, command: Sequence[str]) -> list[Call]:
    """Run `command`, and give all that it did to the files of `folder`, in order, and what it wrote to `marks`."""
    strace.needed()
    log = folder.with_name("calls")
    options = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "1048576", "-o", str(log), "-e", f"trace={CALLS}"]
    subprocess.run(["strace", *options, *command], check=True, timeout=120)
    with log.open() as lines:
        return list(_calls(lines, folder, marks))


def _calls(lines: Iterator[str], folder: Path, marks: Path) -> Iterator[Call]:
    for line in _whole(lines):
        found = _LINE.match(line)
        if found is None:  # a failed call, a signal, an exit
            continue
        call, arguments, result = found.groups()
        if call in ("openat", "unlink", "unlinkat"):
            yield from _naming(call, arguments, folder)
            continue
        described = _DESCRIPTOR.match(arguments)
        path = Path(_plain(described[1])) if described else Path()
        if path == marks:
            yield Call("mark", data=_bytes(arguments))
        elif path == folder:
            yield Call("sync")
        elif path.parent == folder and not path.name.endswith(("-shm", ".lock")):
            yield from _change(call, arguments, path.name, int(result))


def _change(call: str, arguments: str, name: str, result: int) -> Iterator[Call]:
    last = arguments.rpartition(", ")[2]
    if call in ("fsync", "fdatasync"):
        yield Call("sync", name)
    elif call == "ftruncate":
        yield Call("truncate", name, int(last))
    elif call == "pwrite64":
        data = _bytes(arguments)
        assert len(data) == result, "strace cut a write"
        yield Call("write", name, int(last), data)
    else:
        raise AssertionError(f"{call} of {name} is not understood")


def _naming(call: str, arguments: str, folder: Path) -> Iterator[Call]:
    path = Path(os.fsdecode(_bytes(arguments)))
    drops = call != "openat"
    if path.parent == folder and not path.name.endswith("-shm") and (drops or "O_CREAT" in arguments):
        yield Call("drop" if drops else "make", path.name)


def _whole(lines: Iterator[str]) -> Iterator[str]:
    """Calls that another thread's call cut in two, put together at their end."""
    begun: dict[str, str] = {}
    for line in lines:
        thread = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>\n"):
            begun[thread] = line.removesuffix("<unfinished ...>\n").rstrip()
        elif "resumed>" in line:
            yield begun.pop(thread) + line.partition("resumed>")[2].rstrip()
        else:
            yield line.rstrip("\n")


def _plain(text: str) -> str:
    return os.fsdecode(bytes.fromhex(text.replace("\\x", ""))) if text.startswith("\\x") else text


def _bytes(arguments: str) -> bytes:
    found = _HEX.search(arguments)
    assert found is not None, arguments[:80]
    return bytes.fromhex(found[1].replace("\\x", ""))


@dataclass(slots=True)
class _File:
    """What is surely on the disk, and what was asked for since."""

    sure: bytearray = field(default_factory=bytearray)
    asked: list[Call] = field(default_factory=list)

    def sync(self) -> None:
        for call in self.asked:
            _apply(self.sure, call)
        self.asked.clear()

    def after(self, pieces: Iterable[Call]) -> bytes:
        """Its content when these are there besides."""
        content = bytearray(self.sure)
        for piece in pieces:
            _apply(content, piece)
        return bytes(content)


def _apply(content: bytearray, call: Call) -> None:
    if call.what == "truncate":
        del content[call.offset :]
    content.extend(bytes(max(0, call.offset - len(content))))
    content[call.offset : call.offset + len(call.data)] = call.data


def _sectors(call: Call) -> Iterator[Call]:
    """A write in the pieces that a disk writes whole; any other call as it is."""
    done = 0
    while done < len(call.data):
        size = SECTOR - (call.offset + done) % SECTOR
        yield Call("write", call.name, call.offset + done, call.data[done : done + size])
        done += size
    if not call.data:
        yield call


class Disk:
    """The files of one directory, and three ways in which a power cut may leave them."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._names: set[str] = set()  # surely there
        self._namings: list[Call] = []

    def take(self, call: Call) -> None:
        """Carry a call out."""
        if call.what in ("make", "drop"):
            there = call.name in self._named(self._namings)
            if there is (call.what == "make"):
                return
            if call.what == "make":
                self._files[call.name] = _File()
            self._namings.append(call)
        elif call.what != "sync":
            self._files[call.name].asked.append(call)
        elif call.name:
            self._files[call.name].sync()
        else:
            self._names = self._named(self._namings)
            self._namings.clear()

    def whole(self) -> dict[str, bytes]:
        """All that was asked for is there."""
        return {name: self._files[name].after(self._files[name].asked) for name in self._named(self._namings)}

    def torn(self, chance: random.Random, last: Call) -> dict[str, bytes]:
        """All is there but some of the last write, `last`: its first sectors, or its last ones."""
        files = self.whole()
        if last.what == "write" and last.name in files:
            *before, final = self._files[last.name].asked
            pieces = list(_sectors(final))
            cut = chance.randrange(len(pieces))
            there = pieces[:cut] if chance.random() < 0.5 else pieces[len(pieces) - cut :]
            files[last.name] = self._files[last.name].after([*before, *there])
        return files

    def lost(self, chance: random.Random) -> dict[str, bytes]:
        """Any of what was not made sure is there, in pieces; few of them or most, by chance."""
        kept = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        files = {}
        for name in sorted(self._named(self._namings[: chance.randint(0, len(self._namings))])):
            pieces = [piece for call in self._files[name].asked for piece in _sectors(call)]
            files[name] = self._files[name].after([piece for piece in pieces if chance.random() < kept])
        return files

    def _named(self, namings: Sequence[Call]) -> set[str]:
        names = set(self._names)
        for call in namings:
            if call.what == "make":
                names.add(call.name)
            else:
                names.discard(call.name)
        return names
