"""200 real quests of every kind, in two checkouts, drained through two SIGKILLs of the daemon."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.daemon import SHELL, Daemon
from tests.support.evidence import Evidence, Fifo, alive
from tests.support.invariants import broken

CONFIG = SHELL.replace('"100ms"', '"50ms"') + "scheduler.max_concurrent = 4\n"
LOUD_BYTES = 1_000_000
KILLS = 2
SLOTS = 4


@dataclass(frozen=True)
class Kind:
    """What a kind of quest runs, and how it must end. `dead`: because of a dependency, without ever having run."""

    number: int
    command: str
    state: str = "done"
    attempts: int = 1
    more: tuple[tuple[str, Any], ...] = ()
    dead: bool = False


# For each checkout. A retrying one fails until its command has begun three times; interrupted beginnings count, too.
TRIES = 'test "$(wc -l <"{runs}/$QUESTLINE_ID.runs")" -ge 3'
# A killed git leaves its lock behind; nobody else of the lane runs, and git status takes none (GIT_OPTIONAL_LOCKS).
COMMIT = "find .git -name '*.lock' -delete; git add -A && git commit -q --allow-empty -m lane"
KINDS = {
    "log": Kind(20, "git log --format=%s"),
    "status": Kind(20, "git status --short --branch"),
    "compile": Kind(10, 'PYTHONPYCACHEPREFIX="$(mktemp -d)" python3 -m compileall -q -f .'),
    "failing": Kind(10, "echo sorry >&2; exit 3", "failed", 2, (("maxAttempts", 2),)),
    "slow": Kind(7, "sleep 0.3"),
    "held": Kind(1, f"{TRIES} || cat hold", more=(("priority", 9),)),  # running at each kill
    "loud": Kind(8, f"head -c {LOUD_BYTES} /dev/zero | tr '\\0' x"),
    "retrying": Kind(10, TRIES, "done", 3, (("maxAttempts", 5),)),
    "lane": Kind(6, COMMIT, more=(("lane", "index"),)),
    "after": Kind(5, "true", more=(("dependsOn", ["log 3", "slow 2", "retrying 1"]), ("priority", 5))),
    "doomed": Kind(3, "true", "failed", 0, (("dependsOn", ["failing 1"]),), dead=True),
}


def checkout(folder: Path) -> Path:
    """A repository with three commits of Python files."""
    folder.mkdir()
    os.mkfifo(folder / "hold")
    git(folder, "init", "-q", "-b", "main")
    for number in range(3):
        for module in range(4):
            (folder / f"m{number}{module}.py").write_text(f"def f(x):\n    return x + {number}\n" * 50)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"commit {number}")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, env={**os.environ, **IDENTITY})


IDENTITY = {"GIT_OPTIONAL_LOCKS": "0"} | {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Quest"), ("EMAIL", "quest@example.org"))
}
GIT_ENV = "".join(f'executor.env.set.{name} = "{value}"\n' for name, value in IDENTITY.items())


def lines(evidence: Evidence, ended: Fifo) -> list[dict[str, Any]]:
    """One checkout's quests as --from-file takes them."""
    quests = []
    for name, kind in KINDS.items():
        body = kind.command.replace("{runs}", str(evidence.folder))
        command = evidence.task(f'( {body} ); code=$?; echo ended >"{ended.path}"; exit $code')
        quests += [{"task": command, "name": f"{name} {n}", **dict(kind.more)} for n in range(kind.number)]
    return quests


def added(daemon: Daemon, checkouts: list[Path], quests: list[dict[str, Any]]) -> dict[str, Kind]:
    """Every quest's id with its kind."""
    text = "\n".join(json.dumps(quest) for quest in quests)
    kinds: dict[str, Kind] = {}
    for folder in checkouts:
        answers = daemon.json("add", "--from-file", "-", stdin=text, cwd=folder)
        ids = [answer["id"] for answer in answers]
        kinds |= {quest_id: KINDS[quest["name"].split()[0]] for quest_id, quest in zip(ids, quests, strict=True)}
    return kinds


def ends(ended: Fifo, number: int) -> None:
    for _ in range(number):
        ended.next()


def test_two_hundred_quests_survive_two_kills(tmp_path: Path) -> None:
    """None is missing or doubled, none ran twice at once, every state is right, and no process is left."""
    checkouts = [checkout(tmp_path / "one"), checkout(tmp_path / "two words")]
    evidence, ended = Evidence(tmp_path / "evidence"), Fifo(tmp_path / "ended")
    quests = lines(evidence, ended)
    assert len(quests) * len(checkouts) == 200
    with Daemon(tmp_path, CONFIG + GIT_ENV) as daemon:
        kinds = added(daemon, checkouts, quests)
        assert len(kinds) == 200
        for _ in range(KILLS):
            ends(ended, 70)
            daemon.kill()
            daemon.start()
        daemon.qlctl("wait", *kinds, check=False)
        database = daemon.state / "quests.sqlite"
        found = {quest["id"]: quest for quest in daemon.json("list", "--all-projects", "--limit", "1000")}
        runs = {quest_id: evidence.runs(quest_id) for quest_id in kinds}
        assert daemon.qlctl("health", "--all-projects").returncode == 0
        assert evidence.overlaps() == []
        assert alive(database) == []
        assert broken(database) == []
        assert {quest_id: quest["state"] for quest_id, quest in found.items()} == {
            quest_id: kind.state for quest_id, kind in kinds.items()
        }
        sound(found, kinds, runs)
        results(daemon, found, kinds)
    ended.close()


def sound(found: dict[str, dict[str, Any]], kinds: dict[str, Kind], runs: dict[str, list[str]]) -> None:
    """Each was tried as often as its kind says, but for what the kills cut off."""
    assert sum(quest["refunds"] for quest in found.values()) <= KILLS * SLOTS
    for quest_id, quest in found.items():
        kind, charged = kinds[quest_id], quest["attempts"] - quest["refunds"]
        assert len(set(runs[quest_id])) == len(runs[quest_id]) <= quest["attempts"], quest
        if kind.dead:
            assert (runs[quest_id], quest["failureKind"]) == ([], "dependency")
        elif kind is KINDS["retrying"]:
            assert len(runs[quest_id]) >= kind.attempts
        elif kind is KINDS["held"]:
            assert (quest["refunds"], charged) == (KILLS, kind.attempts)
        else:
            assert charged == kind.attempts, quest


def results(daemon: Daemon, found: dict[str, dict[str, Any]], kinds: dict[str, Kind]) -> None:
    """What they printed is there."""
    for quest_id, quest in found.items():
        if kinds[quest_id] is KINDS["log"]:
            assert quest["result"].endswith("commit 2\ncommit 1\ncommit 0\n")
        elif kinds[quest_id] is KINDS["failing"]:
            assert "sorry" in quest["error"]
        elif kinds[quest_id] is KINDS["loud"]:
            artifacts = daemon.json("show", quest_id)["artifacts"]
            last = {file["kind"]: file["bytes"] for file in artifacts if file["attempt"] == quest["attempts"]}
            assert last == {"stdout": LOUD_BYTES, "stderr": 0}
