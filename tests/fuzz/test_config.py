"""Configuration texts, mutated: accepted, or refused as ConfigInvalid with file, line and key; nothing else, soon."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from questlined.config.load import from_text, load
from questlined.config.settings import SETTINGS
from questlined.config.shape import Config
from questlined.wire.errors import ConfigInvalid
from tests.fuzz.mutate import damaged, text

SEED = int(os.environ.get("FUZZ_SEED", "20263"))
TEXTS = 3_000
SLOWEST_S = 5.0
# A right value for each setting that has no default of its own.
SET = {
    "store.path": '"/tmp/q.sqlite"', "artifacts.dir": '"~/artifacts"', "scheduler.project_concurrency": "4",
    "admin_group": '"adm"', "socket_mode": "0o660", "env.path": '"/usr/bin"', "first_output_timeout": '"1min"',
    "idle_timeout": '"off"', "scheduler.role_concurrency": "{ build = 3 }", "env.set": '{ A = "1", B = "two" }',
    "env.credentials": '{ A = "the-key" }',
}  # fmt: skip
VALUES = (
    "1", "0", "-1", "0.5", "-0.0", "1e400", "nan", "inf", "-inf", "true", '""', '" "', '"x"', "'''a\nb'''",
    '"""a\\\n  b"""', "[]", "{}",
    "[[]]", "[1, 'a']", '["", "{task}"]', '["x", "{tusk}"]', '["x\\u0000"]', '"\\u0000"', "1979-05-27", "07:32:00",
    "1979-05-27T07:32:00Z",
    "0x10", "0o17", "0b1", "0o888", "1_000",
    "9" * 20, "9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000, "0o7" + "7" * 6000, "[" * 300 + "]" * 300,
    "[" * 5000, "[" * 5000 + "]" * 5000, "{a=" * 400 + "1" + "}" * 400,
    '"15min"', '"15 parsecs"', '"1h 30min"', '"off"', '"-5s"', '"1e3s"',
    '"' + "9" * 5000 + 'w"', '"0.' + "0" * 3000 + '1us"', '"' + "1s" * 2000 + '"',
    '"512KiB"', '"' + "9" * 400 + 'T"', '"1.5M"', '"022"', '"999"',
    "18", '"~"', '"~nobody/x"', '"~\u00e4/x"', '"relative"', "{ a = 1, a = 2 }", '{ "" = 1 }', '{ "a b" = "x" }',
    '{ A = 1 }', "{ build = 0 }",
    '"\\ud800"', "@", "= 1", "# nothing",
)  # fmt: skip
KEYS = ("x", "executor", "executors", "executors.build", "lanes", 'lanes."a b"', '""', "a.b.c", "executor.command.x",
        "bounds", "\u00e4",
        "executor." * 400 + "x", '"' + "k" * 3000 + '"', "executors.build.env.set.A",
        "scheduler.role_concurrency.build")  # fmt: skip
HEADS = (
    "[executor]",
    "[executors.build]",
    "[executors]",
    "[lanes.web]",
    "[[lanes]]",
    "[bounds]",
    "[x]",
    "[",
    "[]",
    "[executor.env]",
    "[a.b.c.d]",
)


def toml(found: object) -> str:
    """A default as a file writes it."""
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, str):
        return f'"{found}"'
    if isinstance(found, list | tuple):
        return f"[{', '.join(toml(each) for each in found)}]"
    return "{}" if isinstance(found, dict) else str(found)


def right() -> list[str]:
    """A line for every setting, each with a value that it takes."""
    lines = []
    for row in SETTINGS:
        given = next((line for key, line in SET.items() if row.key.endswith(key)), None)
        lines.append(f"{row.key.replace('*', 'build')} = {given or toml(row.default)}")
    return lines


def mutated(random: Random, lines: list[str]) -> str:
    """Some of the lines, with something wrong in one to three of them."""
    some = random.sample(lines, random.randrange(1, 12))
    for _ in range(random.choice((1, 1, 2, 3))):
        at, way = random.randrange(len(some)), random.randrange(8)
        key, _, found = some[at].partition(" = ")
        if way < 3:
            some[at] = f"{key} = {random.choice(VALUES)}"
        elif way == 3:
            some[at] = f"{random.choice(KEYS)} = {found or 1}"
        elif way == 4:
            some.insert(at, random.choice((*HEADS, some[at], "", "# \u202e", text(random))))
        elif way == 5:
            some[at] = f"{key}{random.choice('xs_.-1')} = {found}"
        else:
            data = damaged(random, some[at].encode(), random.choice(lines).encode())
            some[at] = data.decode("utf-8", "replace")
    return random.choice(("\n", "\n", "\r\n")).join(some)


def check(written: str, said: str) -> bool:
    """Whether it is accepted. Any other end than the two is a failure that shows the text."""
    start = time.monotonic()
    try:
        accepted: Config | None = from_text(written, "q.toml")
        refused = None
    except ConfigInvalid as error:
        accepted, refused = None, error
    except Exception as error:
        raise AssertionError(f"{error!r:.300}\n{said}") from error
    assert time.monotonic() - start < SLOWEST_S, said
    if refused is not None:
        _in_words(refused, written.count("\n") + 1, f"{refused.message[:500]}\n{said}")
    return accepted is not None


def _in_words(refused: ConfigInvalid, lines: int, said: str) -> None:
    found = refused.details
    assert found["file"] == "q.toml", said
    line = found.get("line")
    assert isinstance(line, int), said
    assert 1 <= line <= lines, said
    assert refused.message.startswith(f"q.toml:{found['line']}: "), said
    assert found.get("key") or "not TOML" in refused.message or "cannot be read" in refused.message, said
    assert refused.message.rpartition(": ")[2].strip(), f"nothing is said: {said}"
    assert refused.hint, said


def test_every_setting_has_a_right_value_here() -> None:
    """What is mutated is right before."""
    lines = right()
    assert len(lines) == len(SETTINGS)
    assert check("\n".join(lines), "\n".join(lines))


def test_a_mutated_text_is_accepted_or_refused_in_words() -> None:
    """With file, line, key and a hint; never by another exception, never late."""
    lines, accepted = right(), 0
    for number in range(TEXTS):
        random = Random(SEED * 1_000_003 + number)
        written = mutated(random, lines)
        accepted += check(written, f"FUZZ_SEED={SEED}, number {number}:\n{written[:1000]}")
    assert 100 < accepted < TEXTS - 100


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.key)
def test_each_setting_takes_or_refuses_every_kind_of_value(row: object) -> None:
    """All values with all settings: each by its name in a table of its own, too."""
    key = row.key.replace("*", "build")  # type: ignore[attr-defined]
    table, _, last = key.rpartition(".")
    for found in VALUES:
        check(f"# first\n{key} = {found}\n", f"{key} = {found[:300]}")
        if table:
            check(f"[{table}]\n{last} = {found}\n", f"[{table}]\n{last} = {found[:300]}")


@pytest.mark.parametrize("number", range(40))
def test_bytes_of_a_file_that_are_no_text_are_refused(tmp_path: Path, number: int) -> None:
    """With the line on which they stand."""
    random = Random(SEED + number)
    before = "\n" * random.randrange(5)
    file = tmp_path / "q.toml"
    file.write_bytes(
        before.encode() + b'admin_group = "' + random.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88")) + b'"\n'
    )
    with pytest.raises(ConfigInvalid, match="not UTF-8") as caught:
        load([file])
    assert caught.value.details["line"] == len(before) + 1


def test_a_wrong_key_behind_a_long_value_is_found_soon() -> None:
    """Its line, behind ten thousand lines of one value, within the time of the others."""
    for opened, closed, line in (("'''\n", "'''", "x"), ("[\n", "]", '"x",')):
        written = f"executor.env.path = {opened}" + f"{line}\n" * 10_000 + f"{closed}\nmax_attemps = 1\n"
        assert not check(written, written[:200])
