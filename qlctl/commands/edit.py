"""edit: change a quest that waits."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.commands.add import from_file
from qlctl.options import Arguments, Command, Option
from qlctl.output import print_json
from qlctl.render.moments import exactly, local
from qlctl.render.quest import attempts_allowed
from qlctl.render.table import terminal_columns
from qlctl.render.text import clean, cut, width
from qlctl.values import integer, moment_ms, now_ms, span_ms
from questlined.wire.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NONE = "none"
LABEL = 12
MARK = " -> "


def run(given: Arguments) -> int:
    """Send what was typed, and print what has changed."""
    wanted = changes(given)
    if not wanted:
        raise InvalidInput("edit: nothing to change was given", hint="qlctl edit --help lists what can be")
    client = connect(given)
    before = client.call("io.questline.Quests.Wait", {"id": given.words[0], "timeoutMs": 0})["quest"]
    after = client.change("io.questline.Quests.Edit", {"id": before["id"], **wanted})["quest"]
    if given.flag("--json"):
        print_json(after)
    else:
        print("\n".join(told(before, after, now_ms(), terminal_columns())))
    return 0


def changes(given: Arguments) -> dict[str, object]:
    """The parameters of Edit that were typed; what was taken away is "" or 0 there. Raises InvalidInput."""
    wanted: dict[str, object] = {"task": _task(given), "context": given.text("--context"), "name": given.text("--name")}
    lane = given.text("--lane")
    wanted["lane"] = "" if lane == NONE else lane
    if (priority := given.text("--priority")) is not None:
        wanted["priority"] = integer("--priority", priority)
    if (most := given.text("--max-attempts")) is not None:
        wanted["maxAttempts"] = integer("--max-attempts", most, 0)
    if (moment := given.text("--not-before")) is not None:
        wanted["notBefore"] = 0 if moment == NONE else moment_ms("--not-before", moment, now_ms())
    if (limit := given.text("--timeout")) is not None:
        wanted["timeoutMs"] = 0 if limit == NONE else span_ms("--timeout", limit)
    return {key: value for key, value in wanted.items() if value is not None}


def _task(given: Arguments) -> str | None:
    task, file = given.text("--task"), given.text("--file")
    if task is not None and file is not None:
        raise InvalidInput("--task and --file both give the task", hint="use one of them", field="task")
    if file is not None:
        return from_file(file, "--file")
    return from_file("-", "--task") if task == "-" else task


def told(before: dict[str, Any], after: dict[str, Any], now: int, columns: int | None) -> list[str]:
    """A line for each fact that is another than before, both values in it; on a terminal within its columns."""
    old, new = facts(before, now), facts(after, now)
    changed = [(label, old[label], new[label]) for label in new if new[label] != old[label]]
    if not changed:
        return [clean(f"{after['id']}: all of it was so already")]
    room = None if columns is None else max((columns - LABEL - len(MARK) - 4) // 2, 8)
    return [clean(f"{after['id']} changed:"), *(_line(*change, room) for change in changed)]


def _line(label: str, old: str, new: str, room: int | None) -> str:
    """Each value gets half the room, and what the other one leaves of its half."""
    left, right = clean(old), clean(new)
    if room is not None:
        left_room, right_room = (max(room, 2 * room - width(other)) for other in (right, left))
        left, right = cut(left, left_room), cut(right, right_room)
    return f"  {label:<{LABEL}}  {left}{MARK}{right}"


def facts(quest: dict[str, Any], now: int) -> dict[str, str]:
    """What can be changed of a quest, as people read it."""
    allowed, scheduled = attempts_allowed(quest), quest["scheduledAt"]
    limit = quest.get("timeoutMs")
    return {
        "name": quest["name"] or NONE,
        "task": quest["task"],
        "context": quest.get("context") or NONE,
        "priority": str(quest["priority"]),
        "not before": local(scheduled) if scheduled > now else NONE,
        "timeout": NONE if limit is None else exactly(limit),
        "max attempts": "no limit" if allowed is None else str(allowed),
        "lane": quest.get("lane") or NONE,
    }


COMMANDS = {
    "edit": Command(
        run,
        "ID",
        least=1,
        most=1,
        options=(
            Option("--task", "TEXT", "another task; `-` is standard input", also=("--body",)),
            Option("--file", "FILE", "read the task from a file"),
            Option("--context", "TEXT", "what the agent should know besides; an empty text takes it away"),
            Option("--name", "NAME", "another name", also=("--title",)),
            Option("--priority", "N", "higher runs first; may be negative"),
            Option("--not-before", "TIME|+SPAN|none", "do not start earlier"),
            Option("--timeout", "SPAN|none", "stop an attempt that takes longer"),
            Option("--max-attempts", "N", "give up after N failures; 0 for no limit"),
            Option("--lane", "LANE|none", "run one at a time with the others of this lane"),
        ),
        about="Change a quest that is queued, interrupted or blocked, and print what has changed. No editor"
        " is started.",
    )
}
