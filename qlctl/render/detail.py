"""All of one quest, for reading."""

from __future__ import annotations

from qlctl.render.colour import paint, wanted
from qlctl.render.moments import both, exactly, local
from qlctl.render.quest import attempts, first_line, how_it_left, took
from qlctl.render.text import clean, indent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LABEL = 14
LAST_EVENTS = 10
MOMENTS = (
    ("added", "createdAt"),
    ("started", "startedAt"),
    ("cancel asked", "cancelRequestedAt"),
    ("finished", "finishedAt"),
    ("retry at", "retryAt"),
    ("lease until", "leaseExpiresAt"),
)
FACTS = (
    ("name", "name"),
    ("project", "project"),
    ("role", "role"),
    ("lane", "lane"),
    ("priority", "priority"),
    ("class", "class"),
    ("failure", "failureKind"),
    ("failed through", "failedDependencyId"),
    ("reason", "reason"),
    ("question", "question"),
    ("parent", "parentId"),
)
BODIES = ("task", "context", "result", "error")


def detail(reply: dict[str, Any], now: int) -> str:
    """The text of `qlctl show` for {quest, runs, events, artifacts}; bodies keep their lines, nothing else does."""
    quest = reply["quest"]
    head = f"{clean(quest['id'])}  {paint(quest['state'], quest['state'], coloured=wanted())}"
    parts = [head, *_facts(quest, now)]
    for body in BODIES:
        if quest.get(body):
            parts += ["", f"{body}:", indent(clean(quest[body], lines=True))]
    parts += _section("attempts", [_run(run, now) for run in reply["runs"]])
    parts += _section("artifacts", [_artifact(artifact) for artifact in reply["artifacts"]])
    events = reply["events"][:LAST_EVENTS]
    parts += _section("last events", [f"{local(event['at'])}  {clean(event['event'])}" for event in events])
    return "\n".join(parts)


def _facts(quest: dict[str, Any], now: int) -> list[str]:
    facts = [(label, clean(str(quest[key]))) for label, key in FACTS if quest.get(key) not in (None, "")]
    facts.append(("attempts", attempts(quest)))
    if quest["dependsOn"]:
        facts.append(("depends on", clean(", ".join(quest["dependsOn"]))))
    if quest.get("choices"):
        facts.append(("choices", clean(" / ".join(quest["choices"]))))
    if quest["external"]:
        facts.append(("external", "waits for a worker outside the daemon"))
    if quest.get("timeoutMs") is not None:
        facts.append(("timeout", exactly(quest["timeoutMs"])))
    if quest["state"] == "queued" and quest["scheduledAt"] > now:
        facts.append(("not before", both(quest["scheduledAt"], now)))
    facts += [(label, both(quest[key], now)) for label, key in MOMENTS if quest.get(key) is not None]
    return [f"{label:<{LABEL}}  {value}" for label, value in facts]


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"    {line}" for line in lines)] if lines else []


def _run(run: dict[str, Any], now: int) -> str:
    """An attempt on one line; telemetry only where it is known."""
    kind = run.get("class") or run.get("outcome") or "running"
    known = [f"{key} {run[key]}" for key in ("model", "turns", "tokens") if run.get(key) is not None]
    if run.get("costUsd") is not None:
        known.append(f"${run['costUsd']:.2f}")
    note = first_line(run.get("summary") or run.get("error") or run.get("lastActivity") or "")
    start = f"{run['attempt']}  run #{run['number']}  {kind}  exit {how_it_left(run)}  {took(run, now)}"
    return clean("  ".join(part for part in (start, local(run["startedAt"]), ", ".join(known), note) if part))


def _artifact(artifact: dict[str, Any]) -> str:
    return clean(f"{artifact['attempt']}  {artifact['kind']:<8} {artifact['bytes']} B  {artifact['path']}")
