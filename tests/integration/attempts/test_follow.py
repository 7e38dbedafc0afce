"""Following what a quest prints: numbered, the same to every reader, live and stored."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.attempts.follower import FOLLOW, Follower, paged, text
from tests.integration.attempts.scene import Scene, scene
from tests.integration.server.peer import LEASES, QUESTS, Peer

CONFIG = """
scheduler.max_concurrent = 64
executors.file.output = "file"
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("follow"), CONFIG) as playing:
        yield playing
        assert playing.stop() == 0
    assert "Traceback" not in playing.log.read_text()


@pytest.fixture
def peer(stage: Scene) -> Iterator[Peer]:
    with Peer(stage.socket, str(stage.project)) as connected:
        yield connected


def stepwise(stage: Scene, *steps: str) -> str:
    """A task that waits for a line in `hold` before each step but the first."""
    return f'; read line <"{stage.hold.path}"; '.join(steps)


def index_of(stage: Scene, quest: str, attempt: int = 1) -> Path:
    return stage.state / "artifacts" / quest / str(attempt) / "records"


@pytest.mark.parametrize("role", ["default", "file"])
def test_records_come_as_they_are_written_and_are_the_same_for_ever(stage: Scene, peer: Peer, role: str) -> None:
    """In the order of their writing over both streams, each character whole, with numbers that every later reader gets,
    from whichever it asks."""
    steps = (
        "echo one",
        "echo two >&2",
        r"printf 'three \303'",
        r"printf '\251\n'",
        r"printf 'a\377b\000c'",
        "echo err >&2",
        "printf 'no newline'",
    )
    quest = stage.add_as(role, stepwise(stage, *steps))
    reader = Follower(stage.socket, quest)
    seen = ["one\n", "two\n", "one\nthree ", "one\nthree é\n", "one\nthree é\na\ufffdb\ufffdc", "two\nerr\n"]
    for step, expected in enumerate(seen):
        reader.until(expected, "stderr" if steps[step].endswith("&2") else "stdout")
        stage.hold.put()
    live = reader.to_the_end().records
    shown = [record["data"].get("text") or record["data"].get("state") for record in live[:-1]]
    assert shown == ["running", "one\n", "two\n", "three ", "é\n", "a\ufffdb\ufffdc", "err\n", "no newline"]
    assert [record["id"] for record in live] == [f"1.{number}" for number in range(1, len(live) + 1)]
    assert [record["number"] for record in live] == list(range(1, len(live) + 1))
    end = {"outcome": "done", "class": "ok", "exitCode": 0, "exitSignal": None, "error": None}
    assert (live[-1]["kind"], live[-1]["data"]) == ("end", end)
    assert [record["at"] for record in live] == sorted(record["at"] for record in live)
    assert (reader.states[-1], reader.quest and reader.quest["state"]) == ("done", "done")
    for number, record in enumerate(live):
        assert Follower(stage.socket, quest, after=record["id"]).to_the_end().records == live[number + 1 :]
        assert paged(peer, quest, after=record["id"]) == live[number + 1 :]
    assert Follower(stage.socket, quest).to_the_end().records == paged(peer, quest) == live
    for stream in ("stdout", "stderr"):
        only = [record for record in live if record["data"].get("stream") in (None, stream)]
        assert Follower(stage.socket, quest, streams=[stream]).to_the_end().records == only
        assert paged(peer, quest, streams=[stream]) == only


@pytest.mark.parametrize("role", ["default", "file"])
def test_long_lines_and_much_output_arrive_whole(stage: Scene, peer: Peer, role: str) -> None:
    """Lines of more than 64 KiB, characters across every cut; what was read live is what is read later."""
    quest = stage.add_as(role, "for n in 1 2 3 4; do yes é | head -n 300000 | tr -d '\\n'; printf x; done; echo e >&2")
    live = Follower(stage.socket, quest).to_the_end()
    assert live.text() == ("é" * 300_000 + "x") * 4
    assert live.text("stderr") == "e\n"
    assert [record["number"] for record in live.records] == list(range(1, len(live.records) + 1))
    assert all(len(record["data"].get("text", "").encode()) <= 32 * 1024 for record in live.records)
    assert paged(peer, quest) == live.records


@pytest.mark.parametrize("role", ["default", "file"])
def test_what_nobody_looked_at_while_it_ran_has_records_all_the_same(stage: Scene, role: str) -> None:
    quest = stage.add_as(role, "echo out; echo err >&2; exit 3")
    ended = stage.ended(quest)
    reader = Follower(stage.socket, quest).to_the_end()
    assert reader.kinds == ["state", "output", "output", "end"]
    assert (reader.text(), reader.text("stderr")) == ("out\n", "err\n")
    assert reader.records[-1]["data"] | {"error": None} == {
        "outcome": "failed",
        "class": "failed",
        "exitCode": 3,
        "exitSignal": None,
        "error": None,
    }
    assert "exit" in reader.records[-1]["data"]["error"]
    assert reader.records[0]["at"] == ended["run"]["startedAt"]


def test_what_nobody_reads_is_kept_in_its_order_all_the_same(stage: Scene) -> None:
    """Its index is private, and no artifact that people are shown."""
    quest = stage.add_as("default", stage.held("echo one; echo two >&2", "echo three"))
    stage.started.next()
    stage.until(quest, lambda _: index_of(stage, quest).exists())
    stage.hold.put()
    shown = stage.ended(quest)
    assert {file["kind"] for file in shown["artifacts"]} == {"stdout", "stderr"}
    assert index_of(stage, quest).stat().st_mode & 0o777 == 0o600
    reader = Follower(stage.socket, quest).to_the_end()
    assert [record["data"].get("text") for record in reader.records] == [None, "one\n", "two\n", "three\n", None]


def test_many_readers_get_the_same_whenever_they_come(stage: Scene) -> None:
    """Fifty at once: half from the beginning, half when the half is written."""
    quest = stage.add_as("default", stepwise(stage, "seq 1 2000", "seq 2001 4000; echo e >&2"))
    first = [Follower(stage.socket, quest) for _ in range(25)]
    for reader in first:
        reader.until("\n2000\n")
    late = [Follower(stage.socket, quest) for _ in range(25)]
    for reader in late:
        reader.until("\n2000\n")
    stage.hold.put()
    whole = [reader.to_the_end().records for reader in (*first, *late)]
    assert text(whole[0]) == "".join(f"{number}\n" for number in range(1, 4001))
    assert all(records == whole[0] for records in whole)


def rss_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def test_readers_that_do_not_read_cost_next_to_nothing(stage: Scene) -> None:
    """Fifty of them, of a loud quest: what they have not taken stays in its file, and nobody else waits for them."""
    loud_bytes = 16 << 20
    quest = stage.add_as("default", f"head -c {loud_bytes} /dev/zero | tr '\\0' x")
    Follower(stage.socket, quest, streams=[]).to_the_end()
    before = rss_kib(stage.pid)
    stalled = [Follower(stage.socket, quest) for _ in range(50)]
    reader = Follower(stage.socket, quest).to_the_end()
    assert len(reader.text()) == loud_bytes
    grown = rss_kib(stage.pid) - before
    for each in stalled[:2]:
        assert len(each.to_the_end().text()) == loud_bytes
    for each in stalled:
        each.close()
    assert grown < 8 * 1024


def test_a_quest_that_waits_is_followed_from_its_first_attempt_on(stage: Scene, peer: Peer) -> None:
    """Without `more` there is nothing yet."""
    gate = peer.add(external=True)
    quest = peer.add("echo ran", dependsOn=[gate])
    assert peer.call(FOLLOW, id=quest) == {"records": [], "state": "queued"}
    reader = Follower(stage.socket, quest)
    assert reader.turn() == {"records": [], "state": "queued"}
    peer.call(LEASES + "Done", attempt=peer.claim()["run"]["id"])
    assert reader.to_the_end().text() == "ran\n"
    assert reader.states[0] == "queued"


def test_a_quest_that_never_ran_has_no_records(peer: Peer, stage: Scene) -> None:
    quest = peer.add(external=True)
    peer.call(QUESTS + "Cancel", id=quest)
    reader = Follower(stage.socket, quest).to_the_end()
    assert (reader.records, reader.states) == ([], ["cancelled"])


def test_a_retry_is_followed_on_and_an_attempt_alone_is_not(stage: Scene, peer: Peer) -> None:
    """A record's id has its attempt; one attempt's stream ends with it, though the quest goes on."""
    task = 'echo "try $QUESTLINE_RUN"; test -e "$QUESTLINE_PROJECT/good.$QUESTLINE_ID"'
    quest = stage.add_as("default", stepwise(stage, "true", task), "--max-attempts", "2")
    reader, first = Follower(stage.socket, quest), Follower(stage.socket, quest)
    alone = None
    first.until_state("running")
    alone = Follower(stage.socket, quest, attempt=1)
    stage.hold.put()
    alone.to_the_end()
    assert alone.kinds == ["state", "output", "end"]
    assert alone.quest
    assert alone.records[-1]["data"]["outcome"] == "failed"
    (stage.project / f"good.{quest}").touch()
    stage.hold.put()
    reader.to_the_end()
    assert [record["id"] for record in reader.records] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]
    assert reader.records[:3] == alone.records
    assert reader.states[-1] == "done"
    assert Follower(stage.socket, quest, attempt=2).to_the_end().records == reader.records[3:]
    assert Follower(stage.socket, quest, after="1.2").to_the_end().records == reader.records[2:]
    assert Follower(stage.socket, quest, after="1.3").to_the_end().records == reader.records[3:]
    assert Follower(stage.socket, quest, after="2.0").to_the_end().records == reader.records[3:]
    assert Follower(stage.socket, quest, after="2.3").to_the_end().records == []
    assert paged(peer, quest) == reader.records
    assert paged(peer, quest, attempt=1) == alone.records
    gapped = Follower(stage.socket, quest, after="1.77").to_the_end()
    assert (gapped.kinds, gapped.records[1:]) == (["gap", "end", "state", "output", "end"], reader.records[2:])
    first.close()


def test_a_blocked_quest_says_so_and_is_followed_on(stage: Scene, peer: Peer) -> None:
    """A person may still answer."""
    quest = peer.add(external=True)
    reader = Follower(stage.socket, quest)
    peer.call(LEASES + "Block", attempt=peer.claim()["run"]["id"], question="which?")
    reader.until_state("blocked")
    peer.call(QUESTS + "Retry", id=quest)
    peer.call(LEASES + "Done", attempt=peer.claim()["run"]["id"], result="mine")
    reader.to_the_end()
    assert reader.kinds == ["state", "end", "state", "end"]
    assert reader.quest
    assert reader.quest["result"] == "mine"


def test_a_cancel_is_a_record_of_its_own(stage: Scene, peer: Peer) -> None:
    """Between what was printed before it and the end."""
    quest = stage.add_as("default", stage.held("echo before"))
    stage.started.next()
    reader = Follower(stage.socket, quest).until("before\n")
    peer.call(QUESTS + "Cancel", id=quest)
    reader.to_the_end()
    assert [record["data"].get("state") for record in reader.records if record["kind"] == "state"] == [
        "running",
        "cancelling",
    ]
    assert reader.records[-1]["data"]["outcome"] == "cancelled"
    assert Follower(stage.socket, quest).to_the_end().records == reader.records


def test_output_that_was_truncated_is_a_gap(stage: Scene) -> None:
    """What a command does to a file that it was given is told, once in the log, and following goes on."""
    quest = stage.add_as("file", stepwise(stage, "echo one; echo two", "echo three >/dev/stdout", "echo four"))
    reader = Follower(stage.socket, quest).until("one\ntwo\n")
    stage.hold.put()
    reader.until("three\n")
    stage.hold.put()
    reader.to_the_end()
    assert reader.kinds == ["state", "output", "gap", "output", "output", "end"]
    assert reader.text() == "one\ntwo\nthree\nfour\n"
    assert "id" not in reader.records[2]
    assert stage.log.read_text().count(f"{quest}/1/stdout has shrunk") == 1
    again = Follower(stage.socket, quest).to_the_end().records
    assert [record.get("id") for record in again if "id" in record] == ["1.1", "1.2", "1.3", "1.4", "1.5"]


def test_files_that_are_gone_are_a_gap_and_the_result(stage: Scene, peer: Peer) -> None:
    """None of them has an id; attempts that are there are followed as ever."""
    task = 'echo "try $QUESTLINE_RUN"; test -e "$QUESTLINE_PROJECT/good.$QUESTLINE_ID"'
    quest = stage.add_as("default", task)
    assert stage.ended(quest)["quest"]["state"] == "failed"
    whole = Follower(stage.socket, quest).to_the_end().records
    (stage.project / f"good.{quest}").touch()
    peer.call(QUESTS + "Retry", id=quest)
    shown = stage.ended(quest)
    shutil.rmtree(stage.state / "artifacts" / quest / "1")
    reader = Follower(stage.socket, quest).to_the_end()
    assert reader.kinds == ["gap", "end", "state", "output", "end"]
    assert [record.get("id") for record in reader.records] == [None, None, "2.1", "2.2", "2.3"]
    assert reader.records[1]["data"] == whole[-1]["data"]
    assert paged(peer, quest) == reader.records
    assert paged(peer, quest, after="1.2") == reader.records
    shutil.rmtree(stage.state / "artifacts" / quest / "2")
    gone = Follower(stage.socket, quest).to_the_end()
    assert gone.kinds == ["gap", "end", "gap", "text", "end"]
    assert gone.records[3]["data"] == {"text": shown["quest"]["result"]}
    assert not any("id" in record or "number" in record for record in gone.records)
    assert paged(peer, quest) == gone.records


def test_records_are_kept_for_a_time(tmp_path: Path) -> None:
    """records.keep; then the result stands in for them."""
    with scene(tmp_path, 'records.keep = "1ms"\n') as play:
        quest = play.add_as("default", "echo out; echo err >&2")
        play.ended(quest)
        reader = Follower(play.socket, quest).to_the_end()
        assert reader.kinds == ["gap", "text", "end"]
        assert reader.records[1]["data"] == {"text": "out\n"}


REFUSED = [
    ({"after": "x"}, "InvalidInput", "after"),
    ({"after": ""}, "InvalidInput", "after"),
    ({"after": "1"}, "InvalidInput", "after"),
    ({"after": "1.2.3"}, "InvalidInput", "after"),
    ({"after": "-1.2"}, "InvalidInput", "after"),
    ({"after": "1.-2"}, "InvalidInput", "after"),
    ({"after": "0.1"}, "InvalidInput", "after"),
    ({"after": "1.٣"}, "InvalidInput", "after"),
    ({"after": "1.2\0"}, "InvalidInput", "after"),
    ({"after": "1." + "9" * 16}, "InvalidInput", "after"),
    ({"after": "2.1", "attempt": 1}, "InvalidInput", "after"),
    ({"attempt": 0}, "InvalidInput", "attempt"),
    ({"attempt": -1}, "InvalidInput", "attempt"),
    ({"attempt": 2**53}, "InvalidInput", "attempt"),
    ({"streams": ["stdin"]}, "InvalidInput", "streams"),
    ({"streams": [""]}, "InvalidInput", "streams"),
    ({"after": "2.1"}, "NotFound", None),
    ({"after": "999999999999999.1"}, "NotFound", None),
    ({"attempt": 2}, "NotFound", None),
    ({"id": "q-000000000000"}, "NotFound", None),
]


@pytest.fixture(scope="module")
def over(stage: Scene) -> str:
    quest = stage.add_as("default", "true")
    stage.ended(quest)
    return quest


@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize(("parameters", "name", "field"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_followed_is_refused(
    peer: Peer, over: str, parameters: dict[str, object], name: str, field: str | None, more: bool
) -> None:
    """With the field's name, and at once."""
    reply = peer.raw(FOLLOW, {"id": over, **parameters}, more=more)
    assert reply["error"] == f"io.questline.{name}"
    assert reply["parameters"].get("field") == field
    assert reply["parameters"]["hint"]


def test_who_goes_away_is_forgotten(stage: Scene, peer: Peer) -> None:
    """And whoever stays gets the rest."""
    quest = stage.add_as("default", stepwise(stage, "echo one", "echo two"))
    stays = Follower(stage.socket, quest).until("one\n")
    for _ in range(20):
        Follower(stage.socket, quest).until("one\n").close()
    stage.hold.put()
    assert stays.to_the_end().text() == "one\ntwo\n"


def test_nothing_is_left(stage: Scene) -> None:
    """Of all the above."""
    stage.in_order()
