"""The tree of errors and the interface file that clients read are one."""

from __future__ import annotations

import re

import pytest
import varlink
from varlink import scanner

from questlined.wire import errors, interfaces
from questlined.wire.errors import BY_NAME, PREFIX, Internal, InvalidInput, QuestlineError, from_wire

DECLARED = {
    PREFIX + member.name: member.type.fields
    for member in varlink.Interface(interfaces.description("io.questline")).members.values()
}
EXITS = {
    "InvalidInput": 2,
    "NotFound": 1,
    "Ambiguous": 2,
    "WrongState": 1,
    "StaleLease": 1,
    "Conflict": 1,
    "DedupeConflict": 1,
    "Untrusted": 1,
    "DependencyInvalid": 2,
    "NothingToClaim": 3,
    "Duplicate": 4,
    "Barred": 5,
    "Held": 6,
    "LimitReached": 75,
    "Busy": 75,
    "StoreFull": 75,
    "Unavailable": 75,
    "PermissionDenied": 77,
    "ConfigInvalid": 78,
    "Internal": 70,
    "DaemonUnreachable": 69,
}
SENT = sorted(name for name in BY_NAME if not name.endswith(".DaemonUnreachable"))


def test_every_error_is_declared_but_the_one_that_is_never_sent() -> None:
    """And none is declared that the code has not."""
    assert set(DECLARED) == set(SENT)


def test_exit_statuses_are_the_documented_ones() -> None:
    """A script can rely on them."""
    assert {name.removeprefix(PREFIX): cls.exit_status for name, cls in BY_NAME.items()} == EXITS


def test_the_module_draws_every_error_with_its_exit_status() -> None:
    """The tree in the docstring is kept true."""
    drawn = dict(re.findall(r"([A-Z][A-Za-z]+) (\d+)", errors.__doc__ or ""))
    assert {name: int(status) for name, status in drawn.items()} == EXITS


@pytest.mark.parametrize("name", SENT)
def test_parameters_are_those_of_the_file(name: str) -> None:
    """Message and hint are always there, the others may be null; none is missing."""
    assert list(BY_NAME[name]("m").parameters()) == list(DECLARED[name])
    optional = [key for key, kind in DECLARED[name].items() if isinstance(kind, scanner._Maybe)]
    assert tuple(optional) == BY_NAME[name].fields


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_an_error_comes_back_from_the_wire_as_it_was(name: str) -> None:
    """Class, message, hint and details."""
    cls = BY_NAME[name]
    sent = cls("it is so", hint="do that", **dict.fromkeys(cls.fields, "x"))
    back = from_wire(sent.name, sent.parameters())
    assert type(back) is cls
    assert (back.message, back.hint, back.details) == (sent.message, sent.hint, sent.details)


def test_an_error_of_a_later_version_is_internal_and_keeps_what_it_said() -> None:
    """A client that does not know a name still shows the message."""
    back = from_wire("io.questline.Newcomer", {"message": "m", "hint": "h", "more": 1})
    assert type(back) is Internal
    assert (back.message, back.hint) == ("m", "h")


def test_an_error_of_varlink_itself_names_its_parameters() -> None:
    """Those have no message."""
    back = from_wire("org.varlink.service.MethodNotFound", {"method": "a.B"})
    assert back.message == "org.varlink.service.MethodNotFound(method=a.B)"
    assert "version" in back.hint


def test_details_that_an_error_has_not_never_reach_the_wire() -> None:
    """Its parameters are those of the file, whatever else was said."""
    error = InvalidInput("m", field="task", password="hunter2")
    assert error.parameters() == {"message": "m", "hint": "", "field": "task", "setting": None}


def test_an_error_prints_as_its_message() -> None:
    """In logs and tracebacks."""
    assert str(QuestlineError("it is so", hint="h")) == "it is so"


def test_details_may_have_any_name() -> None:
    """A daemon's error is shown, whatever its parameters are called."""
    back = from_wire("io.questline.NotFound", {"message": "m", "hint": "h", "self": 1, "cls": 2, "id": "q-1"})
    assert (back.message, back.hint, back.details) == ("m", "h", {"self": 1, "cls": 2, "id": "q-1"})
