"""events --follow: state changes as they happen, through restarts of the daemon."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.flow import Flow
from qlctl.options import Arguments
from qlctl.place import place
from qlctl.render.quest import event_cells
from qlctl.render.table import GAP, NARROWEST, terminal_columns
from qlctl.render.text import cut, pad
from qlctl.values import integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from qlctl.client import Call, Client

METHOD = "io.questline.Quests.Watch"
HEADS = ["SEQ", "TIME", "QUEST", "EVENT", "DATA"]
WIDTHS = (6, 19, 14, 15)  # what is to come is not known, so that the columns are not measured


def watch(given: Arguments) -> int:
    """Print events until a signal ends it."""
    after = given.text("--after")
    last = None if after is None else integer("--after", after, 0)
    client, flow = connect(given), Flow()
    only, where = _what(client, given)
    client.on_absence = lambda: flow.say("the connection to the daemon is lost; going on when it is back")

    def call() -> Call:
        return METHOD, where if last is None else {**where, "after": last}

    if not given.flag("--json"):
        flow.put("stdout", line(HEADS, terminal_columns()))
    while True:
        for reply in client.stream(call):
            for event in reply["events"]:
                if only in (None, event["questId"]):
                    _print(flow, event, as_json=given.flag("--json"))
            last = reply["last"]


def _what(client: Client, given: Arguments) -> tuple[str | None, dict[str, object]]:
    """The one quest whose events are wanted, if it is one, and whose events to ask for."""
    if given.words:
        wanted = {"id": given.words[0], "timeoutMs": 0}
        return client.call("io.questline.Quests.Wait", wanted)["quest"]["id"], {"allProjects": True}
    return None, {"allProjects": True} if given.flag("--all-projects") else place(given)


def _print(flow: Flow, event: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        flow.put_json(event)
    else:
        flow.put("stdout", line(event_cells(event), terminal_columns()))


def line(cells: list[str], columns: int | None) -> str:
    """Cleaned cells as a line of the table; the last one is cut so that it takes at most `columns`."""
    padded = GAP.join(pad(cell, size) for cell, size in zip(cells, WIDTHS, strict=False)) + GAP
    last = cells[-1] if columns is None else cut(cells[-1], max(columns - len(padded), NARROWEST))
    return (padded + last).rstrip() + "\n"
