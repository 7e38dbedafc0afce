"""Calls made from the typed requests of the registry: a method that is added there is fuzzed from then on."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec import inspect as shapes

from questlined.core.states import STATES
from questlined.operations.registry import METHODS
from tests.fuzz.mutate import JSON, NUMBERS, text, value

REMEMBERED = 64
PROJECTS = ("one", "two", "three")
LANES, ROLES = ("web", "db", "docs"), ("default", "build", "review")
NAMES = list(METHODS)
RECURRING = {
    "cron": ("0 2 * * *", "*/5 * * * mon-fri", "0 0 1,15 * sun", "0 0 31 2 *", "@daily"),
    "timezone": ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Nowhere"),
    "catchUp": ("one", "all", "skip", "none"),
}


def _bare(kind: shapes.Type) -> shapes.Type:
    """The type without its null."""
    if not isinstance(kind, shapes.UnionType):
        return kind
    return next(each for each in kind.types if not isinstance(each, shapes.NoneType))


def _fields(kind: shapes.Type) -> list[Field]:
    assert isinstance(kind, shapes.StructType)
    return [(field.encode_name, field.required, _bare(field.type)) for field in kind.fields]


Field = tuple[str, bool, shapes.Type]
# name, whether it must be there, type
FIELDS: dict[str, list[Field]] = {name: _fields(shapes.type_info(method.request)) for name, method in METHODS.items()}
KNOWN = {name: {field[0] for field in fields} for name, fields in FIELDS.items()}
SHARES = {"requestId": 0.1, "all": 0.02, "allProjects": 0.3, "path": 0.1, "waitMs": 0.02, "lane": 0.1, "role": 0.1}
USUAL_SHARE = 0.25


@dataclass(slots=True)
class Memory:
    """What replies have told lately, to be asked for again: the run's sequence of replies decides it."""

    directory: str
    quests: deque[str] = field(default_factory=lambda: deque(["q-000000000000"], REMEMBERED))
    attempts: deque[str] = field(default_factory=lambda: deque(["q-000000000000/1"], REMEMBERED))
    cursors: deque[str] = field(default_factory=lambda: deque(["1"], REMEMBERED))

    def learn(self, parameters: JSON) -> None:
        """Keep ids and cursors of a reply."""
        if isinstance(quest := parameters.get("quest"), dict):
            self.quests.append(quest["id"])
        for added in parameters.get("added") or ():
            self.quests.append(added["id"])
        if isinstance(rule := parameters.get("recurrence"), dict):
            self.quests.append(rule["id"])
        if isinstance(run := parameters.get("run"), dict):
            self.attempts.append(run["id"])
        for key in ("next", "last"):
            if parameters.get(key) is not None:
                self.cursors.append(str(parameters[key]))
        for record in parameters.get("records") or ():
            if record.get("id"):
                self.cursors.append(record["id"])


class Caller:
    """Makes calls. All chance and all ids come in."""

    def __init__(self, random: Random, memory: Memory) -> None:
        self.random, self.memory = random, memory

    def call(self, name: str) -> JSON:
        """A call of that method, mostly one that its checks let through."""
        parameters: JSON = {}
        for key, required, kind in FIELDS[name]:
            if required or self.random.random() < SHARES.get(key, USUAL_SHARE):
                parameters[key] = self._value(key, kind)
        return {"method": name, "parameters": self._placed(name, parameters)}

    def strange(self, name: str) -> JSON:
        """A call of that method with values of the right types that are seldom right."""
        call = self.call(name)
        for key, _, kind in FIELDS[name]:
            if self.random.random() < 0.4:
                call["parameters"][key] = self._strange(kind)
        return call

    def _placed(self, name: str, parameters: JSON) -> JSON:
        """With one place where the method takes one: most calls need it."""
        known = KNOWN[name]
        if "project" in known and not parameters.keys() & {"project", "directory"}:
            parameters["project"] = self.random.choice(PROJECTS)
        if {"attempt", "run"} <= known and not parameters.get("run"):
            parameters["attempt"] = self.random.choice(self.memory.attempts)
        return parameters

    def _value(self, name: str, kind: shapes.Type) -> Any:
        if isinstance(kind, shapes.StrType):
            return self._text(name)
        if isinstance(kind, shapes.BoolType):
            return self.random.random() < (0.7 if name == "external" else 0.5)
        if isinstance(kind, shapes.IntType):
            return self._number(name)
        if isinstance(kind, shapes.ListType):
            return [self._value(name, kind.item_type) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        if isinstance(kind, shapes.StructType):
            return {
                name: self._value(name, inner)
                for name, required, inner in _fields(kind)
                if required or self.random.random() < 0.2
            }
        return value(self.random)

    def _text(self, name: str) -> str:  # noqa: PLR0911  one line a name
        random, memory = self.random, self.memory
        if name in ("id", "dependsOn"):
            known = random.choice(memory.quests)
            return known if random.random() < 0.9 else known[: random.randrange(3, 14)]
        if name == "attempt":
            return random.choice(memory.attempts)
        if name == "streams":
            return random.choice(("stdout", "stderr"))
        if name in ("cursor", "after"):
            return random.choice(
                (random.choice(memory.cursors), random.choice(memory.quests), random.choice(memory.attempts))
            )
        if name == "project":
            return random.choice((*PROJECTS, memory.directory))
        if name == "directory":
            return random.choice((memory.directory, "/"))
        if name == "lane":
            return random.choice(LANES)
        if name == "role":
            return random.choice(ROLES)
        if name == "states":
            return random.choice(list(STATES))
        if name == "requestId":
            return f"r{random.randrange(200)}"
        if name == "path":
            return "/usr/bin:/bin"
        if name in RECURRING:
            return random.choice(RECURRING[name])
        return random.choice(("write the tests", "true", "ok", "stdout", text(random)))

    def _number(self, name: str) -> int:
        random = self.random
        if name.endswith("waitMs") or (name == "timeoutMs" and random.random() < 0.7):
            return random.randrange(2)
        if name == "leaseMs":
            return random.choice((1000, 60_000))
        if name in ("limit", "attempt", "run", "maxAttempts"):
            return random.choice((1, 2, 3, 10))
        if name == "after" and self.memory.cursors[-1].isdigit():
            return int(self.memory.cursors[-1])
        return random.choice((0, 1, 5, 1_800_000_000_000))

    def _strange(self, kind: shapes.Type) -> Any:
        if isinstance(kind, shapes.StrType):
            return text(self.random)
        if isinstance(kind, shapes.IntType):
            return self.random.choice(NUMBERS)
        if isinstance(kind, shapes.BoolType):
            return self.random.random() < 0.5
        if isinstance(kind, shapes.ListType):
            return [self._strange(kind.item_type) for _ in range(self.random.choice((0, 1, 2, 60)))]
        if isinstance(kind, shapes.StructType):
            return {name: self._strange(inner) for name, _, inner in _fields(kind) if self.random.random() < 0.5}
        return value(self.random)
