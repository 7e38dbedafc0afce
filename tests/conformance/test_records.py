"""What is kept of the indexes of attempts' records. Every store passes these as they are."""

from __future__ import annotations

from questlined.store.protocol import Sealed
from questlined.store.rows import OldRecords
from tests.support.stores import Bench, reclaim, scenario


def files(quest: str, *kinds: str) -> tuple[Sealed, ...]:
    return tuple(Sealed(kind, f"/artifacts/{quest}/{kind}", 32) for kind in kinds)


async def ended(bench: Bench, *kinds: str) -> str:
    """A quest whose only attempt left these files."""
    quest = await bench.add()
    (claimed,) = await bench.claim_own()
    await bench.finish(claimed, artifacts=files(quest, *kinds))
    return quest


@scenario
async def test_old_indexes_come_oldest_first_and_go_once(bench: Bench) -> None:
    """Only those from before a moment; other files stay."""
    quests = []
    for _ in range(3):
        quests.append(await ended(bench, "stdout", "stderr", "records"))
        bench.clock.advance(1000)
    await ended(bench, "stdout", "stderr")
    old = await bench.store.old_records(bench.clock.wall_ms() - 1000)
    assert old == [OldRecords(quest, 1, f"/artifacts/{quest}/records") for quest in quests[:2]]
    assert await bench.store.forget_records(old) == 2
    assert await bench.store.forget_records(old) == 0
    assert [each.quest_id for each in await bench.store.old_records(bench.clock.wall_ms() + 1)] == quests[2:]
    for quest in quests:
        assert [file.kind for file in await bench.store.artifacts(quest)] == ["stderr", "stdout"]


@scenario
async def test_a_page_of_old_indexes_is_bounded(bench: Bench) -> None:
    """However many there are, calling again comes to the last one."""
    quests = [bench.quest() for _ in range(1100)]
    await bench.store.add(bench.request(*quests))
    for claimed in await bench.claim_own(most=len(quests)):
        await bench.finish(claimed, artifacts=files(claimed.quest.id, "records"))
    bench.clock.advance(1)
    sizes = []
    while old := await bench.store.old_records(bench.clock.wall_ms()):
        sizes.append(len(old))
        await bench.store.forget_records(old)
    assert sizes == [1000, 100]


@scenario
async def test_the_index_of_an_attempt_that_was_recovered_is_kept_too(bench: Bench) -> None:
    quest = await bench.add()
    await bench.claim_own()
    await bench.store.recover(reclaim(bench), {(quest, 1): files(quest, "stdout", "records")})
    bench.clock.advance(1)
    assert [old.quest_id for old in await bench.store.old_records(bench.clock.wall_ms())] == [quest]


@scenario
async def test_files_of_one_attempt(bench: Bench) -> None:
    """Without those of others."""
    quest = await bench.add(max_attempts=2, backoff_base_ms=0)
    for number in (1, 2):
        (claimed,) = await bench.claim_own()
        await bench.finish(
            claimed, "failed", artifacts=(Sealed("stdout", f"/{number}", number), *files(quest, "records"))
        )
        bench.clock.advance(10_000)
    for number in (1, 2):
        found = await bench.store.artifacts_of(quest, number)
        assert [(file.attempt, file.path, file.bytes) for file in found] == [(number, f"/{number}", number)]
    assert await bench.store.artifacts_of(quest, 3) == []
