"""What scenes with cgroups are played on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from questlined.procs.cgroup import Cgroups
from tests.support.cgroups import delegation


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    with delegation() as delegated:
        yield delegated
