"""Where no agents are, the tests of them are skipped; where they are demanded, that is a failure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.agents.installed import INSTALL, VARIABLE, folder
from tests.support.daemon import REPOSITORY


def test_without_agents_the_tests_of_them_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the command that installs them."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=INSTALL):
        folder()


def test_where_they_are_demanded_they_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in .ci/run, which sets the variable."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match=INSTALL):
        folder()
    (tmp_path / "installed").touch()
    assert folder() == tmp_path / "bin"


def test_the_installer_removes_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    """A directory with something else in it is refused, and stays."""
    (tmp_path / "bin").mkdir()
    done = subprocess.run([REPOSITORY / INSTALL, tmp_path], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "holds something else" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
