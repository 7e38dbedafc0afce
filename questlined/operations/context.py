"""What an operation is given: who asks, and the parts of the daemon that it may use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from questlined.clock import Clock
from questlined.config.shape import Config
from questlined.core.quest import check_text
from questlined.store.changes import Changes
from questlined.store.protocol import ProjectRef, Store, Token
from questlined.wire.errors import InvalidInput, PermissionDenied

REQUEST_ID_MAX = 200


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Base of every method's parameters. Absent and null are the same."""


class Changing(Request, frozen=True, kw_only=True):
    """Base of those that change something."""

    request_id: str | None = None


class Repeatable(Protocol):
    """Parameters with a requestId."""

    @property
    def request_id(self) -> str | None:
        """The client's own id for this call."""
        ...


class Reply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of every method's answer."""


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


@dataclass(slots=True)
class Daemon:
    """This start of the daemon. `connections`, `last_output`, `stuck` and `disk_low` are asked, not kept."""

    version: str
    pid: int
    started_at: int
    socket: str
    state_directory: str
    database: str
    connections: Callable[[], int]
    running: Callable[[], int]
    last_output: Callable[[str], int | None]
    stuck: Callable[[], list[str]]
    disk_low: Callable[[], str | None]
    store_busy: Callable[[], bool]


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
    places: dict[tuple[str, str], tuple[Place, int]] = field(default_factory=dict)  # found lately, and when

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
