"""version: which client, which daemon, on which socket, with which state."""

from __future__ import annotations

import questlined.wire
from qlctl.client import connect
from qlctl.options import Arguments, Command
from qlctl.output import print_json
from qlctl.render.moments import span
from qlctl.render.text import clean
from qlctl.values import now_ms
from questlined.wire.errors import DaemonUnreachable

CLIENT_VERSION = questlined.__version__


def run(given: Arguments) -> int:
    """Print versions and places; what is known without the daemon is printed without it, too."""
    client = connect(given)
    try:
        daemon = client.call("io.questline.Manager.Status", {})
    except DaemonUnreachable:
        if given.flag("--json"):
            print_json({"version": CLIENT_VERSION, "socket": client.path, "daemon": None})
        else:
            print(clean(f"qlctl {CLIENT_VERSION}, socket {client.path}"))
        raise
    if given.flag("--json"):
        print_json({"version": CLIENT_VERSION, "socket": client.path, "daemon": daemon})
        return 0
    up = span(now_ms() - daemon["startedAt"])
    print(clean(f"qlctl {CLIENT_VERSION}, socket {client.path}"))
    print(clean(f"questlined {daemon['version']}, pid {daemon['pid']}, up {up}"))
    print(clean(f"state directory {daemon['stateDirectory']}"))
    if "isolation" in daemon:  # an older daemon does not tell
        print(clean(f"attempts are held together by {daemon['isolation']}"))
    return 0


COMMANDS = {
    "version": Command(
        run, about="Show the versions of qlctl and of the daemon, the socket between them, and where its state is."
    )
}
