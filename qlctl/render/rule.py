"""A recurring quest in few words, in a table, and whole."""

from __future__ import annotations

from qlctl.render.moments import both, exactly, local, relative
from qlctl.render.quest import first_line
from qlctl.render.text import clean, indent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LABEL = 14
FACTS = (
    ("project", "project"),
    ("rule", "cron"),
    ("zone", "timezone"),
    ("catch-up", "catchUp"),
    ("role", "role"),
    ("lane", "lane"),
    ("priority", "priority"),
)


def next_time(rule: dict[str, Any], now: int) -> str:
    """`in 5h`, `paused`, or `due` where it waits for something."""
    if not rule["enabled"]:
        return "paused"
    return "due" if rule["nextRunAt"] <= now else relative(rule["nextRunAt"], now)


def sentence(rule: dict[str, Any]) -> str:
    """What was made."""
    return clean(f"{rule['id']} {rule['name']} in {rule['project'].removeprefix('name:')}")


def times(rule: dict[str, Any], upcoming: list[dict[str, Any]], now: int) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of the next times: by the clock here, and by the rule's zone."""
    rows = [[local(time["at"]), relative(time["at"], now), clean(time["local"])] for time in upcoming]
    return ["NEXT", "", clean(rule["timezone"])], rows


def table(rules: list[dict[str, Any]], now: int, *, projects: bool) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of `qlctl recurring list`."""
    heads = ["ID", "NAME", "NEXT", "LAST", "RULE", "ZONE", *(["PROJECT"] if projects else []), "TASK"]
    rows = []
    for rule in rules:
        last = rule.get("lastEnqueuedAt")
        cells = [rule["id"], rule["name"], next_time(rule, now), "-" if last is None else relative(last, now)]
        cells += [rule["cron"], rule["timezone"], *([rule["project"]] if projects else []), first_line(rule["task"])]
        rows.append([clean(cell) for cell in cells])
    return heads, rows


def detail(rule: dict[str, Any], now: int) -> str:
    """All of it but the next times."""
    facts = [(label, clean(str(rule[key]))) for label, key in FACTS if rule.get(key) is not None]
    facts.append(("attempts", str(rule["maxAttempts"]) if rule["maxAttempts"] else "no limit"))
    if rule.get("timeoutMs") is not None:
        facts.append(("timeout", exactly(rule["timeoutMs"])))
    if rule["external"]:
        facts.append(("external", "yes"))
    last = rule.get("lastEnqueuedAt")
    facts.append(("last added", "never" if last is None else both(last, now)))
    facts.append(("made", both(rule["createdAt"], now)))
    parts = [clean(f"{rule['id']}  {rule['name']}" + ("" if rule["enabled"] else "  paused"))]
    parts += [f"{label + ':':<{LABEL}}{text}" for label, text in facts]
    for body in ("task", "context"):
        if rule.get(body):
            parts += ["", f"{body}:", indent(clean(rule[body], lines=True))]
    return "\n".join(parts)
