"""A place to play in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.property.search import Field

MEMORY = Path("/dev/shm")  # crashes here are of programs, so that the disk need not take part


@contextmanager
def a_field() -> Iterator[Field]:
    """In memory where there is room for files, on the disk elsewhere."""
    folder = Path(tempfile.mkdtemp(prefix="histories-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    try:
        yield Field(folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def field() -> Iterator[Field]:
    with a_field() as made:
        yield made
