"""Where the real agents are, and what is said where they are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "QUESTLINE_TEST_AGENTS"
INSTALL = "tests/agents/install"


def folder() -> Path:
    """The directory of the programs. Skips the test without it; where the variable demands it, that is a failure."""
    demanded = os.environ.get(VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = Path(demanded or cache / "questline-agents")
    if not (place / "installed").exists():
        told = f"no agents in {place}: {INSTALL} puts them there"
        if demanded:
            pytest.fail(f"{told} ({VARIABLE} demands them)", pytrace=False)
        pytest.skip(told)
    return place / "bin"
