"""show: everything about one quest."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command
from qlctl.output import print_json
from qlctl.render.detail import detail
from qlctl.values import now_ms


def run(given: Arguments) -> int:
    """Print the quest with its attempts, files and last state changes."""
    reply = connect(given).call("io.questline.Quests.Get", {"id": given.words[0]})
    if given.flag("--json"):
        print_json({key: reply[key] for key in ("quest", "runs", "events", "artifacts")})
    else:
        print(detail(reply, now_ms()))
    return 0


COMMANDS = {
    "show": Command(run, "ID", least=1, most=1, about="Show all about a quest. A unique beginning of its id will do.")
}
