"""A reader whose daemon is killed under it goes on by the last id that it has seen: nothing is missing or doubled."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.integration.attempts.follower import Follower, text
from tests.integration.attempts.scene import Scene, scene

CONFIG = 'executors.file.output = "file"\nmax_interruptions = 100\n'
KILLS = 4


def killed(play: Scene, reader: Follower) -> list[dict[str, Any]]:
    """Kill the daemon; what the reader still gets. It is hung up on."""
    play.kill()
    while (reply := reader.receive()) is not None:
        reader.records += reply["parameters"]["records"]
    reader.close()
    play.start()
    return reader.records


def by_attempt(records: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    return {attempt: list(found) for attempt, found in groupby(records, key=lambda record: record["attempt"])}


@pytest.mark.parametrize("role", ["default", "file"])
def test_a_reader_goes_on_through_kills_in_the_middle_of_output(tmp_path: Path, role: str) -> None:
    """Every attempt's records are gapless and its texts are its files, whichever daemon told them; a reader who comes
    afterwards gets the same."""
    with scene(tmp_path, CONFIG) as play:
        stop = play.project / "stop"
        loud = f'n=0; while test ! -e {stop}; do n=$((n+1)); echo "é $QUESTLINE_RUN $n"; echo "$n" >&2; done'
        quest = play.add_as(role, play.evidence.task(loud))
        seen: list[dict[str, Any]] = []
        for _ in range(KILLS):
            reader = Follower(play.socket, quest, **({"after": seen[-1]["id"]} if seen else {}))
            while len(text(reader.records)) < 3000 or reader.records[-1]["kind"] != "output":
                reader.turn()
            seen += killed(play, reader)
        reader = Follower(play.socket, quest, after=seen[-1]["id"])
        while reader.records[-1:] == [] or reader.records[-1]["attempt"] <= KILLS:
            reader.turn()
        stop.touch()
        seen += reader.to_the_end().records
        assert play.ended(quest)["quest"]["state"] == "done"
        attempts = by_attempt(seen)
        assert list(attempts) == list(range(1, KILLS + 2))
        for attempt, records in attempts.items():
            assert [record["number"] for record in records] == list(range(1, len(records) + 1))
            assert (records[0]["kind"], records[-1]["kind"]) == ("state", "end")
            assert records[-1]["data"]["class"] == ("ok" if attempt == KILLS + 1 else "lost")
            for stream in ("stdout", "stderr"):
                file = play.state / "artifacts" / quest / str(attempt) / stream
                # a kill may come between a claim and its files
                assert text(records, stream) == (file.read_text() if file.exists() else "")
        assert Follower(play.socket, quest).to_the_end().records == seen
        play.in_order()


def test_an_index_that_a_power_cut_has_shortened_is_told(tmp_path: Path) -> None:
    """An id past its end is a gap, the end of that attempt, and what came after."""
    with scene(tmp_path, CONFIG) as play:
        quest = play.add_as("file", play.held("echo one; echo two >&2", "true"))
        play.started.next()
        reader = Follower(play.socket, quest).until("one\n").until("two\n", "stderr")
        seen = reader.records
        play.kill()
        reader.close()
        index = play.state / "artifacts" / quest / "1" / "records"
        os.truncate(index, 40)
        (index.parent / "stdout").write_bytes(b"")
        play.start()
        play.started.next()
        play.hold.put()
        assert seen[-1]["id"] == "1.3"
        found = Follower(play.socket, quest).to_the_end().records
        assert [record.get("id") for record in found] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3", "2.4"]
        past = Follower(play.socket, quest, after="1.9").to_the_end().records
        assert (past[0]["kind"], past[1:]) == ("gap", found[2:])
        play.in_order()
