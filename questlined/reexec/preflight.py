"""Whether the installed program could go on in place of the running one: it is asked itself, in a child.

What it answers is one JSON value on stdout: who and where it would be, or the error with which it would not start.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from questlined import __version__
from questlined.procs import trial
from questlined.procs.family import Family
from questlined.reexec.handover import FORMAT
from questlined.reexec.program import Program
from questlined.store.sqlite import connection
from questlined.wire.errors import QuestlineError, Unavailable, from_wire

OPTION = "--check-handover"
LIMIT_S = 30.0
SHOWN = 2000  # characters of what a program said that ended badly
NOTHING_CHANGED = "nothing was changed: the running daemon goes on"
# What tells a program that it is the service, or part of a test of it.
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "QUESTLINED_CRASH_AT", "QUESTLINED_HANG_AT")


class Places(Protocol):
    """Where a daemon keeps."""

    @property
    def state(self) -> Path: ...
    @property
    def database(self) -> Path: ...
    @property
    def artifacts(self) -> Path: ...


def answer(found: Callable[[], Places], form: str) -> int:
    """In the new program: say whether it could go on from a handover of format `form`. The exit status is 0."""
    try:
        sys.stdout.write(json.dumps(_fit(found(), form)) + "\n")
    except QuestlineError as error:
        sys.stdout.write(json.dumps({"error": error.name, "parameters": error.parameters()}) + "\n")
    return 0


def _fit(where: Places, form: str) -> dict[str, str]:
    if form != str(FORMAT):
        raise Unavailable(
            f"questlined {__version__} takes a handover of format {FORMAT}, not {form}", hint="restart the daemon"
        )
    connection.examine(where.database)
    return {"version": __version__} | _kept(where)


def _kept(where: Places) -> dict[str, str]:
    return {name: os.path.realpath(getattr(where, name)) for name in ("state", "database", "artifacts")}


async def ask(family: Family, program: Program, where: Places, environ: Mapping[str, str]) -> str:
    """In the old program: the version of the one that could go on here. Raises the error that it would end with, and
    Unavailable."""
    env = {name: value for name, value in environ.items() if name not in _OURS}
    argv = (*program.argv, OPTION, str(FORMAT))
    try:
        said = await trial.run(family, argv, program.directory, env, LIMIT_S)
    except TimeoutError:
        raise _unfit(f"it did not come up within {LIMIT_S:.0f} s") from None
    except OSError as error:
        raise _unfit(f"{error.filename or program.argv[0]}: {error.strerror}") from error
    found = _json(said.output)
    if said.code != 0 or found is None:
        how = "by a signal" if said.code is None else f"with {said.code}"
        raise _unfit(_last_words(said.errors) or f"it ended {how}, and said nothing")
    if "error" in found:
        raise _told(from_wire(str(found["error"]), dict(found.get("parameters") or {})))
    for name, kept in _kept(where).items():
        if found.get(name) != kept:
            raise _unfit(f"it would use another {name}: {found.get(name)}, not {kept}", hint="restart the daemon")
    return str(found.get("version"))


def _unfit(why: str, hint: str = "repair the installation") -> Unavailable:
    return Unavailable(f"the new program is refused: {why}", hint=f"{hint}; {NOTHING_CHANGED}")


def _told(error: QuestlineError) -> QuestlineError:
    """The new program's own error, as one of this call."""
    hint = f"{error.hint}; {NOTHING_CHANGED}" if error.hint else NOTHING_CHANGED
    return type(error)(f"the new program is refused: {error.message}", hint=hint, **error.details)


def _json(output: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(output)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _last_words(errors: bytes) -> str:
    """The last line of what it said on stderr: of a traceback, the error."""
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return "".join(letter if letter.isprintable() else " " for letter in lines[-1])[:SHOWN] if lines else ""
