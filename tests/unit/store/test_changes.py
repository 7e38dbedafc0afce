"""What a commit means to others: merged, and told to whom it concerns."""

from __future__ import annotations

import asyncio

from questlined.store.changes import Changes
from questlined.store.effects import EVERYWHERE, Effects


def test_the_effects_of_a_batch_are_those_of_all_its_operations() -> None:
    """The later state of a quest, the earliest gate, and whatever any of them said."""
    merged = Effects(changed={"a": "queued", "b": "queued"}, due=50, stop=["x"])
    merged.merge(Effects(changed={"b": "running"}, claimable={"/p"}, due=70, stop=["y"]))
    merged.merge(Effects(claimable={"/q"}, leases=True, paths=True, due=30))
    assert merged == Effects(
        changed={"a": "queued", "b": "running"},
        claimable={"/p", "/q"},
        stop=["x", "y"],
        leases=True,
        paths=True,
        due=30,
    )
    merged.merge(Effects())
    assert (merged.claimable, merged.leases, merged.paths, merged.due) == ({"/p", "/q"}, True, True, 30)


def test_listeners_hear_what_concerns_them_and_nothing_else() -> None:
    heard: list[object] = []
    changes = Changes()
    changes.on_claimable.append(lambda: heard.append("claimable"))
    changes.on_leases.append(lambda: heard.append("leases"))
    changes.on_due.append(heard.append)
    changes.on_stop.append(heard.append)
    for effects in (Effects(), Effects(changed={"a": "done"}), Effects(claimable={"/p"}), Effects(leases=True)):
        changes.publish(effects)
    assert heard == ["claimable", "leases"]
    changes.publish(Effects(due=5, stop=["q-1", "q-2"]))
    assert sorted(map(str, heard[2:])) == ["5", "q-1", "q-2"]


def test_a_watcher_is_woken_by_its_quest_only_and_forgotten_afterwards() -> None:
    """Several may watch one; the last to go leaves nothing behind."""

    async def run() -> None:
        changes = Changes()
        with changes.watching("a") as first:
            with changes.watching("a") as second, changes.watching("b") as other:
                changes.publish(Effects(changed={"a": "running"}))
                assert (first.is_set(), second.is_set(), other.is_set()) == (True, True, False)
            first.clear()
            changes.publish(Effects(changed={"a": "done", "b": "done"}))
            assert (first.is_set(), other.is_set()) == (True, False)
        assert changes._watchers == {}

    asyncio.run(run())


def test_who_watches_everything_is_woken_by_each_commit_and_forgotten_afterwards() -> None:
    """Whatever it was, however often it came: one flag."""

    async def run() -> None:
        changes = Changes()
        with changes.anything() as first, changes.anything() as second:
            for effects in (Effects(), Effects(changed={"a": "done"}), Effects(stop=["a"])):
                changes.publish(effects)
                assert (first.is_set(), second.is_set()) == (True, True)
                first.clear()
            assert (second.is_set(), changes.watchers) == (True, 2)
        assert changes.watchers == 0

    asyncio.run(run())


def test_a_claimer_is_woken_by_its_project_only() -> None:
    """Or by what concerns all of them, like the end of a pause."""

    async def run() -> None:
        changes = Changes()
        with changes.claimable("/p") as here, changes.claimable("/q") as there:
            changes.publish(Effects(claimable={"/p", "/r"}))
            assert (here.is_set(), there.is_set()) == (True, False)
            here.clear()
            changes.publish(Effects(changed={"a": "done"}))
            assert not here.is_set()
            changes.publish(Effects(claimable={EVERYWHERE}))
            assert (here.is_set(), there.is_set()) == (True, True)
        assert changes._claimers == {}

    asyncio.run(run())
