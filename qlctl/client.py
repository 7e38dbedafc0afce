"""Calls to the daemon, each answered once even if the daemon restarts in the middle.

A connection that ends before the reply leaves open whether the call was carried out. It is repeated on a new one, a
changing call with the requestId it had, so that the daemon answers as it did, or would have done, the first time.
"""

from __future__ import annotations

import os
import time

from qlctl.codec import Malformed, decode, encode
from qlctl.link import ConnectionLost, Link, NobodyThere
from questlined.wire.address import SYSTEM_SOCKET, SYSTEM_UNIT, client_socket, user_unit_installed
from questlined.wire.errors import DaemonUnreachable, Internal, InvalidInput, QuestlineError, from_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from qlctl.options import Arguments

    Call = tuple[str, dict[str, object]]  # method and parameters

PATIENCE_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
QUIET_S = 2.0  # a daemon that answers again within this has replaced its program, or was restarted: no news for anybody
USUAL_FRAME_BYTES = 4 * 1024 * 1024  # the daemon's max_frame_bytes unless it was set otherwise
TIMEOUT_GRACE_S = 5.0  # how much later than asked for a live daemon may answer

UNKNOWN_NAME = tuple(
    f"org.varlink.service.{name}" for name in ("MethodNotFound", "InterfaceNotFound", "MethodNotImplemented")
)
UNKNOWN_PARAMETER = "org.varlink.service.InvalidParameter"


class Client:
    """A blocking client of one socket, connected at the first call; `pause` and `now` are there for tests."""

    def __init__(
        self, path: str, *, pause: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self._pause, self._now = pause, now
        self.on_loss: Callable[[], None] = _nothing  # called once for each loss, before the first try to connect again
        self.on_absence: Callable[[], None] = _nothing  # called once for each that lasts longer than QUIET_S
        self.woken_by: int | None = None  # a pipe with a byte for each signal, whose handler must not wait for a reply
        self._link: Link | None = None
        self._met = False
        self._lost_at: float | None = None
        self._quiet_until: float | None = None
        self._next_pause_s = FIRST_PAUSE_S

    def call(self, method: str, parameters: dict[str, object]) -> dict[str, Any]:
        """The reply's parameters. Raises the QuestlineError of an error reply, DaemonUnreachable."""
        frame, losses = _frame(method, parameters, more=False), 0
        while True:
            try:
                return self._read(method, self._send(frame))[0]
            except (ConnectionLost, NobodyThere) as lost:
                losses += isinstance(lost, ConnectionLost)
                if losses > 1 and len(frame) > USUAL_FRAME_BYTES:
                    raise _giant(frame) from None
                self._bear(lost, None)

    def change(self, method: str, parameters: dict[str, object]) -> dict[str, Any]:
        """A call that changes something: it carries a requestId, the same one however often it is sent."""
        return self.call(method, {**parameters, "requestId": os.urandom(16).hex()})

    def stream(
        self, fresh: Callable[[], Call], until: float | None = None, grace_s: float = TIMEOUT_GRACE_S
    ) -> Iterator[dict[str, Any]]:
        """The replies of a `more` call, which `fresh` names. After a lost connection it is asked what to call then.

        `until` is a moment of the monotonic clock; raises TimeoutError if it passes without the stream having ended.
        The daemon has `grace_s` seconds longer, where it is to end the stream itself, and always for its first reply.
        """
        more, answered = True, False
        try:
            while more:
                try:
                    method, parameters = fresh()
                    link = self._send(_frame(method, parameters, more=True))
                    while more:
                        reply, more = self._read(method, link, until, grace_s if answered else TIMEOUT_GRACE_S)
                        answered = True
                        yield reply
                except (ConnectionLost, NobodyThere) as lost:
                    self._bear(lost, until)
        finally:
            if more:
                self.close()  # what is still under way on this connection would answer the next call

    def hang_up(self) -> None:
        """End the call under way as if the daemon had hung up; what came before is still read. For signal handlers."""
        if self._link is not None:
            self._link.hang_up()

    def close(self) -> None:
        """Hang up; the next call connects again."""
        if self._link is not None:
            self._link.close()
        self._link = None

    def _send(self, frame: bytes) -> Link:
        if self._link is None:
            self._link = Link(self.path, self.woken_by)
            self._met = True
        self._link.send(frame)
        return self._link

    def _read(
        self, method: str, link: Link, until: float | None = None, grace_s: float = 0.0
    ) -> tuple[dict[str, Any], bool]:
        """One reply's parameters, and whether more will follow."""
        left_s = None if until is None else max(until - self._now(), 0.0) + grace_s
        if left_s == 0.0:
            raise TimeoutError
        frame = self._received(link, left_s)
        self._lost_at, self._quiet_until, self._next_pause_s = None, None, FIRST_PAUSE_S
        reply = _object(frame)
        parameters: dict[str, Any] = reply.get("parameters") or {}
        if "error" in reply:
            raise self._refusal(method, str(reply["error"]), parameters)
        return parameters, reply.get("continues") is True

    def _received(self, link: Link, left_s: float | None) -> bytes:
        """A frame. A daemon that is away may be waited for here, too: at a socket that systemd keeps open."""
        if self._quiet_until is not None:
            quiet_s = max(self._quiet_until - self._now(), 0.001)
            if left_s is not None and left_s <= quiet_s:
                return link.receive(left_s)
            try:
                return link.receive(quiet_s)
            except TimeoutError:
                left_s = None if left_s is None else left_s - quiet_s
                self._tell_absence()
        return link.receive(left_s)

    def _tell_absence(self) -> None:
        """It has lasted: said once."""
        self._quiet_until = None
        self.on_absence()

    def _bear(self, lost: Exception, until: float | None) -> None:
        """Pause before another try. Raises DaemonUnreachable if the daemon never was there, or is away for too long."""
        self.close()
        now = self._now()
        if not self._met:
            raise unreachable(self.path, f"no daemon answers on {self.path}")
        if self._lost_at is None:
            self._lost_at, self._quiet_until = now, now + QUIET_S
            self.on_loss()
        if self._quiet_until is not None and now >= self._quiet_until:
            self._tell_absence()
        if now - self._lost_at >= PATIENCE_S:
            raise unreachable(self.path, f"the daemon on {self.path} went away ({lost}) and did not come back")
        if until is not None and now >= until:
            raise TimeoutError
        self._pause(self._next_pause_s)
        self._next_pause_s = min(self._next_pause_s * 2, LONGEST_PAUSE_S)

    def _refusal(self, method: str, name: str, parameters: dict[str, Any]) -> QuestlineError:
        """The exception of an error reply; for a name the daemon does not know, with its version in the message."""
        unknown = str(parameters.get("parameter")) if name == UNKNOWN_PARAMETER else method
        if name not in (*UNKNOWN_NAME, UNKNOWN_PARAMETER) or method == "org.varlink.service.GetInfo":
            return from_wire(name, parameters)
        version = str(self.call("org.varlink.service.GetInfo", {}).get("version"))
        return _version_error(unknown, version, name == UNKNOWN_PARAMETER)


def connect(given: Arguments) -> Client:
    """The client for --socket, or for where the daemon's socket is by default."""
    explicit = given.text("--socket")
    if explicit == "":
        raise InvalidInput("--socket: is empty", hint="give the socket's path", field="--socket")
    return Client(client_socket(explicit, dict(os.environ)))


def _nothing() -> None:
    pass


def _frame(method: str, parameters: dict[str, object], *, more: bool) -> bytes:
    call: dict[str, object] = {"method": method, "parameters": parameters}
    return encode({**call, "more": True} if more else call).encode()


def _giant(frame: bytes) -> InvalidInput:
    """The error for a request that a daemon hung up on twice: above its limit, it would never end differently."""
    return InvalidInput(
        f"the daemon refused a request of {len(frame)} bytes",
        hint="its setting bounds.max_frame_bytes is the limit",
        setting="bounds.max_frame_bytes",
    )


def _object(frame: bytes) -> dict[str, Any]:
    """The reply in a frame. Raises DaemonUnreachable for what no Varlink service sends."""
    try:
        reply = decode(frame.decode())
    except (Malformed, UnicodeDecodeError):
        reply = None
    if not isinstance(reply, dict) or not isinstance(reply.get("parameters") or {}, dict):
        raise DaemonUnreachable("the answer is no Varlink reply", hint="is that questlined's socket?")
    return reply


def unreachable(path: str, message: str) -> DaemonUnreachable:
    """The error for a daemon that is not there, with the command that starts it, and the one that tells why not."""
    if user_unit_installed(dict(os.environ)):
        command = "systemctl --user"
    elif path == SYSTEM_SOCKET and os.path.exists(SYSTEM_UNIT):
        command = "systemctl"
    else:
        return DaemonUnreachable(message, hint="start it: questlined")
    ways = f"start it: {command} start questlined; why it is not there: {command} status questlined"
    return DaemonUnreachable(message, hint=ways)


def _version_error(unknown: str, version: str, parameter: bool) -> QuestlineError:
    """The error for a method or parameter that a daemon of this version does not know."""
    import questlined.wire

    ours = questlined.__version__
    if parameter and version == ours:
        return InvalidInput(f"the daemon refused the parameter {unknown}", hint="", field=unknown)
    age = _age(version, ours)
    return Internal(
        f"questlined {version} does not know {unknown}: the daemon is {age} qlctl {ours}",
        hint="use a qlctl and a questlined of one version; restart the daemon after an upgrade",
    )


def _age(theirs: str, ours: str) -> str:
    """How their version stands to ours: `older than`, `newer than`, `not of the version of`."""
    try:
        left, right = ([int(part) for part in version.split(".")] for version in (theirs, ours))
    except ValueError:
        return "not of the version of"
    return "older than" if left < right else "newer than" if left > right else "of the version of"
