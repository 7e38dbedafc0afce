"""Rows as the wire shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from questlined.operations import views
from questlined.store import rows
from tests.support.stores import Bench, on_store


def taken(folder: Path, **fields: Any) -> tuple[rows.Quest, rows.Run]:
    """A claimed quest out of a real store, and its attempt."""
    found: list[tuple[rows.Quest, rows.Run]] = []

    async def scenario(bench: Bench) -> None:
        await bench.add(**fields)
        (claimed,) = await bench.claim_own()
        found.append((claimed.quest, claimed.run))

    on_store(folder, scenario)
    return found[0]


def shown(view: msgspec.Struct) -> dict[str, Any]:
    """As it is on the wire."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(view))
    return decoded


def test_absent_keys_are_left_out_and_never_null(tmp_path: Path) -> None:
    """Of a quest; what it depends on is always an array."""
    quest, _ = taken(tmp_path)
    wire = shown(views.quest(quest))
    assert None not in wire.values()
    assert wire["dependsOn"] == []
    assert not {"result", "error", "lane", "context", "finishedAt", "class"} & set(wire)
    assert (wire["leaseVersion"], wire["external"], wire["maxAttempts"]) == (1, False, 1)


def test_unknown_telemetry_is_null_and_never_0(tmp_path: Path) -> None:
    """Of an attempt, where no usage was recorded."""
    _, run = taken(tmp_path)
    wire = shown(views.run(run, now=run.started_at))
    keys = ("turns", "tokens", "tokensInput", "tokensOutput", "costUsd", "model", "provider", "sessionId")
    assert [wire[key] for key in keys] == [None] * len(keys)
    assert not {"finishedAt", "outcome", "class", "exitCode"} & set(wire)


def test_silence_counts_from_the_last_output_or_the_start(tmp_path: Path) -> None:
    """While it runs; a clock that was set back makes no negative silence."""
    _, run = taken(tmp_path)
    start = run.started_at
    assert views.run(run, now=start + 50).silent_ms == 50
    assert views.run(run, now=start + 50, last_output_at=start + 40).silent_ms == 10
    assert views.run(run, now=start - 50).silent_ms == 0
    assert views.run(replace(run, finished_at=start + 60), now=start + 99).silent_ms is None


@pytest.mark.parametrize(("length", "expected"), [(200, "x" * 200), (201, "x" * 199 + "…")])
def test_long_texts_are_shortened_to_200_characters(tmp_path: Path, length: int, expected: str) -> None:
    """Where it is asked for, and then all of them."""
    quest, _ = taken(tmp_path, task="x" * length, context="x" * length)
    quest = replace(quest, result="x" * length, error="x" * length)
    short = shown(views.quest(quest, shorten=views.SHORT))
    assert [short[key] for key in ("task", "context", "result", "error")] == [expected] * 4
    whole = shown(views.quest(quest))
    assert {len(whole[key]) for key in ("task", "context", "result", "error")} == {length}


def test_an_attempts_id_is_made_of_its_quest_and_number(tmp_path: Path) -> None:
    """And its number is the project's."""
    quest, run = taken(tmp_path)
    wire = shown(views.run(run, now=0))
    assert (wire["id"], wire["number"], wire["quest"], wire["generation"]) == (f"{quest.id}/1", 1, quest.id, 1)


@pytest.mark.parametrize(
    "fields", [{}, {"lane": "a", "external": True, "context": "c", "timeout_ms": 5, "submitter_uid": 7, "priority": 3}]
)
def test_a_new_quest_is_shown_as_its_row_is(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Without asking for it."""

    async def scenario(bench: Bench) -> None:
        quest = bench.quest(**fields)
        await bench.store.add(bench.request(quest))
        row = await bench.store.quest(quest.id)
        assert row is not None
        assert shown(views.new(quest)) == shown(views.quest(row))

    on_store(tmp_path, scenario)
