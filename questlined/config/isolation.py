"""What the settings of an executor's isolation must be together, and for whom the daemon runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from questlined.config.kinds import Wrong
from questlined.config.layer import Key
from questlined.config.shape import Config, Executor
from questlined.core.prompts import used_placeholders


def faults(config: Config, named: Collection[Key], uid: int) -> Iterator[tuple[Key, Wrong]]:
    """Each key that cannot be as it is, and why. `named` are the keys that a file sets; `uid` is the daemon's."""
    executors = {("executor",): config.executor} | {
        ("executors", role): each for role, each in config.executors.items()
    }
    units = {place for place, executor in executors.items() if executor.isolation == "unit"}
    for place, executor in executors.items():
        key = (*place, "properties")
        # Properties of `executor` are for those roles, too, that are units alone.
        if executor.properties and key in named and place not in units and not (units and place == ("executor",)):
            yield (
                key,
                Wrong('they are a unit\'s, and isolation is "process"', hint='set isolation = "unit" beside them'),
            )
        if place in units:
            yield from _of_unit(place, executor, named, uid)


def _of_unit(place: Key, executor: Executor, named: Collection[Key], uid: int) -> Iterator[tuple[Key, Wrong]]:
    def key(name: str) -> Key:
        own = (*place, *name.split("."))
        return own if own in named else ("executor", *name.split("."))

    if executor.keep_children:
        yield (
            key("keep_children"),
            Wrong("nothing of a unit outlives it", hint='leave it out, or set isolation = "process"'),
        )
    if uid == 0 and "User" not in executor.properties:
        yield (
            key("isolation"),
            Wrong(
                "a daemon of root has to say who runs its units",
                hint='name an account: properties.User = "…"',
            ),
        )
    elif uid == 0 and "task_file" in used_placeholders(executor.command):
        yield key("command"), Wrong("{task_file} can be read by root only", hint='let it read stdin: stdin = "prompt"')
    elif uid != 0 and (other := {"User", "Group", "SupplementaryGroups"} & executor.properties.keys()):
        yield key("properties"), Wrong(f"{min(other)} can be chosen by a daemon of root only", hint="leave it out")
