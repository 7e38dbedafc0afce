"""What the demo shows: a table redrawn in place on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import os
import shutil
from typing import Any, TextIO

from questlined.demo.plan import Plan

TICK_S = 0.1
GAP = "  "
BEFORE, AFTER = "\033[?25l\033[?7l", "\033[?7h\033[?25h"  # no cursor and no wrapping; both again
COLOURS = {"done": "32", "failed": "31", "blocked": "33", "interrupted": "33", "running": "36", "cancelled": "2"}
PLAIN_COLUMNS = 100
MARKS = {"queued": "·", "running": "▸", "done": "✓", "failed": "✗"}
ASCII_MARKS = {"queued": ".", "running": ">", "done": "*", "failed": "!"}
SPINNER, ASCII_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"


class Screen:
    """The table of a plan's quests, on `out`."""

    def __init__(self, plan: Plan, out: TextIO) -> None:
        self._plan = plan
        self._out = out
        self._names = {step.name: step for step in plan.steps}
        self._quests: dict[str, dict[str, Any]] = {}
        self._drawn = 0
        self._turn = 0
        terminal = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.live = terminal and shutil.get_terminal_size().lines > len(plan.steps) + 2
        self._coloured = terminal and not os.environ.get("NO_COLOR")
        fancy = _writes(out, SPINNER + "".join(MARKS.values()))
        self._marks = MARKS if fancy else ASCII_MARKS
        self._spinner = SPINNER if fancy else ASCII_SPINNER

    def change(self, quest: dict[str, Any], now: int) -> None:
        """A quest has this state now (epoch milliseconds)."""
        self._quests[quest["name"]] = quest
        if self.live:
            self.draw(now)
        else:
            self._out.write(self._line(quest["name"], now, PLAIN_COLUMNS).rstrip() + "\n")
            self._out.flush()

    def draw(self, now: int) -> None:
        """The table as it is now, over the one drawn before."""
        self._turn += 1
        columns = shutil.get_terminal_size().columns if self._out.isatty() else PLAIN_COLUMNS
        lines = [self._line(name, now, columns) for name in self._names]
        if self.live:
            # Without wrapping while it is drawn: a line that is longer than it looks must not become two.
            up = f"\033[{self._drawn}A" if self._drawn else ""
            self._out.write(BEFORE + up + "\r" + "".join(f"{line}\033[K\n" for line in lines) + AFTER)
        else:
            self._out.write("".join(f"{line.rstrip()}\n" for line in lines))
        self._out.flush()
        self._drawn = len(lines)

    def restore(self) -> None:
        """Leave the terminal as it was: Ctrl-C makes it drop what it had not shown yet, the end of a drawing too."""
        if self.live:
            self._out.write(AFTER)
            self._out.flush()

    def say(self, text: str, style: str = "") -> None:
        """Print a text; what could move a cursor in it is shown as an escape."""
        shown = safe(text, lines=True)
        self._out.write(self._paint(shown, style) + "\n")
        self._out.flush()

    def _line(self, name: str, now: int, columns: int) -> str:
        quest = self._quests.get(name, {"state": "queued", "attempts": 0})
        state = quest["state"]
        turning = state == "running" and self.live
        mark = self._spinner[self._turn % len(self._spinner)] if turning else self._marks.get(state, "-")
        width = max(len(each) for each in self._names)
        head = GAP.join(["", mark, name.ljust(width), ""])
        middle = GAP.join(["", _tries(quest, self._names[name].max_attempts), _took(quest, now), ""])
        room = max(columns - len(head) - 7 - len(middle), 10)
        return (
            head
            + self._paint(state.ljust(7), COLOURS.get(state, ""))
            + middle
            + _cut(self._note(name, quest, now), room)
        )

    def _note(self, name: str, quest: dict[str, Any], now: int) -> str:
        """What one wants to know of a quest in this state."""
        state, step = quest["state"], self._names[name]
        if state == "done":
            return _first_line(quest.get("result") or "")
        if state == "running":
            return _first_line(step.task).removeprefix("# ")
        if state == "queued" and quest.get("retryAt"):
            wait_s = max(quest["retryAt"] - now, 0) / 1000
            return f"{_first_line(quest.get('error') or 'it failed')}; next attempt in {wait_s:.1f} s"
        if state == "queued":
            awaited = [each for each in step.after if self._quests.get(each, {}).get("state") != "done"]
            return f"after {', '.join(awaited)}" if awaited else "waits for a free slot"
        return _first_line(quest.get("error") or quest.get("reason") or "")

    def _paint(self, text: str, style: str) -> str:
        return f"\033[{style}m{text}\033[0m" if style and self._coloured else text


def safe(text: str, *, lines: bool = False) -> str:
    """The text with what is not printable as escapes; with `lines`, newlines and tabs stay."""
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return safe(line.replace("\t", "  "))


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 3] + "..."


def _tries(quest: dict[str, Any], allowed: int) -> str:
    charged = quest["attempts"] - quest.get("refunds", 0)
    return f"{charged}/{allowed}" if charged else "   "


def _took(quest: dict[str, Any], now: int) -> str:
    started = quest.get("startedAt")
    if started is None or quest["state"] == "queued":
        return " " * 7
    return f"{max((quest.get('finishedAt') or now) - started, 0) / 1000:5.1f} s"


def _writes(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
