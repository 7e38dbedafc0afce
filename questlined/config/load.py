"""From files to one Config: built-in defaults, then each file over the ones before it, key by key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from questlined.config.isolation import faults
from questlined.config.kinds import Setting, Wrong
from questlined.config.layer import Key, Layer, invalid, read_layer, show_key
from questlined.config.paths import Environ, config_files, unread_files
from questlined.config.settings import BOUNDS, EXECUTOR, LANES, QUEUE, ROLES
from questlined.config.shape import Bounds, Config, Executor, Variables
from questlined.wire.errors import ConfigInvalid


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and where it came from. `origin` maps every key that a file set to that file, `sources` the same
    to what was read of it; `again` reads what these files say by now, or None where they were none."""

    config: Config
    origin: Mapping[str, str]
    files: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sources: Mapping[Key, Layer] = field(default_factory=dict)
    again: Callable[[], Loaded] | None = None

    def refusal(self, key: Key, wrong: Wrong) -> ConfigInvalid:
        """The error for a setting that is well-formed and cannot be met on this machine."""
        layer = self.sources.get(key) or Layer("the configuration", "")
        return invalid(layer.file, layer.text, key, wrong)


def load_from(environ: Environ, explicit: str | None = None, uid: int | None = None) -> Loaded:
    """The configuration of this user or of the system service. Raises ConfigInvalid.

    `explicit` (--config), else $QUESTLINED_CONFIG, is read alone and must exist; the usual files may be absent.
    """
    chosen = explicit or environ.get("QUESTLINED_CONFIG")
    place = os.path.abspath(os.path.expanduser(chosen)) if chosen else None  # wherever we are by then
    loaded = load(config_files(environ, place, uid))
    for key, wrong in faults(loaded.config, loaded.sources.keys(), os.geteuid() if uid is None else uid):
        raise loaded.refusal(key, wrong)
    return replace(
        loaded,
        warnings=tuple(unread_files(environ, place, uid)),
        again=lambda: load_from(environ, place, uid),
    )


def load(files: Iterable[Path | str]) -> Loaded:
    """The configuration from these files, later ones winning. Raises ConfigInvalid."""
    return _loaded([read_layer(_read(Path(file)), str(file)) for file in files])


def from_text(text: str, file: str = "questlined.toml") -> Config:
    """The configuration that one file with this text would give. Raises ConfigInvalid."""
    return _loaded([read_layer(text, file)]).config


def _read(file: Path) -> str:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigInvalid(f"{file}: it cannot be read: {error.strerror}", hint="check its path and permissions",
                            file=str(file)) from None  # fmt: skip
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigInvalid(f"{file}:{line}: it is not UTF-8", hint="save it as UTF-8 text", file=str(file),
                            line=line) from None  # fmt: skip


def _loaded(layers: list[Layer]) -> Loaded:
    values: dict[Key, object] = {}
    origin: dict[Key, Layer] = {}
    named: set[Key] = set()
    for layer in layers:
        named |= layer.named
        for key, value in layer.values.items():
            values[key] = _over(values.get(key), value)
            origin[key] = layer
    _check_together(values, origin)
    return Loaded(
        _config(values, named),
        {show_key(key): layer.file for key, layer in origin.items()},
        tuple(layer.file for layer in layers),
        sources=origin,
    )


def _over(lower: object, upper: object) -> object:
    """Tables are laid over each other entry by entry, everything else is replaced."""
    if isinstance(lower, Variables) and isinstance(upper, Variables):
        return Variables({**lower, **upper})
    if isinstance(lower, dict) and isinstance(upper, dict):
        return {**lower, **upper}
    return upper


def _check_together(values: Mapping[Key, object], origin: Mapping[Key, Layer]) -> None:
    """What no single key can show."""
    ttl, beat = (_value(row, row.path, values) for row in QUEUE[:2])  # the table's first rows: lease_ttl, heartbeat
    if beat < ttl:
        return
    key = ("heartbeat",) if ("heartbeat",) in origin else ("lease_ttl",)
    wrong = Wrong(f"the heartbeat ({beat} ms) is not below the lease_ttl ({ttl} ms)",
                  hint="a lease has to be renewed before it ends: heartbeat = lease_ttl / 4 is usual")  # fmt: skip
    raise invalid(origin[key].file, origin[key].text, key, wrong)


def _config(values: Mapping[Key, object], named: Iterable[Key]) -> Config:
    roles = sorted(name for table, name in named if table == "executors")
    lanes = sorted(name for table, name in named if table == "lanes")
    base = dict(_fields(EXECUTOR, values))
    return Config(
        executor=Executor(**base),
        executors={role: Executor(**dict(_role_fields(role, values, base))) for role in roles},
        lanes={lane: _value(LANES[0], ("lanes", lane, "slots"), values) for lane in lanes},
        bounds=Bounds(**dict(_fields(BOUNDS, values))),
        **dict(_fields(QUEUE, values)),
    )


def _fields(rows: Iterable[Setting], values: Mapping[Key, object]) -> Iterator[tuple[str, Any]]:
    for row in rows:
        yield row.field, _value(row, row.path, values)


def _role_fields(role: str, values: Mapping[Key, object], base: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    for row in ROLES:
        key = ("executors", role, *row.path[2:])
        yield row.field, _over(base[row.field], values[key]) if key in values else base[row.field]


def _value(row: Setting, key: Key, values: Mapping[Key, object]) -> Any:
    if key in values:
        return values[key]
    return None if row.default is None else row.read(row.default)
