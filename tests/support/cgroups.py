"""A part of the tree of control groups that was delegated to the running test, as systemd delegates it to a unit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from questlined.procs import cgroup
from questlined.procs.cgroup import Cgroups

NAME = "questline-test-"  # and the pid


@contextmanager
def delegation() -> Iterator[Cgroups]:
    """A group that holds this process alone and is marked as delegated. Afterwards we are back where we were.

    Skips where we may not make groups below our own.
    """
    home = own_directory()
    if home is None:
        pytest.skip("no cgroup2 is mounted that shows our group")
    top = home / f"{NAME}{os.getpid()}"
    try:
        sweep(home)
        top.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made below {home}: {error.strerror}")
    try:
        os.setxattr(top, "user.delegate", b"1")
        cgroup.put(str(top), 0)
        found = cgroup.delegated({})
        assert found is not None
        assert found.directory == str(top)
        yield found
    finally:
        cgroup.put(str(home), 0)
        cgroup.end([str(top)])
        assert not top.exists()


def sweep(home: Path) -> None:
    """End what tests left that were killed."""
    for group in home.glob(f"{NAME}*"):
        if not Path("/proc", group.name.removeprefix(NAME).partition("-")[0]).exists():
            cgroup.end([str(group)])


def own_directory() -> Path | None:
    """Where the group of this process is mounted."""
    path = cgroup.path_of(os.getpid())
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        if kind == "cgroup2" and path is not None:
            directory = Path(mount + path)
            if directory.is_dir() and str(os.getpid()) in (directory / "cgroup.procs").read_text().split():
                return directory
    return None


@contextmanager
def enclosures(folder: Path) -> Iterator[Callable[[], str]]:
    """Interpreters for daemons: each call gives one that begins alone in a delegated group of its own.

    Skips where we may not make groups below our own.
    """
    home, made = own_directory(), list[Path]()

    def another() -> str:
        assert home is not None
        group = home / f"{NAME}{os.getpid()}-{len(made)}"
        made.append(group)
        group.mkdir()
        os.setxattr(group, "user.delegate", b"1")
        wrapper = folder / f"python-{len(made)}"
        wrapper.write_text(f'#!/bin/sh\necho 0 >"{group}/cgroup.procs"\nexec "{sys.executable}" "$@"\n')
        wrapper.chmod(0o755)
        return str(wrapper)

    if home is None or not os.access(home, os.W_OK):
        pytest.skip("no group can be made below our own")
    try:
        yield another
    finally:
        cgroup.end([str(group) for group in made])
    assert not any(group.exists() for group in made)
