"""What a configuration that was read again changes, and what of it can be had without a restart."""

from __future__ import annotations

from dataclasses import dataclass, replace

from questlined.config.kinds import Setting
from questlined.config.layer import Key, show_key
from questlined.config.load import Loaded
from questlined.config.settings import LANES, QUEUE, setting
from questlined.config.shape import Config

_FIXED = tuple(row for row in QUEUE if not row.reload)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did. `changed` are the settings that count from now on, `restart` those that would after one."""

    files: tuple[str, ...]
    changed: tuple[str, ...]
    restart: tuple[str, ...]
    warnings: tuple[str, ...]


def reloaded(running: Loaded, found: Loaded) -> tuple[Loaded, Reloaded]:
    """What runs from now on, and how it differs from what runs now: by `found`, but for what only a restart changes.

    Only keys that a file names are compared: for a role that inherits a value, the one it inherits from."""
    keys = {*running.sources, *found.sources, *(row.path for row in _FIXED)}
    differing = sorted(key for key in keys if _value(running.config, key) != _value(found.config, key))
    fixed = [key for key in differing if not _row(key).reload]
    kept = {row.field: getattr(running.config, row.field) for row in _FIXED}
    gone = [file for file in running.files if file not in found.files]
    outcome = Reloaded(
        found.files,
        tuple(show_key(key) for key in differing if key not in fixed),
        tuple(show_key(key) for key in fixed),
        (*(f"{file} is not there any more: what it said counts no longer" for file in gone), *found.warnings),
    )
    return replace(found, config=replace(found.config, **kept)), outcome


def _row(key: Key) -> Setting:
    row = setting(key)
    assert row is not None, "a key that was read has a row"
    return row


def _value(config: Config, key: Key) -> object:
    """What the program goes by."""
    row = _row(key)
    if row is LANES[0]:
        return config.lanes.get(key[1], row.default)
    tables = {"executor": config.executor, "executors": config.for_role(key[1]) if len(key) > 1 else None}
    return getattr(tables.get(key[0]) or (config.bounds if key[0] == "bounds" else config), row.field)
