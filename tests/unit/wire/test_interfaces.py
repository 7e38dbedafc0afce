"""The interface files are good Varlink, for other people's clients too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import varlink
from varlink import scanner

from questlined.wire import interfaces

PARSED = {name: varlink.Interface(interfaces.description(name)) for name in interfaces.NAMES}


def types(kind: Any) -> Iterator[Any]:
    """A type and all inside it."""
    yield kind
    if isinstance(kind, scanner._Struct):
        for field in kind.fields.values():
            yield from types(field)
    elif isinstance(kind, scanner._Maybe | scanner._Array | scanner._Dict):
        yield from types(kind.element_type)


def members(interface: Any) -> Iterator[Any]:
    """Every type that an interface mentions."""
    for member in interface.members.values():
        for root in [member.in_type, member.out_type] if isinstance(member, scanner._Method) else [member.type]:
            yield from types(root)


@pytest.mark.parametrize("name", interfaces.NAMES)
def test_an_interface_says_its_own_name(name: str) -> None:
    """A file that was copied and not renamed is found."""
    assert PARSED[name].name == name


@pytest.mark.parametrize("name", interfaces.NAMES)
def test_every_type_that_is_named_is_declared(name: str) -> None:
    """Within the same interface: Varlink has no imports."""
    declared = {member.name for member in PARSED[name].members.values() if isinstance(member, scanner._Alias)}
    used = {kind.name for kind in members(PARSED[name]) if isinstance(kind, scanner._CustomType)}
    assert used == declared


@pytest.mark.parametrize("name", interfaces.NAMES)
def test_nothing_is_used_that_common_clients_cannot_read(name: str) -> None:
    """No `any`, no enum, no dash or double underscore in a name."""
    text = re.sub(r"#.*", "", interfaces.description(name))
    assert not re.search(r"\bany\b|__|\w-\w", text)
    assert not [kind for kind in members(PARSED[name]) if isinstance(kind, scanner._Enum)]


@pytest.mark.parametrize("name", interfaces.NAMES)
def test_no_name_is_given_twice(name: str) -> None:
    """A method may not be called as a type is: systemd's parser refuses that, the one used here keeps the last."""
    names = re.findall(r"^(?:type|method|error) (\w+)", interfaces.description(name), re.M)
    assert len(names) == len(set(names)) == len(PARSED[name].members)


def test_a_type_of_two_interfaces_is_the_same_in_both() -> None:
    """Varlink cannot share them, so that they are written twice."""
    texts: dict[str, set[str]] = {}
    for name in interfaces.NAMES:
        for word, body in re.findall(r"^type (\w+) (\(.*?^\)|\(.*?\)$)", interfaces.description(name), re.M | re.S):
            texts.setdefault(word, set()).add(body)
    assert {"Quest", "Attempt", "Counts"} <= set(texts)
    assert {word: len(bodies) for word, bodies in texts.items() if len(bodies) > 1} == {}


def test_every_file_is_listed() -> None:
    """None lies there that GetInfo does not name."""
    assert {path.stem for path in Path(interfaces.DIRECTORY).glob("*.varlink")} == set(interfaces.NAMES)


@pytest.mark.parametrize("name", ["io.questline.Nobody", "", "../wire/io.questline", "io.questline.varlink"])
def test_an_unknown_interface_has_no_description(name: str) -> None:
    """And a name never leads to another file."""
    with pytest.raises(KeyError):
        interfaces.description(name)
