"""A quest, an attempt and an event in few words."""

from __future__ import annotations

from qlctl.codec import encode
from qlctl.render.moments import local, span
from qlctl.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RUN_HEADS = ["ATTEMPT", "RUN", "CLASS", "EXIT", "TOOK", "STARTED", "TURNS", "TOKENS", "COST", "NOTE"]
TELEMETRY = ("TURNS", "TOKENS", "COST")
UNKNOWN = "-"


def attempts(quest: dict[str, Any], *, short: bool = False) -> str:
    """Charged attempts of those allowed: `1 of 3`, `4, no limit`; short `1/3`, `4`. The wire's 0 is no limit."""
    charged, allowed = quest["attempts"] - quest["refunds"], attempts_allowed(quest)
    if allowed is None:
        return str(charged) if short else f"{charged}, no limit"
    return f"{charged}/{allowed}" if short else f"{charged} of {allowed}"


def attempts_allowed(quest: dict[str, Any]) -> int | None:
    """How many attempts are allowed, as people count them: without those that were not charged. None is no limit."""
    return quest["maxAttempts"] - quest["refunds"] if quest["maxAttempts"] else None


def ending(quest: dict[str, Any]) -> str:
    """The state a quest has come to, and the reason or question that goes with it, on one cleaned line."""
    told = f"{quest['id']} is {quest['state']}"
    if quest["state"] == "blocked":
        asked = quest.get("question") or quest.get("reason") or "it needs a person"
        choices = " / ".join(quest.get("choices") or [])
        return clean(f"{told}: {asked}" + (f" [{choices}]" if choices else ""))
    if quest["state"] in ("failed", "cancelled"):
        # the error of a cancelled one is that of its last attempt, and says less than what somebody said
        keys = ("reason", "error") if quest["state"] == "cancelled" else ("error", "reason")
        why = next((quest[key] for key in keys if quest.get(key)), "")
        return clean(f"{told}: {first_line(why)}" if why and why != quest["state"] else told)
    if quest["state"] == "running" and quest.get("cancelRequestedAt"):
        return clean(f"{told} and is being stopped")
    return clean(told)


def first_line(text: str) -> str:
    """The first line of a text that holds more than white space."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def took(run: dict[str, Any], now: int) -> str:
    """How long an attempt took, or has taken so far."""
    finished = run.get("finishedAt")
    return span((now if finished is None else finished) - run["startedAt"])


def how_it_left(run: dict[str, Any]) -> str:
    """`0`, `signal 9`, or `-` where the process's end is not known."""
    if run.get("exitSignal") is not None:
        return f"signal {run['exitSignal']}"
    return "-" if run.get("exitCode") is None else str(run["exitCode"])


def run_table(runs: list[dict[str, Any]], now: int) -> tuple[list[str], list[list[str]]]:
    """The heads and cells of `qlctl runs`; telemetry that is known of none of the attempts has no column."""
    rows = [run_cells(run, now) for run in runs]
    shown = [
        index
        for index, head in enumerate(RUN_HEADS)
        if head not in TELEMETRY or any(row[index] != UNKNOWN for row in rows)
    ]
    return [RUN_HEADS[index] for index in shown], [[row[index] for index in shown] for row in rows]


def run_cells(run: dict[str, Any], now: int) -> list[str]:
    """An attempt as cells for RUN_HEADS; unknown telemetry is `-`, never 0."""
    kind = run.get("class") or run.get("outcome") or "running"
    note = run.get("summary") or run.get("error") or run.get("lastActivity") or ""
    telemetry = [UNKNOWN if run.get(key) is None else str(run[key]) for key in ("turns", "tokens")]
    cost = UNKNOWN if run.get("costUsd") is None else f"${run['costUsd']:.2f}"
    place = [str(run["attempt"]), f"#{run['number']}", kind, how_it_left(run), took(run, now), local(run["startedAt"])]
    return [clean(cell) for cell in [*place, *telemetry, cost, first_line(note)]]


def event_cells(event: dict[str, Any]) -> list[str]:
    """An event as cells for the heads of `qlctl events`."""
    data = event.get("data")
    shown = encode(data) if data else ""
    return [clean(cell) for cell in (str(event["seq"]), local(event["at"]), event["questId"], event["event"], shown)]
