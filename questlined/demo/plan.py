"""What the demo queues, and the configuration of its daemon."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FIND = "find . -xdev -maxdepth 3 -type f -not -path '*/.*'"


@dataclass(frozen=True, slots=True)
class Step:
    """A quest to add. `tries` is how many attempts it should take, None where that is open."""

    name: str
    task: str
    after: tuple[str, ...] = ()
    max_attempts: int = 1
    tries: int | None = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The quests in the order they are added, and the program that does them."""

    what: str
    command: tuple[str, ...]
    timeout: str
    steps: tuple[Step, ...]
    shown: str  # the step whose result is printed in full


# Each takes a second, so that there is something to see. Notes go to a directory of the demo: here nothing is changed.
SHELL = Plan(
    "a plain shell command",
    ("sh", "-c", "{task}"),
    "60s",
    (
        Step(
            "flaky",
            """# fail at the first attempt, on purpose
sleep 1
if [ -e "$NOTES/tried" ]; then echo "it worked at the second attempt" | tee "$NOTES/flaky"; exit; fi
touch "$NOTES/tried"
exit 1""",
            max_attempts=3,
            tries=2,
        ),
        Step(
            "files",
            f"""# count the files
sleep 1
echo "$({FIND} | wc -l) files in three levels" | tee "$NOTES/files\"""",
        ),
        Step(
            "largest",
            f"""# find the largest files
sleep 1
{FIND} -printf '%s\\t%P\\n' | sort -rn | head -n 5 | tee "$NOTES/largest\"""",
            ("files",),
        ),
        Step(
            "history",
            """# look up the last commit
sleep 1
{ git log -1 --format='%h %s, %cr' 2>/dev/null || echo 'no git history to be seen'; } | tee "$NOTES/history\"""",
        ),
        Step(
            "summary",
            """# put together what the others found
sleep 1
pwd
for note in files largest history flaky; do echo; echo "$note:"; sed 's/^/  /' "$NOTES/$note"; done""",
            ("flaky", "largest", "history"),
        ),
    ),
    shown="summary",
)

_READ_ONLY = "Only read, change nothing."
CLAUDE = Plan(
    "claude -p",
    ("claude", "-p", "{task}"),
    "15min",
    (
        Step("overview", f"What is in this directory? Three short lines. {_READ_ONLY}", max_attempts=2, tries=None),
        Step("first", f"Which file here should one read first? One sentence. {_READ_ONLY}", max_attempts=2, tries=None),
        Step(
            "advice",
            f"What one change would help this directory most? One or two sentences. {_READ_ONLY}",
            ("overview", "first"),
            max_attempts=2,
            tries=None,
        ),
    ),
    shown="advice",
)

AGENTS = {None: SHELL, "claude": CLAUDE}


def configuration(plan: Plan, notes: Path) -> str:
    """The text of the daemon's questlined.toml: the program, two at a time, a retry after a second."""
    return "\n".join(
        (
            f"executor.command = {json.dumps(plan.command)}",
            f"executor.env.set = {{ NOTES = {json.dumps(str(notes))} }}",
            f"executor.timeout = {json.dumps(plan.timeout)}",
            'executor.terminate_grace = "1s"',
            'backoff_base = "1s"',
            "backoff_jitter = 0",
            "scheduler.max_concurrent = 2",
            "disk.min_free_bytes = 0",  # a demo is no night's queue, and must not hang on a small /tmp
            "",
        )
    )


def request(plan: Plan, directory: str, path: str) -> dict[str, object]:
    """The parameters of AddMany: all quests in one transaction, dependencies by name."""
    quests = [
        {"name": s.name, "task": s.task, "dependsOn": list(s.after), "maxAttempts": s.max_attempts} for s in plan.steps
    ]
    return {"project": directory, "path": path, "quests": quests}
