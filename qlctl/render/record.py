"""How an attempt ended, in few words."""

from __future__ import annotations

from qlctl.render.quest import first_line
from qlctl.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Where the class says no more than the outcome, the outcome is the better word.
PLAIN = frozenset({"ok", "failed", "cancelled", "interrupted", "released"})


def ended(record: dict[str, Any]) -> str:
    """The end of an attempt on one cleaned line: `attempt 2 failed: exit code 3`, `attempt 1 ended: timeout`."""
    data = record["data"]
    how, why = data.get("outcome") or "ended", data.get("error")
    kind = data.get("class")
    if not why and kind and kind not in PLAIN:
        why = kind
    if not why and data.get("exitSignal") is not None:
        why = f"signal {data['exitSignal']}"
    told = {"done": "is done", "failed": "failed", "ended": "ended"}.get(how, f"was {how}")
    return clean(f"attempt {record['attempt']} {told}" + (f": {first_line(why)}" if why else ""))
