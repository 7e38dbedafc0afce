"""questlined.toml(5) has every setting with its default, kind and bounds, says what a reload changes, and no more."""

from __future__ import annotations

import json
import re
from pathlib import Path

from questlined.config import kinds
from questlined.config.kinds import INTEGER_MAX, Setting
from questlined.config.load import load_from
from questlined.config.properties import TABLE
from questlined.config.settings import EXECUTOR, ROLES, SETTINGS
from questlined.config.sizes import parse_size
from questlined.config.spans import parse_span
from questlined.core.prompts import PLACEHOLDERS
from tests.support.pages import page, plain, section

PAGE = page("questlined.toml.5")
SPANS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
SIZES = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024, "": 1}


def items(text: str) -> list[tuple[str, str]]:
    """Each setting's headline, as a file would have it, and the line below, from the page."""
    return [
        (plain(head.replace(" No ", " ")), facts)
        for head, facts in re.findall(r"^\.It Cm ([a-z]\S*(?: No = .*)?)\n([^.\n].*)$", text, re.MULTILINE)
    ]


def headline(row: Setting, key: str) -> str:
    """`key = default`, or the key alone where it is unset."""
    return key if row.default is None else f"{key} = {json.dumps(row.default)}"


def facts(row: Setting) -> str:
    """Kind, bounds, and whether it needs a restart, in one line."""
    if row.kind is kinds.choice:
        kind = "One of " + ", ".join(f'"{word}"' for word in row.choices)
    else:
        kind = row.kind.__name__.replace("_", " ").capitalize()
    parts = [kind, *bounds(row), *(['or "off"'] if row.off else [])]
    return ", ".join(parts) + ("." if row.reload else "; needs a restart.")


def bounds(row: Setting) -> list[str]:
    """How the kind is bounded, in the units that a file would have."""
    low, high = (shown(row, value) for value in (row.low, row.high))
    if row.kind is kinds.mode or (row.low == 0 and row.high == INTEGER_MAX):
        return []
    if row.low == 0:
        return [f"at most {high}"]
    return [f"at least {low}" if row.high == INTEGER_MAX else f"{low} to {high}"]


def shown(row: Setting, value: float) -> str:
    """A bound in its largest whole unit."""
    units = SPANS if row.kind is kinds.span else SIZES if row.kind is kinds.size else {"": 1}
    return next(f"{value // factor}{unit}" for unit, factor in units.items() if value % factor == 0 or factor == 1)


def own_key(row: Setting) -> str:
    """The key as the page has it: those of `executor` without that word."""
    return row.key.removeprefix("executor.")


def test_the_page_has_the_settings_in_the_order_of_the_table_with_default_kind_and_bounds() -> None:
    """Where this fails, the lines it wants are those to write."""
    rows = [row for row in SETTINGS if row not in ROLES]
    assert items(PAGE) == [(headline(row, own_key(row)), facts(row)) for row in rows]


def test_a_role_has_the_keys_of_the_executor() -> None:
    """So that the page can have them once."""

    def without_key(rows: tuple[Setting, ...], prefix: str) -> list[tuple[object, ...]]:
        return [(row.key.removeprefix(prefix), row.field, row.kind, row.default, row.reload) for row in rows]

    assert without_key(ROLES, "executors.*.") == without_key(EXECUTOR, "executor.")


def test_each_kind_of_value_is_described() -> None:
    described = set(re.findall(r"^\.It Em (.*)$", section(PAGE, "VALUES"), re.MULTILINE))
    used = {row.kind.__name__.replace("_", " ") for row in SETTINGS if row.kind is not kinds.choice}
    assert described == used


def test_bounds_are_shown_as_a_file_would_have_them() -> None:
    for row in SETTINGS:
        for value in (row.low, row.high):
            if row.kind is kinds.span and value < INTEGER_MAX:
                assert parse_span(shown(row, value)) == value
            if row.kind is kinds.size and value < INTEGER_MAX:
                assert parse_size(int(shown(row, value)) if shown(row, value).isdigit() else shown(row, value)) == value


def test_the_placeholders_are_those_there_are() -> None:
    assert set(re.findall(r"^\.It Cm \{(\w+)\}$", PAGE, re.MULTILINE)) == PLACEHOLDERS


def test_the_properties_are_those_that_a_unit_may_have() -> None:
    written = " ".join(re.findall(r"^\.It Cm (.*)$", section(PAGE, "PROPERTIES"), re.MULTILINE))
    assert sorted(re.findall(r"\w+", written)) == sorted(TABLE)


def test_the_example_is_a_configuration(tmp_path: Path) -> None:
    """Of an ordinary user's daemon."""
    file = tmp_path / "questlined.toml"
    file.write_text(plain(section(PAGE, "EXAMPLES").split(".Bd -literal\n")[1].split("\n.Ed", maxsplit=1)[0]))
    config = load_from({"HOME": str(tmp_path)}, str(file), uid=1000).config
    assert set(config.executors) == {"refactor", "shell"}
