"""reexec: replace the running daemon by the installed program, with all that runs."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command
from qlctl.output import print_json
from qlctl.render.text import clean
from questlined.wire.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MANAGER = "io.questline.Manager."


def run(given: Arguments) -> int:
    """Replace the program, and print who answers then."""
    client = connect(given)
    before = client.call(MANAGER + "Status", {})
    agreed = client.change(MANAGER + "Reexec", {})
    client.close()
    now = client.call(MANAGER + "Status", {})
    if now["startedAt"] == agreed["startedAt"]:
        raise Unavailable(
            f"questlined {agreed['version']} could not be executed; {now['version']} goes on, with all that runs",
            hint="the daemon's log says why",
        )
    if now["pid"] != before["pid"] and agreed["startedAt"] == before["startedAt"]:
        raise Unavailable(
            f"questlined {agreed['version']} ended as it began, and was started anew (pid {now['pid']}): what ran was"
            " interrupted and runs again, but for units, which go on",
            hint="the daemon's log says why",
        )
    if given.flag("--json"):
        print_json(_told(before, now, agreed))
    else:
        print(clean(_line(_told(before, now, agreed))))
    return 0


def _told(before: dict[str, Any], now: dict[str, Any], agreed: dict[str, Any]) -> dict[str, Any]:
    return {"from": before["version"], "to": now["version"], "pid": now["pid"], "running": agreed["running"]}


def _line(told: dict[str, Any]) -> str:
    count = told["running"]
    work = {0: "nothing was running", 1: "one quest runs on"}.get(count, f"{count} quests run on")
    return f"questlined {told['from']} was replaced by {told['to']} (pid {told['pid']}); {work}"


COMMANDS = {
    "reexec": Command(
        run,
        about="Replace the running daemon by the installed program, for instance after an upgrade. Quests that run go"
        " on, and clients wait for a moment. A program that could not start is refused, and the old one goes on.",
    )
}
