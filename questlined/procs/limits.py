"""The daemon's own limits. Those of the programs that it starts are set where they are started."""

from __future__ import annotations

import resource

OPEN_FILES_MAX = 524_288  # what systemd gives as the hard limit; elsewhere that may be without end


def raise_open_files() -> int:
    """Let this process open as many descriptors as it may; the number. Each client and attempt takes some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
