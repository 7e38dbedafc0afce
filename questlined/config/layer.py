"""One TOML file, read and checked against the settings table. Every error names file, line, key and a suggestion."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from questlined.config.kinds import Setting, Wrong, closest, mode, type_name, word
from questlined.config.locate import find_fault, find_line
from questlined.config.settings import NAMED, SETTINGS, is_table, setting, siblings
from questlined.wire.errors import ConfigInvalid

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """What one file sets, typed; `named` are the roles and lanes it mentions, even with an empty table."""

    file: str
    text: str
    values: Mapping[Key, object] = field(default_factory=dict)
    named: frozenset[Key] = frozenset()


def read_layer(text: str, file: str) -> Layer:
    """The settings of one file's text. Raises ConfigInvalid."""
    data = _parse(text, file)
    values: dict[Key, object] = {}
    named: set[Key] = set()
    key: Key = ()
    try:
        for key, row, value in _walk(data, ()):
            if key[0] in NAMED:
                named.add(key[:2])
            if row is not None:
                values[key] = row.read(value)
                _refuse_decimal_mode(row, value, text, key)
    except _At as place:
        raise invalid(file, text, place.key, place.wrong) from None
    except Wrong as wrong:
        raise invalid(file, text, (*key, *wrong.below), wrong) from None
    return Layer(file, text, values, frozenset(named))


def invalid(file: str, text: str, key: Key, wrong: Wrong) -> ConfigInvalid:
    """The error for a key of a file, its line looked up, its message complete in itself."""
    line, shown = find_line(text, key), show_key(key)
    where = f"{file}:{line}" if line else file
    hint = wrong.hint or (
        f"did you mean {wrong.suggestion}?" if wrong.suggestion else "questlined.toml(5) has an example"
    )
    return ConfigInvalid(
        f"{where}: {shown}: {wrong.message}", hint=hint, file=file, line=line, key=shown, suggestion=wrong.suggestion
    )


def show_key(key: Key) -> str:
    """A key as a file would write it, dotted, parts quoted that need it."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"' for part in key)


class _At(Exception):
    """Something wrong with a key that has no row of its own."""

    def __init__(self, key: Key, wrong: Wrong) -> None:
        super().__init__(key)
        self.key, self.wrong = key, wrong


def _parse(text: str, file: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line ([0-9]+)", str(error))
        line = int(found[1]) if found else max(len(text.splitlines()), 1)
        raise ConfigInvalid(
            f"{file}:{line}: this is not TOML: {error}", hint="see https://toml.io; texts stand in quotes",
            file=file, line=line,
        ) from None  # fmt: skip
    except (ValueError, RecursionError) as error:  # what tomllib itself lets through
        what = "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        line = find_fault(text)
        raise ConfigInvalid(
            f"{file}:{line}: this cannot be read: {what}", hint="no setting takes such a value", file=file, line=line
        ) from None


def _walk(table: Mapping[str, object], above: Key) -> Iterator[tuple[Key, Setting | None, object]]:
    """Every key with its row; tables of a chosen name come once more, without a row. Raises _At for a stranger."""
    for name, value in table.items():
        key = (*above, name)
        row = setting(key)
        if row is not None:
            yield key, row, value
        elif not is_table(key):
            raise _At(key, _unknown(key, value))
        elif not isinstance(value, Mapping):
            raise _At(key, Wrong(f"it is {type_name(value)}, not a table", hint=f"write it as [{show_key(key)}]"))
        else:
            if len(key) == 2 and above[0] in NAMED:
                _check_name(key)
                yield key, None, value
            yield from _walk(value, key)


def _check_name(key: Key) -> None:
    try:
        word(NAMED[key[0]], key[1])
    except Wrong as wrong:
        raise _At(key, wrong) from None


def _unknown(key: Key, value: object) -> Wrong:
    """The error for a key nobody knows: the nearest sibling is suggested, else the key's rightful place."""
    *above, name = key
    if above == ["executor"] and isinstance(value, Mapping) and not closest(name, siblings(("executor",))):
        return Wrong("unknown key", suggestion=show_key(("executors", name)))
    near = closest(name, siblings(tuple(above)))
    if near:
        return Wrong("unknown key", suggestion=show_key((*above, near)))
    elsewhere = [row.key for row in SETTINGS if row.path[-1] == name and "*" not in row.path]
    return Wrong("unknown key", suggestion=elsewhere[0] if elsewhere else None)


def _refuse_decimal_mode(row: Setting, value: object, text: str, key: Key) -> None:
    """`umask = 22` would be 026: tomllib gives the same number for 0o26, so the text itself has to tell."""
    if row.kind is mode and isinstance(value, int):
        line = find_line(text, key)
        if line and "0o" not in text.split("\n")[line - 1]:
            raise Wrong("it is a decimal number", hint='write octal digits as text, such as "022" or "0660"')
