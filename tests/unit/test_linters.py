"""ruff and mypy --strict have nothing to say."""

import subprocess
import sys

import pytest

from tests.support.house import ROOT


@pytest.mark.parametrize("command", [["ruff", "check", "--no-cache", "."], ["mypy"]], ids=lambda command: command[0])
def test_the_linter_is_silent(command):
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
