"""backup: a copy of the queue in one file."""

from __future__ import annotations

import os

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import print_json
from qlctl.render.text import clean
from qlctl.values import integer
from questlined.wire.errors import InvalidInput


def run(given: Arguments) -> int:
    """Have the daemon make the copy, and say where it is."""
    wanted: dict[str, object] = {}
    if given.words:
        wanted["file"] = _absolute(given.words[0])
    keep = given.text("--keep")
    if keep is not None:
        wanted["keep"] = integer("--keep", keep, least=1)
    reply = connect(given).change("io.questline.Manager.Backup", wanted)
    if given.flag("--json"):
        print_json(reply)
        return 0
    print(clean(f"{reply['path']}: {_size(reply['bytes'])}"))
    for path in reply["removed"]:
        print(clean(f"removed {path}"))
    return 0


def _absolute(path: str) -> str:
    """The path as the daemon, which works elsewhere, can use it; not normalized, so that links count."""
    if not path:
        raise InvalidInput("FILE: is empty", hint="give the path of a new file", field="file")
    return path if path.startswith("/") else os.path.join(os.getcwd(), path)


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count >> 10} KiB"


COMMANDS = {
    "backup": Command(
        run,
        "[FILE]",
        most=1,
        options=(Option("--keep", "N", "how many copies stay in backups/ of the state directory (default: 7)"),),
        about="Copy the queue, as it is now, while work goes on: to FILE, which must not exist, else to backups/ in "
        "the state directory, where the oldest copies go. The daemon writes the file. To restore one, stop the "
        "daemon, put the copy in place of quests.sqlite, remove quests.sqlite-wal and -shm, and start it again.",
    )
}
