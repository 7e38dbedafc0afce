"""Timer units: what wakes the daemon for a recurrence. The text is made here; who asked for it writes it."""

from __future__ import annotations

import json
from collections.abc import Sequence

SERVICE = "questline-recurring"
MARK = "# Written by qlctl timer install. qlctl timer remove takes it away; changes in here are lost."


def unit_name(rule: str) -> str:
    """The timer of a rule's id, whose service is the template's instance of that id."""
    return f"{SERVICE}@{rule}.timer"


def timer(
    *,
    rule: str,
    name: str,
    project: str,
    cron: str,
    zone: str,
    lines: Sequence[str],
    delay_ms: int,
) -> str:
    """The unit's text. It begins with MARK, and its last section tells whose it is, as JSON strings."""
    about = _one_line(f"Alarm clock of the recurring quest {name} in {project.removeprefix('name:')}.")
    delay = [f"RandomizedDelaySec={delay_ms}ms"] if delay_ms else []
    return "\n".join(
        [
            MARK,
            "[Unit]",
            f"Description={about.replace('%', '%%')}",
            "",
            "[Timer]",
            f"# The rule is {_one_line(cron)}, {_one_line(zone)}. It wakes at each of its times, and at some besides:",
            "# what is due then, questlined knows.",
            *(f"OnCalendar={line}" for line in lines),
            "# A time that passes while the machine is off is made up for, by the rule's catch-up.",
            "Persistent=true",
            "# By default it may be late by a minute.",
            "AccuracySec=1s",
            *delay,
            "",
            "[Install]",
            "WantedBy=timers.target",
            "",
            "[X-Questline]",
            f"Recurrence={json.dumps(rule)}",
            f"Name={json.dumps(name)}",
            f"Project={json.dumps(project)}",
            "",
        ]
    )


def _one_line(text: str) -> str:
    """Without what would end a line of a unit file."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
