"""Requests and replies as the code has them, held against the interface files that clients read."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import varlink
from msgspec import NODEFAULT
from msgspec import inspect as shapes
from varlink import scanner

from questlined.operations.registry import METHODS, Method
from questlined.wire import interfaces

SCALARS = {str: shapes.StrType, int: shapes.IntType, bool: shapes.BoolType, float: shapes.FloatType}
OWN = tuple(name for name in interfaces.NAMES if name.startswith("io.questline"))
DECLARED = {name: varlink.Interface(interfaces.description(name)) for name in OWN}


def reply_of(method: Method) -> type[msgspec.Struct]:
    """The struct that a method answers with, from the annotation of the function that makes it."""
    if method.answer is not None:
        return typing.cast(type[msgspec.Struct], typing.get_type_hints(method.answer)["return"])
    assert method.stream is not None
    (pair,) = typing.get_args(typing.get_type_hints(method.stream)["return"])
    return typing.cast(type[msgspec.Struct], typing.get_args(pair)[0])


def optional(field: shapes.Field) -> bool:
    """Whether the field may be absent or null."""
    may_be_null = isinstance(field.type, shapes.UnionType) and field.type.includes_none
    may_be_unset = not field.required and field.default is NODEFAULT and field.default_factory is NODEFAULT
    return may_be_null or may_be_unset


def bare(kind: shapes.Type) -> shapes.Type:
    """The type without its null."""
    if not isinstance(kind, shapes.UnionType):
        return kind
    (only,) = [each for each in kind.types if not isinstance(each, shapes.NoneType)]
    return only


def struct_differences(interface: Any, declared: Any, struct: shapes.StructType, where: str) -> Iterator[str]:
    """Where a struct is not what the file declares."""
    fields = {field.encode_name: field for field in struct.fields}
    if set(declared.fields) != set(fields):
        yield f"{where}: declared {sorted(declared.fields)}, coded {sorted(fields)}"
        return
    for name, kind in declared.fields.items():
        field, here = fields[name], f"{where}.{name}"
        maybe = isinstance(kind, scanner._Maybe)
        if maybe != optional(field):
            yield f"{here}: declared {'optional' if maybe else 'required'}, coded the other way"
        if not maybe and not field.required and struct.cls.__struct_config__.omit_defaults:
            yield f"{here}: always there by the file, left out where it is {field.default!r}"
        yield from type_differences(interface, kind.element_type if maybe else kind, bare(field.type), here)


def type_differences(interface: Any, declared: Any, coded: shapes.Type, where: str) -> Iterator[str]:
    """Where a type is not what the file declares."""
    if isinstance(declared, scanner._CustomType):
        declared = interface.members[declared.name].type
    if isinstance(declared, scanner._Array):
        if isinstance(coded, shapes.ListType | shapes.VarTupleType | shapes.CollectionType):
            yield from type_differences(interface, declared.element_type, coded.item_type, f"{where}[]")
        else:
            yield f"{where}: declared an array, coded {coded}"
    elif isinstance(declared, scanner._Struct):
        if isinstance(coded, shapes.StructType):
            yield from struct_differences(interface, declared, coded, where)
        else:
            yield f"{where}: declared a struct, coded {coded}"
    elif isinstance(declared, scanner._Object):
        if not isinstance(coded, shapes.DictType):
            yield f"{where}: declared an object, coded {coded}"
    elif not isinstance(coded, SCALARS[type(declared)]):
        yield f"{where}: declared {type(declared).__name__}, coded {coded}"


def both_sides(name: str) -> Iterator[str]:
    """Every difference of a method."""
    interface = DECLARED[name.rpartition(".")[0]]
    declared, coded = interface.members[name.rpartition(".")[2]], METHODS[name]
    request, reply = shapes.type_info(coded.request), shapes.type_info(reply_of(coded))
    assert isinstance(request, shapes.StructType)
    assert isinstance(reply, shapes.StructType)
    yield from struct_differences(interface, declared.in_type, request, f"{name}()")
    yield from struct_differences(interface, declared.out_type, reply, f"{name}->")


def test_every_declared_method_is_coded_and_the_reverse() -> None:
    """No method is only in a file, none only in the code."""
    declared = {
        f"{name}.{member.name}"
        for name, interface in DECLARED.items()
        for member in interface.members.values()
        if isinstance(member, scanner._Method)
    }
    assert declared == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_what_its_file_says(name: str) -> None:
    """Names, types and optionality of every parameter and of every field of the reply, nested ones included."""
    assert list(both_sides(name)) == []


@pytest.mark.parametrize("name", METHODS)
def test_requests_refuse_what_they_do_not_know(name: str) -> None:
    """A parameter that is in no file is an error, never ignored."""
    with pytest.raises(msgspec.ValidationError, match="unknown field `surely_not`"):
        msgspec.json.decode(b'{"surely_not":1}', type=METHODS[name].request)


@pytest.mark.parametrize("name", METHODS)
def test_only_methods_that_change_something_take_a_request_id(name: str) -> None:
    """What only reads needs none, and every other method has one."""
    reading = {"List", "Get", "Why", "Events", "Runs", "Wait", "Watch", "Follow", "Status", "Health", "Timer"}
    takes = "requestId" in METHODS[name].request.__struct_encode_fields__
    assert takes is (name.rpartition(".")[2] not in reading)


@pytest.mark.parametrize("name", METHODS)
def test_null_is_the_same_as_absent(name: str) -> None:
    """A client may send null for any optional parameter."""
    fields = shapes.type_info(METHODS[name].request).fields  # type: ignore[attr-defined]
    nulls = {field.encode_name: None for field in fields if not field.required}
    needed = {
        field.encode_name: [] if isinstance(field.type, shapes.ListType) else "x" for field in fields if field.required
    }
    decode = msgspec.json.Decoder(METHODS[name].request).decode
    assert decode(msgspec.json.encode(nulls | needed)) == decode(msgspec.json.encode(needed))


class _Wrong(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    gate: int
    detail: str | None = None
    extra_thing: str = ""


BITES = [
    ("type G (gate: int, detail: ?string, extraThing: string)", "always there by the file"),
    ("type G (gate: string, detail: ?string, extraThing: ?string)", "declared str"),
    ("type G (gate: int, detail: string, extraThing: ?string)", "declared required"),
    ("type G (gate: []int, detail: ?string, extraThing: ?string)", "declared an array"),
    ("type G (gate: int, detail: ?string)", "declared ['detail', 'gate']"),
    ("type G (gate: object, detail: ?string, extraThing: ?string)", "declared an object"),
]


@pytest.mark.parametrize(("text", "difference"), BITES)
def test_the_comparison_bites(text: str, difference: str) -> None:
    """A file that says something else is found out."""
    interface = varlink.Interface(f"interface a.b\n{text}\n")
    struct = shapes.type_info(_Wrong)
    assert isinstance(struct, shapes.StructType)
    found = list(struct_differences(interface, interface.members["G"].type, struct, "G"))
    assert any(difference in each for each in found), found
