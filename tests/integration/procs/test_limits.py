"""The daemon may open more files than the programs that it starts."""

from __future__ import annotations

import resource

from questlined.procs.limits import OPEN_FILES_MAX
from tests.support.daemon import Daemon

USUAL = 1024


def test_the_daemon_raises_its_own_limit_of_open_files_and_not_a_quests(daemon: Daemon) -> None:
    """Some programs break above the usual limit, and others try to close every descriptor that they could have."""
    soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    assert soft == (OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX))
    assert soft > USUAL
    task = f'until [ "$(ulimit -Sn)" = {USUAL} ]; do :; done; ulimit -Hn'  # set a moment after it was started
    assert daemon.qlctl("add", "--wait", "--", task).stdout == f"{hard}\n"
