"""Where a command works: the project it names, or the directory it was typed in."""

from __future__ import annotations

import os

from qlctl.options import readable
from questlined.wire.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qlctl.options import Arguments


def place(given: Arguments) -> dict[str, object]:
    """`project` (an absolute directory as typed, or a name) if --project was given, else `directory`."""
    project = given.text("--project")
    if project is None:
        return {"directory": _here()}
    if not project:
        raise InvalidInput("--project: is empty", hint="give a directory or a name", field="--project")
    if "/" in project or project in (".", ".."):
        # joined, not normalized: `a/../b` through a symlink is another place, and the daemon resolves it
        return {"project": project if project.startswith("/") else os.path.join(_here(), project)}
    return {"project": project}


def _here() -> str:
    try:
        return readable("the working directory", os.getcwd())
    except FileNotFoundError:
        raise InvalidInput(
            "the working directory is gone", hint="cd to a directory, or name one with --project", field="directory"
        ) from None
