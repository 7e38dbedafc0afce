"""Files that we write into folders of systemd: nothing of anybody else's is overwritten or removed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from questlined.sysd.rendering import Origin, Rendered, origin
from questlined.wire.errors import QuestlineError, Unavailable

NAMES = "questline*"  # every file of ours begins so
READ_MAX = 1024 * 1024


class NotOurs(QuestlineError):
    """A file of somebody else, or one that somebody edited, is where ours belongs. Nothing was changed."""

    exit_status = 1


def origin_of(path: Path) -> Origin | None:
    """Whose a file is, None where there is none. A link is never ours. Raises Unavailable."""
    if path.is_symlink():
        return Origin.FOREIGN
    text = _text(path)
    return None if text is None else origin(text)


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(READ_MAX).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}", hint="may you read it?") from error


def to_write(rendered: Sequence[Rendered]) -> list[Rendered]:
    """Those that are missing or of another version. Raises NotOurs, naming every file that is in the way."""
    wanted, foreign = [], []
    for each in rendered:
        whose = origin_of(each.path)
        if whose in (Origin.EDITED, Origin.FOREIGN):
            foreign.append((each.path, whose))
        elif whose is None or _text(each.path) != each.text:
            wanted.append(each)
    if foreign:
        raise _not_ours(foreign)
    return wanted


def _not_ours(found: Sequence[tuple[Path, Origin | None]]) -> NotOurs:
    said = [
        f"{path} was edited" if whose is Origin.EDITED else f"{path} was not written by questlined install"
        for path, whose in found
    ]
    paths = " ".join(str(path) for path, _ in found)
    return NotOurs(
        "; ".join(said),
        hint=f"nothing was changed. Keep your changes as drop-ins (systemctl edit), move the file away and install "
        f"again: {paths}",
    )


def obsolete(rendered: Sequence[Rendered]) -> list[Path]:
    """Files of an earlier version, in the same folders, that this one has no more."""
    current = {each.path for each in rendered}
    return [
        path
        for path, whose in written({path.parent for path in current})
        if whose is Origin.OURS and path not in current
    ]


def written(folders: Iterable[Path]) -> list[tuple[Path, Origin]]:
    """The files in these folders that an install wrote, edited or not."""
    found: list[tuple[Path, Origin]] = []
    for folder in sorted(folders):
        for path in sorted(folder.glob(NAMES)):
            whose = origin_of(path) if path.is_file() else None
            if whose is Origin.OURS or whose is Origin.EDITED:
                found.append((path, whose))
    return found


def write(file: Rendered) -> None:
    """Put the file into place, whole or not at all, readable by everybody. Raises Unavailable."""
    try:
        file.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".questlined-", dir=file.path.parent)
        try:
            with os.fdopen(descriptor, "wb") as new:
                new.write(file.text.encode())
                os.fchmod(new.fileno(), 0o644)
                new.flush()
                os.fsync(new.fileno())
            os.rename(name, file.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise Unavailable(f"{file.path}: {error.strerror}", hint="may you write there, and is there space?") from error


def remove(path: Path) -> None:
    """Delete a file. Raises Unavailable."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}", hint="may you write there?") from error
