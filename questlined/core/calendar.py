"""When a recurrence is due: the moments of a rule in a time zone, and which of the missed ones still count.

The rule is asked in naive local time, and what the zone's clock does is applied here. A time in a gap comes once,
right after the gap. A time in an overlap comes once, the first time, if minute and hour are numbers, else both times.
Two times that fall on one moment are one. Day of month OR day of week, unless one of them is `*`.

Moments are epoch milliseconds, always of a whole second.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice, takewhile
from typing import Any

from questlined.core.cron import Rule
from questlined.wire.errors import InvalidInput

CATCH_UP = ("one", "all", "skip")
CATCH_UP_MAX = 100
ON_TIME_MS = 60_000  # `skip` takes what is due for no longer than this: a driver may be a little late
DAY_S = 86_400
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  naive, as everything that croniter sees


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """The time zone of an IANA name. UTC needs no data. Raises InvalidInput."""
    if name == "UTC":
        return UTC
    found = _looked_up(name)
    if found is not None:
        return found
    if _looked_up("Etc/UTC") is None:
        raise InvalidInput(
            f"timezone: {name[:80]!r} cannot be looked up: this machine has no time zone data",
            hint="install Debian's tzdata, or Python's: pip install tzdata",
            field="timezone",
        )
    raise InvalidInput(
        f"timezone: there is no zone {name[:80]!r}",
        hint="use an IANA name such as UTC, Europe/Berlin or America/New_York; timedatectl list-timezones has them all",
        field="timezone",
    )


def _looked_up(name: str) -> tzinfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def following(rule: Rule, where: tzinfo, after_ms: int, limit: int) -> list[int]:
    """The next `limit` moments after `after_ms`."""
    return [1000 * moment for moment in islice(_forward(rule, where, after_ms // 1000), limit)]


def upcoming(rule: Rule, where: tzinfo, after_ms: int) -> int:
    """The next moment after `after_ms`."""
    return following(rule, where, after_ms, 1)[0]


def between(rule: Rule, where: tzinfo, after_ms: int, until_ms: int) -> Iterator[int]:
    """The moments after `after_ms` up to `until_ms`, ascending."""
    found = _forward(rule, where, after_ms // 1000)
    return (1000 * moment for moment in takewhile(lambda moment: moment <= until_ms // 1000, found))


def latest(rule: Rule, where: tzinfo, since_ms: int, until_ms: int, limit: int) -> list[int]:
    """The last `limit` moments from `since_ms` to `until_ms`, both included, ascending."""
    back = takewhile(lambda moment: 1000 * moment >= since_ms, _backward(rule, where, until_ms // 1000))
    return [1000 * moment for moment in islice(back, limit)][::-1]


def due(rule: Rule, where: tzinfo, catch_up: str, since_ms: int, now_ms: int) -> list[int]:
    """The moments to be enqueued at `now_ms` where nothing was since `since_ms`. one: the last of them. all: each,
    but no more than the last CATCH_UP_MAX. skip: the last, unless it was missed by more than ON_TIME_MS."""
    found = latest(rule, where, since_ms, now_ms, CATCH_UP_MAX if catch_up == "all" else 1)
    if catch_up == "skip":
        return [moment for moment in found if now_ms - moment <= ON_TIME_MS]
    return found


def shown(where: tzinfo, moment_ms: int) -> str:
    """A moment on the zone's clock, as ISO 8601 with its distance from UTC."""
    return datetime.fromtimestamp(moment_ms / 1000, where).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of a zone's clock: when, by how many seconds (negative: back), and what the clock showed just then, in
    seconds of its day."""

    at: int
    step: int
    reading: int


def turns(where: tzinfo, after_s: int, until_s: int) -> Iterator[Turn]:
    """Every change of the zone's clock; of two on one day only one."""
    before = _distance(where, after_s)
    for day in range(after_s, until_s, DAY_S):
        after = _distance(where, day + DAY_S)
        if after != before:
            at = turn(where, day, day + DAY_S)
            yield Turn(at, after - before, (at + before) % DAY_S)
        before = after


def turn(where: tzinfo, before_s: int, after_s: int) -> int:
    """The first second after `before_s` at which the zone's clock goes as it does at `after_s`."""
    low, high, distance = before_s, after_s, _distance(where, after_s)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _distance(where, middle) == distance else (middle, high)
    return high


def _distance(where: tzinfo, moment_s: int) -> int:
    """Seconds by which local time is ahead of UTC."""
    return _seconds(datetime.fromtimestamp(moment_s, where).utcoffset())


def _seconds(span: timedelta | None) -> int:
    assert span is not None, "a zone knows its distance from UTC"
    return int(span.total_seconds())


def _readings(where: tzinfo, naive: datetime) -> tuple[int, int]:
    """When the zone's clock shows this time, first and last; in a gap the first moment after it, twice."""
    early, late = (_seconds(naive.replace(tzinfo=where, fold=fold).utcoffset()) for fold in (0, 1))
    moment = _seconds(naive - EPOCH)
    if early >= late:
        return moment - early, moment - late
    after = turn(where, moment - late, moment - early)
    return after, after


def _walk(rule: Rule, start: datetime, *, back: bool) -> Iterator[datetime]:
    """The rule's naive local times from `start` on, which is left out."""
    from croniter import croniter  # 50 ms, which a daemon without recurrences does not pay

    days = "*" if rule.any_day else _listed(rule.days)
    weekdays = "*" if rule.any_weekday else _listed(rule.weekdays)
    fields = (_listed(rule.minutes, 60), _listed(rule.hours, 24), days, _listed(rule.months, 12), weekdays)
    steps: Any = croniter(" ".join(fields), start)
    step = steps.get_prev if back else steps.get_next
    while True:
        yield step(datetime)


def _listed(numbers: tuple[int, ...], every: int = 0) -> str:
    """The numbers of a field, or `*` for `every` one of them, of which croniter is much quicker to make sense."""
    return "*" if len(numbers) == every else ",".join(map(str, numbers))


def _forward(rule: Rule, where: tzinfo, after: int) -> Iterator[int]:
    """Moments after `after`, ascending, each once. What comes a second time waits until nothing can come before it:
    the first reading of a later local time is never earlier."""
    here = datetime.fromtimestamp(after, where)
    naive = here.replace(tzinfo=None)
    first, last = _readings(where, naive)
    if not here.fold:  # in the first pass of an overlap: earlier local times come once more
        naive -= timedelta(seconds=last - first)
    waiting: list[int] = []
    for local in _walk(rule, naive, back=False):
        first, last = _readings(where, local)
        heappush(waiting, first)
        if last > first and not rule.fixed:
            heappush(waiting, last)
        while waiting and waiting[0] <= first:
            moment = heappop(waiting)
            if moment > after:
                after = moment
                yield moment


def _backward(rule: Rule, where: tzinfo, until: int) -> Iterator[int]:
    """Moments up to `until`, descending, each once: the same, mirrored."""
    here = datetime.fromtimestamp(until, where)
    naive = here.replace(tzinfo=None) + SECOND
    first, last = _readings(where, here.replace(tzinfo=None))
    if here.fold:  # in the second pass: later local times have come once already
        naive += timedelta(seconds=last - first)
    waiting: list[int] = []  # negative, so that the latest comes out first
    before = until + 1
    for local in _walk(rule, naive, back=True):
        first, last = _readings(where, local)
        last = first if rule.fixed else last
        heappush(waiting, -last)
        if first < last:
            heappush(waiting, -first)
        while waiting and -waiting[0] >= last:
            moment = -heappop(waiting)
            if moment < before:
                before = moment
                yield moment
