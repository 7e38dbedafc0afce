"""The checks by which the fault suite judges do find what they look for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.store.scene import another, on_bench
from tests.support.evidence import Evidence, Fifo, alive, store_uuid
from tests.support.invariants import QUERIES, broken
from tests.support.stores import Bench


async def varied(bench: Bench) -> None:
    """Quests of most kinds, one of them running."""
    done = await bench.add()
    claimed = await bench.claim_own()
    await bench.finish(claimed[0])
    await bench.add(lane="l", priority=5)
    await bench.claim_own()
    await bench.add(lane="l", priority=1)
    await bench.add(depends_on=(done,))
    failing = await bench.add(priority=9)
    await bench.add(depends_on=(failing,))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    on_bench(tmp_path, varied)
    return tmp_path / "quests.sqlite"


WRONG = {
    "a reference to nothing": "INSERT INTO quest_events(quest_id, event, at) VALUES ('q-nobody', 'x', 1)",
    "a count that is not the number of quests": "UPDATE counts SET quests = quests + 1 WHERE state = 'done'",
    "unmet is not": "UPDATE quests SET unmet = unmet + 1 WHERE id = (SELECT max(id) FROM quests)",
    "a waiting quest whose dependency is dead": "UPDATE quests SET state = 'failed', failure_kind = 'execution', "
    "finished_at = 1 WHERE id = (SELECT depends_on FROM quest_deps WHERE depends_on IN "
    "(SELECT id FROM quests WHERE state = 'queued'))",
    "lanes.running is not": "UPDATE lanes SET running = 0",
    "a lane that is over-full": "UPDATE lanes SET running = 2",
    "a quest in the wrong bucket": "UPDATE quests SET bucket = 99 WHERE state = 'done'",
    "a bucket whose head": "UPDATE buckets SET head_row = NULL",
    "a lane gate": "UPDATE buckets SET closed = 0 WHERE lane = 'l'",
    "a pause gate": "UPDATE buckets SET closed = closed | 2",
    "a path gate": "UPDATE buckets SET closed_daemon = closed_daemon | 4",
    "attempts that were not counted": "UPDATE quests SET attempts = attempts + 1 WHERE state = 'done'",
    "refunds that are not": "UPDATE quests SET refunds = 1 WHERE state = 'done'",
    "an open attempt": "UPDATE quest_runs SET lease_gen = 7 WHERE finished_at IS NULL",
    "two open attempts": "INSERT INTO quest_runs(quest_id, attempt, owner_session, lease_gen, started_at, project, "
    "run_number) SELECT quest_id, 2, 'x', 2, 1, project, 3 FROM quest_runs WHERE finished_at IS NULL",
    "a done quest whose last": "UPDATE quest_runs SET outcome = 'failed' WHERE finished_at IS NOT NULL",
    "an artifact of no attempt": "INSERT INTO quest_artifacts SELECT id, 9, 9, 'k', 'p', 0, 0 FROM quests LIMIT 1",
    "run numbers": "UPDATE quest_runs SET run_number = 5 WHERE run_number = 1",
    "the role gate": "UPDATE buckets SET closed_daemon = closed_daemon | 1",
    "the project gate": "UPDATE buckets SET closed_daemon = closed_daemon | 2",
}


def test_a_sound_database_has_nothing_broken(database: Path) -> None:
    assert broken(database) == []


@pytest.mark.parametrize("said", WRONG)
def test_what_is_wrong_is_found(database: Path, said: str) -> None:
    """One wrong figure each."""
    with another(database) as db:
        db.execute("PRAGMA foreign_keys = off")
        assert db.execute(WRONG[said]).rowcount > 0
    assert any(said in each for each in broken(database)), broken(database)


def test_limits_are_part_of_what_is_right(database: Path) -> None:
    """A gate that should be closed is missed."""
    assert "role gate" in broken(database, role={"default": 1})[0]
    assert "project gate" in broken(database, project=1)[0]


def test_most_queries_are_shown_to_bite() -> None:
    """The rest is what a CHECK or foreign key refuses to be made wrong."""
    unshown = [name for name in QUERIES if not any(name.startswith(said) for said in WRONG)]
    assert unshown == ["a quest with a lane that no lane row knows", "a lease without a running quest, or the reverse"]


def test_overlaps_are_seen(tmp_path: Path) -> None:
    """Of one quest, also with what is left of it, and of more than the slots of a lane."""
    evidence, hold, started = Evidence(tmp_path / "e"), Fifo(tmp_path / "hold"), Fifo(tmp_path / "started")

    def run(task: str, quest: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sh", "-c", task], env={"PATH": "/usr/bin:/bin", "QUESTLINE_ID": quest})

    held = f'echo up >"{started.path}"; read x <"{hold.path}"'
    first = run(evidence.task(f"( {held} ) & exit 0"), "q-1")
    first.wait()
    started.next()
    run(evidence.task("true"), "q-2").wait()
    assert evidence.overlaps() == []
    run(evidence.task("true"), "q-1").wait()
    assert evidence.overlaps() == ["q-1"]
    lane = [run(evidence.within("lane", 2, held), f"q-{number}") for number in (3, 4)]
    started.next()
    started.next()
    assert evidence.overlaps() == ["q-1"]
    run(evidence.within("lane", 2, "true"), "q-5").wait()
    assert evidence.overlaps() == ["q-1", "lane"]
    hold.put(3)
    assert [each.wait() for each in lane] == [0, 0]
    hold.close()
    started.close()


def test_a_process_with_the_stores_mark_is_seen(database: Path) -> None:
    """While it lives, and not one of another store."""
    script = "import sys; print(flush=True); sys.stdin.read()"
    for uuid, seen in ((store_uuid(database), 1), ("another", 0)):
        with subprocess.Popen(
            [sys.executable, "-c", script],
            env={"QUESTLINE_ATTEMPT": f"{uuid}:q-1:1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as child:
            assert child.stdout
            child.stdout.readline()
            assert len(alive(database)) == seen
        assert alive(database) == []
