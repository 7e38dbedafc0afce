"""`python -m tests.agents.api [PORT]` prints the stand-in's URL and serves until Ctrl-C, to try an agent by hand."""

from __future__ import annotations

import signal
import sys

from tests.agents.api.server import serving

with serving(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as server:
    print(server.url, flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
