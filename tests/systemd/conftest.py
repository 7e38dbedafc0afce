"""One lab for all tests here, booted when the first asks for it.

Without root or what a lab needs, the tests are skipped and say why; with QUESTLINE_TEST_SYSTEMD=1 they fail instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd.lab import Lab
from tests.systemd.machine import LabError

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "systemd: runs on a real systemd, in a lab")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("systemd")


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A running systemd with the code under test. Nothing of it is left when the tests are over."""
    try:
        running = Lab()
    except LabError as error:
        if os.environ.get("QUESTLINE_TEST_SYSTEMD") == "1":
            pytest.fail(f"no lab: {error}", pytrace=False)
        pytest.skip(f"no lab: {error}")
    yield running
    running.close()
    assert running.left() == []
