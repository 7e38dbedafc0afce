"""why: the closed gates of a quest that waits."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command
from qlctl.output import print_json
from qlctl.render.moments import both
from qlctl.render.quest import ending
from qlctl.render.text import clean
from qlctl.values import now_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(given: Arguments) -> int:
    """Print every reason why the quest does not run yet."""
    reply = connect(given).call("io.questline.Quests.Why", {"id": given.words[0]})
    if given.flag("--json"):
        print_json({"gates": reply["gates"]})
    else:
        print("\n".join(lines(reply["quest"], reply["gates"], now_ms())))
    return 0


def lines(quest: dict[str, Any], gates: list[dict[str, Any]], now: int) -> list[str]:
    """The state and a line for each gate, with when it opens where that is known."""
    if gates:
        return [clean(f"{quest['id']} is {quest['state']} and waits:"), *(_gate(gate, now) for gate in gates)]
    if quest["state"] in ("queued", "interrupted"):
        return [clean(f"{quest['id']} is {quest['state']}; nothing holds it back")]
    return [ending(quest)]


def _gate(gate: dict[str, Any], now: int) -> str:
    opens = gate.get("opensAt")
    when = "" if opens is None else f", opens {both(opens, now)}"
    return clean(f"  {gate['gate']}: {gate['detail']}") + when


COMMANDS = {
    "why": Command(
        run,
        "ID",
        least=1,
        most=1,
        about="Show why a quest does not run yet: every gate that is closed, and when it opens if that is known.",
    )
}
