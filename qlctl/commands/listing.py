"""list: a table of quests."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import on_terminal, print_json, say
from qlctl.pages import collect
from qlctl.place import place
from qlctl.render.moments import span
from qlctl.render.quest import attempts
from qlctl.render.table import room, show, terminal_columns
from qlctl.render.text import clean, cut, cut_front
from qlctl.values import names, now_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TASK_ROOM = 16
SPARED: tuple[tuple[str, ...], ...] = ((), ("PRI", "ATTEMPTS"), ("PRI", "ATTEMPTS", "LANE"))  # until the task has it
SHARES = {"ROLE": 6, "LANE": 6, "PROJECT": 5}  # what may be long gets at most this part of the terminal


def run(given: Arguments) -> int:
    """Print the quests that fit the options, newest first."""
    wanted: dict[str, object] = {"allProjects": True} if given.flag("--all-projects") else place(given)
    if given.flag("--state"):
        wanted["states"] = names("--state", given.many("--state"))
    for option, key in (("--role", "role"), ("--lane", "lane")):
        if given.flag(option):
            wanted[key] = given.text(option)
    quests, following = collect(connect(given), "io.questline.Quests.List", wanted, "quests", given)
    if given.flag("--json"):
        print_json(quests)
    elif quests:
        show(*table(quests, now_ms(), given.flag("--all-projects"), terminal_columns()), state_column=1)
    elif on_terminal():
        say("no quests")
    if following and not given.flag("--json"):
        say(f"there are more: --cursor {following}")
    return 0


def table(
    quests: list[dict[str, Any]], now: int, projects: bool, columns: int | None
) -> tuple[list[str], list[list[str]]]:
    """The heads and cleaned cells: LANE and PROJECT only where they say something, others as far as there is room."""
    heads = ["ID", "STATE", "ROLE", "PRI", "ATTEMPTS", "AGE"]
    heads += ["LANE"] if any(quest.get("lane") for quest in quests) else []
    heads += ["PROJECT"] if projects else []
    for spared in SPARED:
        kept = [head for head in (*heads, "TASK") if head not in spared]
        rows = [[cell(quest, head, now, columns) for head in kept] for quest in quests]
        if columns is None or room(kept, rows, columns) >= TASK_ROOM:
            break
    return kept, rows


def cell(quest: dict[str, Any], head: str, now: int, columns: int | None = None) -> str:
    """What a column shows of a quest, on a terminal of so many columns; of a path the end is kept."""
    if head == "AGE":
        return span(now - quest["createdAt"])
    if head == "ATTEMPTS":
        return attempts(quest, short=True)
    if head == "TASK":
        return clean(_title(quest))
    keys = {"ID": "id", "STATE": "state", "ROLE": "role", "PRI": "priority", "LANE": "lane", "PROJECT": "project"}
    value = quest.get(keys[head])
    shown = "-" if value is None else clean(str(value))
    if columns is None or head not in SHARES:
        return shown
    return (cut_front if head == "PROJECT" else cut)(shown, columns // SHARES[head])


def _title(quest: dict[str, Any]) -> str:
    """Name and task; the task alone where the name is made of it."""
    name, task = quest.get("name") or "", quest["task"]
    made = name.removesuffix("...").removesuffix("…")
    return task if not name or " ".join(task.split()).startswith(made) else f"{name}: {task}"


COMMANDS = {
    "list": Command(
        run,
        options=(
            Option("--state", "STATE,STATE", "only these states", many=True),
            Option("--role", "ROLE", "only this role"),
            Option("--lane", "LANE", "only this lane"),
            Option("--all-projects", "", "quests of all projects"),
            Option("--limit", "N", "at most N (default 30)"),
            Option("--cursor", "ID", "go on after this quest"),
        ),
        about="List the quests of this project, newest first. States are queued, running, interrupted, blocked, done,"
        " failed and cancelled.",
    )
}
