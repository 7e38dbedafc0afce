"""The errors of the wire: whose fault, Varlink name, parameters, and the exit status of a command that meets one.

    QuestlineError
    ├── the request ─ InvalidInput 2 · NotFound 1 · Ambiguous 2 · DependencyInvalid 2 · PermissionDenied 77
    ├── the moment ── WrongState 1 · StaleLease 1 · Conflict 1 · DedupeConflict 1 · Untrusted 1 · NothingToClaim 3
    ├── the ledger ── Duplicate 4 · Barred 5 · Held 6
    ├── a bound ───── LimitReached 75 · Busy 75 · StoreFull 75 · Unavailable 75
    ├── the set-up ── ConfigInvalid 78 · DaemonUnreachable 69 (client only)
    └── us ────────── Internal 70

Every error carries `message` and `hint`; FIELDS names the further parameters of each, as io.questline.varlink does.
"""

from __future__ import annotations

PREFIX = "io.questline."


class QuestlineError(Exception):
    """Base of the tree. `message` says what is wrong, `hint` what to do about it."""

    exit_status = 70
    fields: tuple[str, ...] = ()

    def __init__(self, message: str, /, *, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    @property
    def name(self) -> str:
        """The Varlink name, for example `io.questline.StaleLease`."""
        return PREFIX + type(self).__name__

    def parameters(self) -> dict[str, object]:
        """The parameters for the wire: message, hint and the error's own fields, absent ones as null."""
        return {"message": self.message, "hint": self.hint, **{key: self.details.get(key) for key in self.fields}}


class InvalidInput(QuestlineError):
    """A parameter is malformed or too large; `field` names it, `setting` the bound it broke."""

    exit_status, fields = 2, ("field", "setting")


class NotFound(QuestlineError):
    """Nothing has this id or name."""

    exit_status, fields = 1, ("id",)


class Ambiguous(QuestlineError):
    """An abbreviated id fits several."""

    exit_status, fields = 2, ("id", "candidates")


class WrongState(QuestlineError):
    """The quest's state does not allow this; nothing was changed."""

    exit_status, fields = 1, ("id", "state")


class StaleLease(QuestlineError):
    """Another claim holds this quest now, or the attempt has ended; nothing was written."""

    exit_status, fields = 1, ("id", "generation")


class Conflict(QuestlineError):
    """The same requestId came with another body."""

    exit_status, fields = 1, ("id",)


class DedupeConflict(QuestlineError):
    """Another active quest has this dedupe key."""

    exit_status, fields = 1, ("existing",)


class Untrusted(QuestlineError):
    """The project's files may run commands and were not trusted."""

    exit_status, fields = 1, ("path",)


class DependencyInvalid(QuestlineError):
    """`reason` is not_found, cross_project, self or cycle."""

    exit_status, fields = 2, ("reason", "cycle")


class NothingToClaim(QuestlineError):
    """No quest is claimable for this claim."""

    exit_status, fields = 3, ("reason",)


class Duplicate(QuestlineError):
    """The ledger has this action."""

    exit_status, fields = 4, ("existing",)


class Barred(QuestlineError):
    """The ledger refuses this action."""

    exit_status, fields = 5, ("existing",)


class Held(QuestlineError):
    """The ledger holds this action for a person."""

    exit_status, fields = 6, ("existing",)


class LimitReached(QuestlineError):
    """A countable resource is used up; `setting` names its bound."""

    exit_status, fields = 75, ("setting", "retryAfterMs")


class Busy(QuestlineError):
    """Try again a little later."""

    exit_status, fields = 75, ("setting", "retryAfterMs")


class StoreFull(QuestlineError):
    """The disk is full; nothing was written."""

    exit_status, fields = 75, ("setting", "retryAfterMs")


class Unavailable(QuestlineError):
    """The store or the daemon cannot answer now; nothing was written."""

    exit_status, fields = 75, ("setting", "retryAfterMs")


class PermissionDenied(QuestlineError):
    """This peer may not do this."""

    exit_status, fields = 77, ("what",)


class ConfigInvalid(QuestlineError):
    """A configuration file is wrong: file, line, key and a suggestion."""

    exit_status, fields = 78, ("file", "line", "key", "suggestion")


class Internal(QuestlineError):
    """A fault of questlined; `reference` finds it in the log."""

    exit_status, fields = 70, ("reference",)


class DaemonUnreachable(QuestlineError):
    """Nobody answers on the socket. Raised by clients, never sent."""

    exit_status = 69


def _subclasses(cls: type[QuestlineError]) -> list[type[QuestlineError]]:
    return [child for direct in cls.__subclasses__() for child in (direct, *_subclasses(direct))]


BY_NAME = {PREFIX + cls.__name__: cls for cls in _subclasses(QuestlineError)}


def from_wire(name: str, parameters: dict[str, object]) -> QuestlineError:
    """The exception for an error reply. An unknown name, or one of org.varlink.service, becomes Internal."""
    details = dict(parameters)
    message, hint = str(details.pop("message", None) or ""), str(details.pop("hint", None) or "")
    cls = BY_NAME.get(name)
    if cls is None:
        shown = ", ".join(f"{key}={value}" for key, value in details.items())
        return Internal(message or f"{name}({shown})", hint=hint or "are qlctl and questlined of the same version?")
    return cls(message or name, hint=hint, **details)
