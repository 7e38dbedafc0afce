"""Real quests of every kind, in two checkouts, drained while the daemon is killed at random moments and started again.

The short form is part of every run. The long one, here with what it should be and another seed of the moments:

    QUESTLINE_SOAK_QUESTS=1000 QUESTLINE_SOAK_KILLS=5 QUESTLINE_SOAK_SEED=7 python -m pytest tests/fault/test_soak.py
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.daemon import REPOSITORY, SHELL, Daemon
from tests.support.evidence import Evidence, Fifo, alive
from tests.support.invariants import broken

SHARE = 200  # what KINDS amounts to in two checkouts; a soak is a multiple of it
QUESTS, KILLS, SEED = (
    int(os.environ.get(f"QUESTLINE_SOAK_{name}", usual))
    for name, usual in (("QUESTS", SHARE), ("KILLS", 3), ("SEED", 1))
)
SLOTS = 4
CONFIG = (
    SHELL.replace('"100ms"', '"50ms"')
    + f"""
scheduler.max_concurrent = {SLOTS}
max_interruptions = {max(KILLS, 5)}
"""
)
LOUD_BYTES = 1_000_000
LATE_CLIENTS, LATE_QUESTS = 2, 3  # for each kill
PATIENCE_ROUNDS, ROUND = 30, "30s"


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
    "compile": Kind(10, 'PYTHONPYCACHEPREFIX="{runs}/$QUESTLINE_ID.compiled" python3 -m compileall -q -f .'),
    "failing": Kind(10, "echo sorry >&2; exit 3", "failed", 2, (("maxAttempts", 2),)),
    "slow": Kind(7, "sleep 0.3"),
    "held": Kind(1, "test -e let-go || cat hold", more=(("priority", 9),)),  # running at each kill
    "loud": Kind(8, f"head -c {LOUD_BYTES} /dev/zero | tr '\\0' x"),
    "retrying": Kind(10, TRIES, "done", 3, (("maxAttempts", 5),)),
    "lane": Kind(6, COMMIT, more=(("lane", "index"),)),
    "after": Kind(5, "true", more=(("dependsOn", ["log 3", "slow 2", "retrying 1"]), ("priority", 5))),
    "doomed": Kind(3, "true", "failed", 0, (("dependsOn", ["failing 1"]),), dead=True),
}
LATE = Kind(0, KINDS["log"].command)


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


@dataclass(frozen=True)
class Late:
    """A client that adds while the daemon is being killed, and what it adds where."""

    process: subprocess.Popen[str]
    text: str
    folder: Path


class Soak:
    """A drain: who was told what, and when the daemon is to be killed."""

    def __init__(self, folder: Path, daemon: Daemon) -> None:
        self.daemon = daemon
        self.checkouts = [checkout(folder / "one"), checkout(folder / "two words")]
        self.evidence, self.ended = Evidence(folder / "evidence"), Fifo(folder / "ended")
        self.kinds: dict[str, Kind] = {}  # of each acknowledged quest
        self.chance = random.Random(SEED)

    def line(self, name: str, kind: Kind) -> dict[str, Any]:
        """A quest as --from-file takes it."""
        body = kind.command.replace("{runs}", str(self.evidence.folder))
        command = self.evidence.task(f'( {body} ); code=$?; echo ended >"{self.ended.path}"; exit $code')
        return {"task": command, "name": name, **dict(kind.more)}

    def fill(self) -> None:
        """Add shares of every kind to each checkout. Held ones would fill all slots: only the first share has them."""
        for share in range(QUESTS // SHARE):
            for folder in self.checkouts:
                named = [(f"{name} {n}", kind) for name, kind in KINDS.items() for n in range(kind.number)]
                kept = [(name, LATE if share and kind is KINDS["held"] else kind) for name, kind in named]
                text = jsonl(self.line(name, kind) for name, kind in kept)
                told = self.daemon.json("add", "--from-file", "-", stdin=text, cwd=folder)
                self.kinds |= {each["id"]: kind for each, (_, kind) in zip(told, kept, strict=True)}

    def kill(self, number: int) -> None:
        """Kill the daemon at a moment of chance and start it again; clients add all the while, and are told."""
        for _ in range(self.chance.randint(8, int(0.7 * QUESTS / KILLS))):
            self.ended.next()
        late = [self.client(f"late {number} {n}") for n in range(LATE_CLIENTS)]
        self.ended.during(self.chance.uniform(0, 0.4))
        self.daemon.kill()
        late.append(self.client(f"down {number}"))
        if number == KILLS - 1:
            for folder in self.checkouts:
                (folder / "let-go").touch()
        self.daemon.start()
        self.ended.during(0)  # those of attempts that the daemon's death cut off
        for client in late:
            self.told(client)

    def client(self, name: str) -> Late:
        """Start a qlctl that adds some quests."""
        folder = self.chance.choice(self.checkouts)
        text = jsonl(self.line(f"{name} {n}", LATE) for n in range(LATE_QUESTS))
        process = subprocess.Popen(
            [sys.executable, "-m", "qlctl", "add", "--from-file", "-", "--json"],
            env=self.daemon.environ(PYTHONPATH=str(REPOSITORY)),
            cwd=folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        return Late(process, text, folder)

    def told(self, late: Late) -> None:
        """Keep what the client was told. One that found nobody has sent nothing, and is repeated by hand."""
        out, err = late.process.communicate(timeout=60)
        assert late.process.returncode in (0, 69), err
        if late.process.returncode:
            assert "no daemon answers" in err
            out = self.daemon.qlctl("add", "--from-file", "-", "--json", stdin=late.text, cwd=late.folder).stdout
        self.kinds |= {each["id"]: LATE for each in json.loads(out)}

    def drain(self) -> None:
        """Return when all is over."""
        for _ in range(PATIENCE_ROUNDS):
            if self.daemon.qlctl("wait", "--timeout", ROUND, *self.kinds, check=False).returncode != 124:
                return
        raise AssertionError(self.daemon.qlctl("health", "--all-projects").stdout)


def jsonl(quests: Iterable[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(quest) for quest in quests)


def test_quests_survive_kills_at_any_moment(tmp_path: Path) -> None:
    """None is missing or doubled, none ran twice at once, every state is right, and no process is left."""
    assert QUESTS % SHARE == 0, f"QUESTLINE_SOAK_QUESTS is no multiple of {SHARE}"
    with Daemon(tmp_path, CONFIG + GIT_ENV) as daemon:
        soak = Soak(tmp_path, daemon)
        soak.fill()
        for number in range(KILLS):
            soak.kill(number)
        soak.drain()
        kinds, database = soak.kinds, daemon.state / "quests.sqlite"
        found = {quest["id"]: quest for quest in everything(daemon)}
        runs = {quest_id: soak.evidence.runs(quest_id) for quest_id in kinds}
        assert daemon.qlctl("health", "--all-projects").returncode == 0
        assert soak.evidence.overlaps() == []
        assert alive(database) == []
        assert broken(database) == []
        assert {quest_id: quest["state"] for quest_id, quest in found.items()} == {
            quest_id: kind.state for quest_id, kind in kinds.items()
        }
        sound(found, kinds, runs)
        results(daemon, found, kinds)
    soak.ended.close()


def everything(daemon: Daemon) -> Iterator[dict[str, Any]]:
    """All quests that there are."""
    cursor: list[str] = []
    while page := daemon.json("list", "--all-projects", "--limit", "1000", *cursor):
        yield from page
        cursor = ["--cursor", page[-1]["id"]]


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
        if kinds[quest_id] in (KINDS["log"], LATE):
            assert quest["result"].endswith("commit 2\ncommit 1\ncommit 0\n")
        elif kinds[quest_id] is KINDS["failing"]:
            assert "sorry" in quest["error"]
        elif kinds[quest_id] is KINDS["loud"]:
            artifacts = daemon.json("show", quest_id)["artifacts"]
            last = {file["kind"]: file["bytes"] for file in artifacts if file["attempt"] == quest["attempts"]}
            assert last == {"stdout": LOUD_BYTES, "stderr": 0}
