"""Scenes whose children have a cgroup each, and processes in groups that no family spawned."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from questlined.procs.cgroup import Cgroups
from tests.integration.procs.scene import PATIENCE_S, Scene, scene


@asynccontextmanager
async def grouped(cgroups: Cgroups) -> AsyncIterator[Scene]:
    async with scene(cgroups=cgroups) as here:
        assert here.family.isolation == "cgroup"
        yield here


@contextmanager
def lone(group: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group that no family spawned, without a marker."""
    script = 'echo 0 >"$0/cgroup.procs"; echo in; exec sleep 1000'
    with subprocess.Popen(
        ["sh", "-c", script, group], stdout=subprocess.PIPE, env={}, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"in\n"
            yield process
        finally:
            process.kill()


async def until_gone(cgroups: Cgroups, group: str) -> None:
    """Turn the loop until a group is removed."""
    async with asyncio.timeout(PATIENCE_S):
        while group in cgroups.groups():  # noqa: ASYNC110  its removal is no event that a test could have
            await asyncio.sleep(0)
