"""add --from-file: many quests from JSON Lines, all lines looked at before the first is sent."""

from __future__ import annotations

from qlctl.client import Client, connect
from qlctl.codec import Malformed, decode
from qlctl.commands.add import setting
from qlctl.options import Arguments, readable
from qlctl.output import print_json, say, warn
from questlined.wire.errors import InvalidInput, QuestlineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_QUESTS = 5_000  # a call: the daemon's add_many
MOST_BYTES = 3 * 1024 * 1024  # of lines in a call: below the daemon's max_frame_bytes

TEXT, NUMBER, FLAG, TEXTS = "a text", "a whole number", "true or false", "a list of texts"
FIELDS = {
    "task": TEXT,
    "role": TEXT,
    "name": TEXT,
    "context": TEXT,
    "priority": NUMBER,
    "dependsOn": TEXTS,
    "maxAttempts": NUMBER,
    "notBefore": NUMBER,
    "timeoutMs": NUMBER,
    "lane": TEXT,
    "external": FLAG,
}
GOES_WITH = frozenset({"--from-file", "--wait", "--print-id", "--socket", "--project", "--json"})


class Line:
    """One quest of the file: its number, its length in bytes, its parameters."""

    __slots__ = ("number", "quest", "size")

    def __init__(self, number: int, size: int, quest: dict[str, Any]) -> None:
        self.number, self.size, self.quest = number, size, quest


def run_bulk(given: Arguments) -> int:
    """Add every quest of the file, in as few transactions as the limits allow, and say which ids they got."""
    strays = [*sorted(set(given.options) - GOES_WITH), *given.words]
    if strays:
        hint = "add them, and then qlctl follow ID" if strays[0] == "--follow" else "the lines say it all"
        raise InvalidInput(f"{strays[0]!r} does not go with --from-file", hint=hint, field=strays[0])
    where = setting(given)
    lines = list(read(given.text("--from-file") or ""))
    client = connect(given)
    added: list[dict[str, Any]] = []
    try:
        send(client, where, lines, added)
    except QuestlineError:
        if added:
            _tell(given, client, added)
            say(f"{len(added)} of {len(lines)} quests were added before this:")
        raise
    if not given.flag("--wait"):
        _tell(given, client, added)
        return 0
    from qlctl.commands.wait import finish_many

    if given.flag("--print-id"):
        _tell(given, client, added)
    return finish_many(client, given, [entry["id"] for entry in added])


def read(path: str) -> Iterator[Line]:
    """The quests of a file of JSON Lines (`-`: stdin), empty lines left out. Raises InvalidInput naming a bad line."""
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            for number, raw in enumerate(file, 1):
                if raw.strip():
                    yield Line(number, len(raw), _quest(raw, f"line {number}"))
    except OSError as error:
        raise InvalidInput(f"--from-file: cannot read {path!r}: {error.strerror}", field="--from-file") from None


def _quest(raw: bytes, where: str) -> dict[str, Any]:
    try:
        quest = decode(raw.decode())
    except (Malformed, UnicodeDecodeError) as error:
        raise InvalidInput(f"{where}: no JSON: {error}", hint="one JSON object a line", field=where) from None
    if not isinstance(quest, dict):
        raise InvalidInput(f"{where}: no JSON object", hint='for example {"task": "…"}', field=where)
    for key, value in quest.items():
        _check(where, key, value, escaped=b"\\u" in raw)
    if not quest.get("task"):
        raise InvalidInput(f"{where}: there is no task", hint='for example {"task": "…"}', field=f"{where}.task")
    return quest


def _check(where: str, key: str, value: object, *, escaped: bool) -> None:
    """Refuse a key that NewQuest has not, a value of another type, and text that the wire cannot carry."""
    kind = FIELDS.get(key)
    field = f"{where}.{key}"
    if kind is None:
        raise InvalidInput(f"{where}: unknown key {key!r}", hint=f"known are {', '.join(FIELDS)}", field=field)
    if value is not None and not _fits(kind, value):
        raise InvalidInput(f"{where}: {key} is not {kind}", field=field)
    if escaped and value is not None:  # only an escape can smuggle a NUL or half a character into valid UTF-8
        for text in value if isinstance(value, list) else [value]:
            readable(f"{where}: {key}", str(text))


def _fits(kind: str, value: object) -> bool:
    if kind == NUMBER:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    return isinstance(value, bool if kind == FLAG else str)


def batches(lines: list[Line]) -> Iterator[list[Line]]:
    """The lines in order, cut so that no call is above the daemon's limits."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        if batch and (len(batch) >= MOST_QUESTS or size + line.size > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line.size
    if batch:
        yield batch


def send(client: Client, where: dict[str, object], lines: list[Line], added: list[dict[str, Any]]) -> None:
    """Send all batches in order; `added` gains the reply's entries, so that it is right whenever this raises.

    The daemon knows the names of one call only: those of earlier calls are replaced by their ids here.
    """
    known: dict[str, str] = {}
    for batch in batches(lines):
        quests = [line.quest for line in batch]
        resolve(quests, known)
        try:
            reply = client.change("io.questline.Quests.AddMany", {**where, "quests": quests})
        except QuestlineError as error:
            error.message = f"lines {batch[0].number} to {batch[-1].number}: {error.message}"
            raise
        warn(reply.get("warnings") or [])
        added += reply["added"]
        pairs = zip(quests, reply["added"], strict=True)
        known.update((str(quest["name"]), entry["id"]) for quest, entry in pairs if quest.get("name"))


def resolve(quests: list[dict[str, Any]], known: dict[str, str]) -> None:
    """Put ids for names of earlier calls into dependsOn, unless an earlier quest of this call has the name, too."""
    here: set[str] = set()
    for quest in quests:
        if known and quest.get("dependsOn"):
            quest["dependsOn"] = [name if name in here else known.get(name, name) for name in quest["dependsOn"]]
        if quest.get("name"):
            here.add(quest["name"])


def _tell(given: Arguments, client: Client, added: list[dict[str, Any]]) -> None:
    """Say which quests there are now, in the form asked for."""
    if given.flag("--json"):
        print_json(added)
    elif given.flag("--print-id"):
        print("\n".join(entry["id"] for entry in added), flush=True)
    else:
        twice = sum(bool(entry["deduped"]) for entry in added)
        print(f"{len(added) - twice} quests added, {twice} were there already (questlined on {client.path})")
