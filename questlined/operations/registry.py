"""Every method of the wire: its parameters and what answers it. A test holds them against the .varlink files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from questlined.operations import (
    backing_up,
    editing,
    following,
    health,
    leases,
    lookups,
    projects,
    quests,
    recurrences,
    reexecuting,
    reloading,
    running,
    steering,
    waiting,
    watching,
)
from questlined.operations.context import Caller, Context, Pending, Reply, Request

Answer = Callable[[Context, Caller, Any], Awaitable[Reply]]
Begin = Callable[[Context, Caller, Any], Pending[Reply] | None]
Stream = Callable[[Context, Caller, Any, bool], AsyncIterator[tuple[Reply, bool]]]


@dataclass(frozen=True, slots=True)
class Method:
    """`answer` gives one reply, `stream` one or many, each with whether it is the last; a method has one of the two.
    One that `waits` for something to happen is given up when its client goes away, one that is `attended` if it has
    `more`; any other is finished all the same.
    One with `begin` may be begun before its neighbours of that kind are answered, unless that gives None."""

    request: type[Request]
    answer: Answer | None = None
    stream: Stream | None = None
    waits: bool = False
    attended: bool = False
    begin: Begin | None = None

    def ends_with_client(self, more: bool) -> bool:
        """Whether a call, with `more` or without, is given up when its client goes away."""
        return self.waits or (self.attended and more)


METHODS: dict[str, Method] = {
    "io.questline.Quests.Add": Method(quests.Add, quests.add, begin=quests.begin_add),
    "io.questline.Quests.AddMany": Method(quests.AddMany, quests.add_many),
    "io.questline.Quests.List": Method(lookups.List, lookups.list_quests),
    "io.questline.Quests.Get": Method(lookups.One, lookups.get),
    "io.questline.Quests.Why": Method(lookups.One, lookups.why),
    "io.questline.Quests.Cancel": Method(steering.Cancel, steering.cancel),
    "io.questline.Quests.Retry": Method(steering.Retry, steering.retry),
    "io.questline.Quests.Edit": Method(editing.Edit, editing.edit),
    "io.questline.Quests.Block": Method(steering.Block, steering.block),
    "io.questline.Quests.Events": Method(lookups.Events, lookups.list_events),
    "io.questline.Quests.Runs": Method(lookups.Runs, lookups.list_runs),
    "io.questline.Quests.Wait": Method(waiting.Wait, stream=waiting.wait, waits=True),
    "io.questline.Quests.Watch": Method(watching.Watch, stream=watching.watch, waits=True),
    "io.questline.Quests.Follow": Method(following.Follow, stream=following.follow, waits=True),
    "io.questline.Quests.Run": Method(running.Run, stream=running.run, attended=True),
    "io.questline.Leases.Claim": Method(leases.Claim, leases.claim, waits=True),
    "io.questline.Leases.Heartbeat": Method(leases.Heartbeat, leases.heartbeat),
    "io.questline.Leases.Done": Method(leases.Done, leases.done),
    "io.questline.Leases.Fail": Method(leases.Fail, leases.fail),
    "io.questline.Leases.Release": Method(leases.Release, leases.release),
    "io.questline.Leases.Block": Method(leases.Block, leases.block),
    "io.questline.Projects.Pause": Method(projects.Pause, projects.pause),
    "io.questline.Projects.Resume": Method(projects.Resume, projects.resume),
    "io.questline.Recurrences.Add": Method(recurrences.Add, recurrences.add),
    "io.questline.Recurrences.Get": Method(recurrences.Get, recurrences.get),
    "io.questline.Recurrences.List": Method(recurrences.List, recurrences.list_rules),
    "io.questline.Recurrences.Pause": Method(recurrences.Steer, recurrences.pause),
    "io.questline.Recurrences.Resume": Method(recurrences.Steer, recurrences.resume),
    "io.questline.Recurrences.Remove": Method(recurrences.Steer, recurrences.remove),
    "io.questline.Recurrences.Fire": Method(recurrences.Steer, recurrences.fire),
    "io.questline.Recurrences.Timer": Method(recurrences.Timer, recurrences.timer),
    "io.questline.Manager.Status": Method(health.Status, health.status),
    "io.questline.Manager.Health": Method(health.Health, health.health),
    "io.questline.Manager.Backup": Method(backing_up.Backup, backing_up.backup),
    "io.questline.Manager.Reload": Method(reloading.Reload, reloading.reload),
    "io.questline.Manager.Reexec": Method(reexecuting.Reexec, reexecuting.reexec),
}
