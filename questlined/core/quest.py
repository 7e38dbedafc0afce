"""What a new quest must be: names, sizes and ranges, checked before anything is stored."""

from __future__ import annotations

import re
from dataclasses import dataclass

from questlined.wire.errors import InvalidInput

INTEGER_MAX = 2**53 - 1
NAME_MAX = 200
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(slots=True)  # not frozen: thousands are made in one call, and setting each field past the freeze costs most
class NewQuest:
    """A quest about to be stored. Times are epoch milliseconds; `depends_on` holds full ids."""

    id: str
    project: str
    role: str
    name: str
    task: str
    context: str | None
    priority: int
    max_attempts: int
    backoff_base_ms: int
    scheduled_at: int
    timeout_ms: int | None
    lane: str | None
    external: bool
    depends_on: tuple[str, ...]
    created_at: int
    submitter_uid: int | None = None
    submitter_path: str | None = None
    parent_id: str | None = None
    depth: int = 0
    recurrence_id: str | None = None
    occurrence_at: int | None = None


def check_text(field: str, text: str, *, empty: bool = False) -> str:
    """`text` if it holds neither NUL nor a lone surrogate, and something unless `empty` is fine."""
    if not empty and (not text or text.isspace()):
        raise InvalidInput(f"{field}: it is empty", hint="write something there", field=field)
    if "\0" in text:
        raise InvalidInput(
            f"{field}: it holds a NUL character", hint="remove it: no program can be given one", field=field
        )
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{field}: character {error.start + 1} is no valid Unicode", hint="send UTF-8 text", field=field
        ) from None
    return text


def check_word(field: str, word: str) -> str:
    """A role or lane: a letter or digit, then up to 63 of letters, digits, dot, dash and underscore."""
    if not _WORD.fullmatch(word):
        raise InvalidInput(
            f"{field}: {word[:80]!r} is no well-formed {field}",
            hint="use 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit",
            field=field,
        )
    return word


def check_name(name: str) -> str:
    """A quest's display name: one line of up to NAME_MAX characters."""
    check_text("name", name)
    if len(name) > NAME_MAX or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        raise InvalidInput(
            f"name: it has {len(name)} characters" if len(name) > NAME_MAX else "name: it has control characters",
            hint=f"use one line of up to {NAME_MAX} characters",
            field="name",
        )
    return name


def check_integer(field: str, value: int, *, low: int = -INTEGER_MAX, high: int = INTEGER_MAX) -> int:
    """`value` within bounds."""
    if not low <= value <= high:
        raise InvalidInput(
            f"{field}: {value} is not between {low} and {high}", hint="give a number in that range", field=field
        )
    return value


def check_size(field: str, texts: tuple[str | None, ...], limit: int, setting: str | None) -> None:
    """Refuse texts that together pass a bound, naming its setting if it has one."""
    if 4 * sum(map(len, filter(None, texts))) <= limit:  # no character has more than four bytes
        return
    size = sum(len(text.encode()) for text in texts if text)
    if size <= limit:
        return
    if setting is None:
        raise InvalidInput(f"{field}: {size} bytes are more than {limit}", hint="shorten it", field=field)
    raise InvalidInput(
        f"{field}: {size} bytes are more than {setting} = {limit}",
        hint=f"shorten it, put it in a file of the project, or raise {setting}",
        field=field,
        setting=setting,
    )


def default_name(task: str) -> str:
    """A name from the task's first line, without control characters, up to 60 characters."""
    first = task.lstrip().split("\n", 1)[0].strip()
    if not first.isprintable():
        first = "".join(letter if ord(letter) >= 32 else " " for letter in first).strip()
    return first if len(first) <= 60 else first[:59] + "…"
