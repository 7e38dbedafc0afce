"""What an operation is given: who asks, and the parts of the daemon that it may use."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from questlined.attempts.disk import ForClients
from questlined.attempts.records import Records
from questlined.clock import Clock
from questlined.config.compare import Reloaded
from questlined.config.shape import Config
from questlined.core.quest import check_text
from questlined.store.changes import Changes
from questlined.store.protocol import Claimed, ProjectRef, Store, Token
from questlined.wire.errors import InvalidInput, LimitReached, PermissionDenied, Unavailable

REQUEST_ID_MAX = 200
LOOKING = 6  # threads that look at clients' directories


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Base of every method's parameters. Absent and null are the same."""


class Changing(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Base of those that change something. What is not given is left out of the digest that a requestId is kept with: a
    call that is repeated to a later version, which takes more parameters, is the same."""

    request_id: str | None = None


class Repeatable(Protocol):
    """Parameters with a requestId."""

    @property
    def request_id(self) -> str | None:
        """The client's own id for this call."""
        ...


class Reply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of every method's answer."""


R_co = TypeVar("R_co", bound=Reply, covariant=True)


@dataclass(frozen=True, slots=True)
class Pending(Generic[R_co]):
    """A call that the store works on. `reply` makes the reply of its answer, None where that must be looked up."""

    answer: asyncio.Future[Any]
    reply: Callable[[Any], R_co | None]


@dataclass(frozen=True, slots=True)
class Caller:
    """A session's peer, from SO_PEERCRED. `owner`: the daemon's own uid, root or the admin group."""

    uid: int
    gid: int
    pid: int
    owner: bool

    def must_own(self, what: str) -> None:
        """Raises PermissionDenied for anybody but the owner."""
        if not self.owner:
            raise PermissionDenied(
                f"only the daemon's owner may {what}", hint="ask its owner, or be in its admin_group", what=what
            )


class RunNow(Protocol):
    """Scheduler.run_now."""

    def __call__(
        self, quest: str | None, project: str | None, token: Token | None, *, attended: bool
    ) -> Awaitable[Claimed | None]:
        """See there."""
        ...


@dataclass(frozen=True, slots=True)
class Replaced:
    """What takes the daemon's place: the new program's version, and how many attempts go on under it."""

    version: str
    running: int


async def _too_early() -> Any:
    raise Unavailable("the daemon has not started yet", hint="try again in a moment", retryAfterMs=1000)


@dataclass(slots=True)
class Daemon:
    """This start of the daemon. `connections`, `last_output`, `stuck` and `disk_low` are asked, not kept.
    `in_slots` are the attempts that scheduler.max_concurrent counts; `isolation` is the family's;
    `run_now` and `interrupt` are the scheduler's."""

    version: str
    pid: int
    started_at: int
    socket: str
    state_directory: str
    database: str
    connections: Callable[[], int]
    running: Callable[[], int]
    in_slots: Callable[[], int]
    last_output: Callable[[str], int | None]
    stuck: Callable[[], list[str]]
    disk_low: Callable[[], str | None]
    store_busy: Callable[[], bool]
    store_trouble: Callable[[], str | None]
    isolation: Callable[[], str]
    run_now: RunNow
    interrupt: Callable[[str, int], None]
    no_units: Callable[[], tuple[str | None, str]] = lambda: (None, "")  # why no unit can be had, and the remedy
    reload: Callable[[], Awaitable[Reloaded]] = field(default=_too_early)
    reexec: Callable[[], Awaitable[Replaced]] = field(default=_too_early)


@dataclass(frozen=True, slots=True)
class Place:
    """A project as a call named it. `warning` is for the caller, once."""

    ref: ProjectRef
    warning: str | None = None


@dataclass(slots=True)
class Context:
    """The daemon as operations see it. `config` may be replaced by a reload."""

    store: Store
    config: Config
    clock: Clock
    changes: Changes
    daemon: Daemon
    random_bytes: Callable[[int], bytes]
    chance: Callable[[], float]
    records: Records
    places: dict[tuple[str, str], tuple[Place, int]] = field(default_factory=dict)  # found lately, and when
    directories: ForClients = field(default_factory=lambda: ForClients(LOOKING))  # a mount of a client's may hang
    streams: int = 0  # calls with `more` that are being answered
    no_stream: asyncio.Event = field(default_factory=asyncio.Event)  # set when the last of them has ended

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """One call with `more`. Raises LimitReached where there are too many."""
        limit = self.config.bounds.max_streams
        if self.streams >= limit:
            raise LimitReached(
                f"{limit} calls with `more` are being answered already",
                hint="end some, or raise bounds.max_streams",
                setting="bounds.max_streams",
                retryAfterMs=1000,
            )
        self.streams += 1
        self.no_stream.clear()
        try:
            yield
        finally:
            self.streams -= 1
            if not self.streams:
                self.no_stream.set()

    def token(self, caller: Caller, method: str, request: Repeatable) -> Token | None:
        """The request's token for the store, None where it has no requestId. Raises InvalidInput."""
        if request.request_id is None:
            return None
        check_text("requestId", request.request_id)
        if len(request.request_id) > REQUEST_ID_MAX:
            raise InvalidInput(
                f"requestId: it has more than {REQUEST_ID_MAX} characters", hint="use 32 hex digits", field="requestId"
            )
        body = hashlib.blake2b(method.encode() + msgspec.json.encode(request), digest_size=16).hexdigest()
        return Token(caller.uid, request.request_id, body)
