"""qlctl against a daemon whose answers are wrong in every way: it says so in a line, with a documented exit status.

The daemon is a scripted one. Its answers are made from the registry's reply types: a new method is answered, too.
"""

from __future__ import annotations

import json
import os
import signal
import typing
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import inspect as shapes

from qlctl import client as qlctl_client
from qlctl.main import main
from qlctl.table import HANDED_OVER, VERBS
from questlined.core.states import STATES
from questlined.operations.registry import METHODS, Method
from tests.fuzz.mutate import JSON, NUMBERS, bent, damaged, text, value
from tests.unit.qlctl.scripted import Hangup, Scripted

SEED = int(os.environ.get("FUZZ_SEED", "20262"))
REPLIES = 6_000
MISBEHAVING = 6  # answers of a run that are wrong; then the daemon hangs up for good
DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 69, 70, 75, 77, 78, 124, 130, 141, 143}
ID = "q-1a2b3c4d5e6f"
USUAL = {"id": ID, "quest": ID, "questId": ID, "lane": "web", "role": "default", "number": 1, "attempt": 1}
# What is typed after a verb that needs more than its name; several forms where they read other answers.
WORDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "add": (
        ("true",),
        ("true", "--wait"),
        ("true", "--print-id"),
        ("--from-file", "lines"),
        ("--from-file", "lines", "--wait"),
    ),
    "list": ((), ("--all-projects",), ("--limit", "70")),
    "events": ((), (ID,), ("--all-projects", "--limit", "70")),
    "cancel": ((ID,), (ID, "q-2", "--reason", "x")),
    "retry": ((ID,), (ID, "q-2")),
    "wait": ((ID,), (ID, "q-2"), (ID, "--timeout", "0")),
    "pause": ((), ("--all",), ("--reason", "x")),
    "resume": ((), ("--all",)),
    "run": ((), (ID,)),
    "edit": ((ID, "--priority", "1"),),
    "logs": ((ID,), (ID, "--stderr")),
}
BARE = {"health", "version"}
SERVICE = "org.varlink.service."
ERRORS = (
    "io.questline.NotFound",
    "io.questline.Busy",
    f"{SERVICE}MethodNotFound",
    f"{SERVICE}InvalidParameter",
    "a",
    "",
)


def reply_type(method: Method) -> shapes.StructType:
    """What a method answers with."""
    made = method.answer or method.stream
    answer = typing.get_type_hints(made)["return"]
    if method.answer is None:
        answer = typing.get_args(typing.get_args(answer)[0])[0]
    found = shapes.type_info(answer)
    assert isinstance(found, shapes.StructType)
    return found


REPLY_TYPES = {name: reply_type(method) for name, method in METHODS.items()}


def sample(random: Random, kind: shapes.Type, name: str = "") -> Any:  # noqa: PLR0911  one a kind
    """A value of that type that a daemon may well send."""
    if isinstance(kind, shapes.UnionType):
        kinds = [each for each in kind.types if not isinstance(each, shapes.NoneType)]
        return sample(random, kinds[0], name)
    if isinstance(kind, shapes.StructType):
        return {
            each.encode_name: sample(random, each.type, each.encode_name)
            for each in kind.fields
            if each.required or random.random() < 0.5
        }
    if isinstance(kind, shapes.ListType | shapes.VarTupleType | shapes.CollectionType):
        return [sample(random, kind.item_type, name) for _ in range(random.choice((0, 1, 1, 2)))]
    if isinstance(kind, shapes.BoolType):
        return random.random() < 0.5
    if isinstance(kind, shapes.IntType | shapes.FloatType):
        return USUAL.get(name, random.choice((0, 1, 5, 1_790_000_000_000)))
    if isinstance(kind, shapes.StrType):
        if name == "state":
            return random.choice(list(STATES))
        return USUAL.get(name) or random.choice(("text", "two\nlines", text(random)))
    return {"state": "running", "stream": "stdout", "offset": 0, "text": text(random)}


class Misled:
    """Answers as a script that has lost its place: some right, most wrong, some cut, and at last none."""

    def __init__(self, random: Random) -> None:
        self.random, self.left, self.sent = random, MISBEHAVING, list[bytes]()

    def __call__(self, request: JSON) -> Iterator[bytes]:
        self.left -= 1
        if self.left < 0:
            raise Hangup
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            frame = self._frame(request)
            self.sent.append(frame)
            yield frame
        # One whose end is missing, or that says that more will come, is not waited for.
        if not frame.endswith(b"\0") or b"continues" in frame or self.random.random() < 0.4:
            raise Hangup

    def _frame(self, request: JSON) -> bytes:
        random = self.random
        kind = REPLY_TYPES.get(request["method"])
        parameters = (
            sample(random, kind) if kind is not None else {"version": random.choice(("0.1.0", "9", text(random)))}
        )
        body: JSON = {"parameters": parameters}
        if request.get("more") and random.random() < 0.4:
            body["continues"] = True
        way = random.random()
        if way < 0.1:
            body["error"] = random.choice((*ERRORS, text(random)))
            body["parameters"] = random.choice(
                ({"message": text(random), "hint": 5}, {"self": 1, "cls": 2}, {}, parameters)
            )
        if way < 0.2:
            return json.dumps(body).encode() + b"\0"
        if way < 0.7:
            self._spoil(body)
            return json.dumps(body).encode("utf-8", "surrogatepass") + b"\0"
        if way < 0.85:
            return bent(random, {"method": "x", **body}) + b"\0"
        data = json.dumps(body).encode()
        return damaged(random, data, data) + random.choice((b"\0", b"\0", b"\0", b""))

    def _spoil(self, body: JSON) -> None:
        """Something else where one of its values was, at any depth."""
        places: list[tuple[Any, Any]] = [(body, key) for key in body]
        for holder, key in places:
            inner = holder[key]
            if isinstance(inner, dict):
                places += [(inner, each) for each in inner]
            elif isinstance(inner, list):
                places += [(inner, each) for each in range(len(inner))]
        holder, key = self.random.choice(places)
        if self.random.random() < 0.3 and isinstance(holder, dict):
            del holder[key]
        else:
            holder[key] = self.random.choice(
                (value(self.random), self.random.choice(NUMBERS), None, "\ud800", 10**400, [[]], {"a": None}, -1.5e308)
            )


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where commands are typed; a lost daemon is not waited for, and the handler of SIGTERM is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUESTLINED_SOCKET", str(tmp_path / "s.sock"))
    for name in ("PATIENCE_S", "FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(qlctl_client, name, 0.0)
    (tmp_path / "lines").write_text('{"task":"a","name":"a"}\n{"task":"b","dependsOn":["a"]}\n')
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def typed(random: Random) -> list[str]:
    """A command line."""
    verb = random.choice([verb for verb in VERBS if verb != "help" and verb not in HANDED_OVER])
    words = random.choice(WORDS.get(verb, ((),) if verb in BARE else ((ID,),)))
    return [verb, *words, *random.choice(((), ("--json",)))]


def is_json(line: str) -> bool:
    """Whether it is a JSON value."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_a_wrong_answer_is_told_in_a_line_and_a_documented_status(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a traceback, never an endless loop; with --json stdout is JSON, one value a line, or empty."""
    statuses: dict[int, int] = {}
    service = Scripted(desk / "s.sock", lambda _request: iter(()))
    try:
        for number in range(REPLIES // 2):
            random = Random(SEED * 1_000_003 + number)
            argv, misled = typed(random), Misled(random)
            service.answer = misled
            status = main(argv)
            out, err = capsys.readouterr()
            said = (
                f"FUZZ_SEED={SEED}, number {number}, {argv}: {status}\n{out[-500:]}\n{err[-3000:]}\nafter {misled.sent}"
            )
            assert status in DOCUMENTED, said
            assert "Traceback" not in err, said
            assert status == 0 or err or out, said
            # logs writes its one value as it comes: a stream that fails leaves it cut
            if "--json" in argv and (argv[0] != "logs" or status in (0, 1)):
                assert all(map(is_json, filter(None, out.split("\n")))), said
            statuses[status] = statuses.get(status, 0) + 1
    finally:
        service.stop()
    assert statuses.keys() >= {0, 1, 69, 70, 75}, statuses
