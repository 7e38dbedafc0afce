"""qlctl add"""

from __future__ import annotations

from tests.support.daemon import Daemon


def test_a_quest_runs_and_is_done(daemon: Daemon) -> None:
    """Its stdout is the result, its stderr an artifact."""
    added = daemon.qlctl("add", "--wait", "--json", "echo hello; echo oops >&2")
    shown = daemon.json("list")
    assert added.returncode == 0
    assert [(quest["state"], quest["result"]) for quest in shown] == [("done", "hello\n")]
