"""The kinds a setting may be of: each turns what TOML gave into the typed value, or says what is wrong with it."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from questlined.config.shape import Variables
from questlined.config.sizes import parse_size
from questlined.config.spans import parse_span
from questlined.core.prompts import PLACEHOLDERS, unknown_placeholders
from questlined.core.quest import check_word
from questlined.wire.errors import InvalidInput

INTEGER_MAX = 2**53 - 1
SHOWN_MAX = 10**30
_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "an array",
          dict: "a table"}  # fmt: skip
Number = TypeVar("Number", int, float)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CREDENTIAL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}")


class Wrong(Exception):
    """A value that a setting does not take. Carries no place: whoever knows file and key adds them; `below` is the rest
    of the key where the setting is a table."""

    def __init__(self, message: str, *, hint: str = "", suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint, self.suggestion = message, hint, suggestion
        self.below: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the settings table. `default` is written as a file would; None is unset.

    `low` and `high` bound the typed value (milliseconds for spans). `off` says that "off" unsets it again.
    """

    key: str
    field: str
    kind: Callable[[object, Setting], object]
    default: object
    doc: str
    low: float = 0
    high: float = INTEGER_MAX
    choices: tuple[str, ...] = ()
    reload: bool = True
    off: bool = False
    hint: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        """The key's parts, `*` standing for any name."""
        return tuple(self.key.split("."))

    def read(self, value: object) -> object:
        """The typed value of what a file says. Raises Wrong."""
        if self.off and value == "off":
            return None
        return self.kind(value, self)


def span(value: object, setting: Setting) -> int:
    """A duration, as milliseconds."""
    try:
        return _bounded(parse_span(value), setting, unit=" ms")
    except ValueError as error:
        raise _wrong_from(error) from None


def size(value: object, setting: Setting) -> int:
    """A number of bytes."""
    try:
        return _bounded(parse_size(value), setting, unit=" bytes")
    except ValueError as error:
        raise _wrong_from(error) from None


def count(value: object, setting: Setting) -> int:
    """A whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _type_error(value, "a whole number")
    return _bounded(value, setting)


def share(value: object, setting: Setting) -> float:
    """A number between the bounds, usually 0 and 1."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _type_error(value, "a number")
    if isinstance(value, float) and math.isnan(value):
        raise Wrong("nan is no number")
    return float(_bounded(value, setting))


def flag(value: object, setting: Setting) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise _type_error(value, "true or false")
    return value


def text(value: object, setting: Setting) -> str:
    """Something written, without NUL."""
    if not isinstance(value, str):
        raise _type_error(value, "text")
    if not value.strip():
        raise Wrong("it is empty", hint="leave the key out to have the default")
    return _without_nul(value)


def path(value: object, setting: Setting) -> str:
    """An absolute path; a leading `~` is the home directory."""
    expanded = os.path.expanduser(text(value, setting))
    if not os.path.isabs(expanded):
        raise Wrong(f"{expanded!r} is no absolute path", hint="begin it with / or ~/")
    return expanded


def mode(value: object, setting: Setting) -> int:
    """Permission bits: text of octal digits, or an integer (which a file must write as 0o…)."""
    form = 'write octal digits as text, such as "022" or "0660"'
    if isinstance(value, str) and re.fullmatch(r"(0o)?[0-7]{1,4}", value):
        value = int(value, 8)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= setting.high:
        raise Wrong("it is no octal mode", hint=form)
    return value


def choice(value: object, setting: Setting) -> str:
    """One of a few words."""
    words = ", ".join(f'"{word}"' for word in setting.choices)
    if not isinstance(value, str):
        raise _type_error(value, words)
    if value not in setting.choices:
        raise Wrong(f'"{value[:80]}" is not one of {words}', suggestion=closest(value, setting.choices))
    return value


def argv(value: object, setting: Setting) -> tuple[str, ...]:
    """A program and its arguments, never a shell line, with placeholders that exist."""
    if isinstance(value, str):
        raise Wrong("it is text, not an array", hint='write ["sh", "-c", "…"] if it needs a shell')
    arguments = _texts(value)
    if not arguments or not arguments[0].strip():
        raise Wrong("it is empty", hint='name a program, such as ["claude", "-p", "{task}"]')
    for unknown in unknown_placeholders(arguments):
        near = closest(unknown, PLACEHOLDERS)
        known = " ".join(f"{{{word}}}" for word in sorted(PLACEHOLDERS))
        raise Wrong(f"unknown placeholder {{{unknown}}}", hint="" if near else f"known: {known}",
                    suggestion=f"{{{near}}}" if near else None)  # fmt: skip
    return arguments


def names(value: object, setting: Setting) -> tuple[str, ...]:
    """Names of environment variables."""
    return tuple(_variable(name) for name in _texts(value))


def variables(value: object, setting: Setting) -> Variables:
    """Environment variables with their values. No message of this one ever holds a value."""
    if not isinstance(value, Mapping):
        raise _type_error(value, "a table")
    for name, content in value.items():
        if not isinstance(content, str):
            raise Wrong(f"{_variable(name)} is {type_name(content)}, not text", hint="put the value in quotes")
        _without_nul(content, _variable(name))
    return Variables(value)


def credentials(value: object, setting: Setting) -> dict[str, str]:
    """For environment variables the names of the service's credentials that they get their values from."""
    if not isinstance(value, Mapping):
        raise _type_error(value, "a table of variable = credential")
    for name, credential in value.items():
        _variable(name)
        if not isinstance(credential, str):
            raise Wrong(f"{name} is {type_name(credential)}, not text", hint="write the credential's name in quotes")
        if not _CREDENTIAL.fullmatch(credential):
            # What stands there is not shown: it may be the secret itself.
            raise Wrong(f"{name} is no name of a credential", hint="write the one that LoadCredential= gives it")
    return dict(value)


def per_role(value: object, setting: Setting) -> dict[str, int]:
    """A whole number for each of some roles."""
    if not isinstance(value, Mapping):
        raise _type_error(value, "a table of role = number")
    numbers = {}
    for role, number in value.items():
        try:
            numbers[word("role", role)] = count(number, setting)
        except Wrong as wrong:
            raise Wrong(f"{role[:80]}: {wrong.message}", hint=wrong.hint) from None
    return numbers


def word(what: str, value: str) -> str:
    """A well-formed name of a role or lane."""
    try:
        return check_word(what, value)
    except InvalidInput as error:
        raise Wrong(error.message, hint=error.hint) from None


def type_name(value: object) -> str:
    """What TOML calls a value of this type."""
    return _TYPES.get(type(value), "a date or time")


def closest(given: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, if one is near enough."""
    return next(iter(difflib.get_close_matches(given, list(known), n=1)), None)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _type_error(value, "an array of texts")
    for number, item in enumerate(value, 1):
        if not isinstance(item, str):
            raise Wrong(f"item {number} is {type_name(item)}, not text", hint="put it in quotes")
        _without_nul(item, f"item {number}")
    return tuple(value)


def _variable(name: str) -> str:
    if _VARIABLE.fullmatch(name):
        return name
    alone, assigned, _ = name.partition("=")
    if assigned:  # what follows may be a secret
        raise Wrong(f"{alone[:80] + '=…'!r} is no name of a variable", hint="name it alone; values stand in env.set")
    raise Wrong(f"{name[:80]!r} is no name of a variable", hint="use letters, digits and _, no digit first")


def _without_nul(value: str, what: str = "it") -> str:
    if "\0" in value:
        raise Wrong(f"{what} holds a NUL character", hint="remove it: no program can be given one")
    return value


def _bounded(value: Number, setting: Setting, unit: str = "") -> Number:
    if setting.low <= value <= setting.high:
        return value
    # Python writes out no number of thousands of digits.
    shown = f"{value}{unit}" if isinstance(value, float) or abs(value) < SHOWN_MAX else "it"
    if value < setting.low:
        raise Wrong(f"{shown} is below {setting.low}{unit}", hint=setting.hint)
    raise Wrong(f"{shown} is above {setting.high}{unit}", hint=setting.hint)


def _type_error(value: object, wanted: str) -> Wrong:
    return Wrong(f"it is {type_name(value)}, not {wanted}")


def _wrong_from(error: ValueError) -> Wrong:
    message, _, hint = str(error).rpartition(": ")
    return Wrong(message, hint=hint)
