"""Mutations of bytes and of JSON: what faults, strangers and old programs do to a frame. All chance comes in."""

from __future__ import annotations

import json
from random import Random
from typing import Any

JSON = dict[str, Any]
FRAME_MAX = 64 * 1024  # what the daemons under test allow

WORDS = (
    "", " ", "\n", "a", "-", "--", "-x", "'", '"', "\\", "%s", "%", "{}", "{task}", "{task_file}", "$(id)", "`id`",
    "a;b",
    "../..", "/", "//", "/tmp/../", "~", "*", "q-", "q-0", "q-000000000000", "q-000000000000/1", "/1", "1.1", "0.0",
    "1.",
    "0", "-1", "1e9", "9" * 18, "9" * 40, "null", "true", "NaN", "queued", "done", "lost", "stdout", "\x00",
    "a\x00b", "\x01\x02",
    "\x1b[2J", "\x7f", "\u0085", "\u2028", "\u202e", "\ufeff", "\uffff", "\ufffd", "\U0010ffff", "e\u0301",
    "\u0645\u0631\u062d\u0628\u0627",
    "\U0001f469\u200d\U0001f4bb", "ﬀ", "İ", "ß", "x" * 65, "x" * 201, "ä" * 3000, "x" * 5000,
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 3, 7, 10, 60_000, 255, 256, 1000, 1001, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63,
    2**64, -(2**31), -(2**53), -(2**63), -(2**63) - 1, -(2**64), 10**15, 10**16,
)  # fmt: skip
# Pieces of JSON that no encoder makes.
FRAGMENTS = (
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-0", b"-0.0", b"01", b"+1", b"1.", b".5", b"0x10", b"1e",
    b"9" * 400, b"9" * 5000,
    b"-" + b"9" * 400, b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\u0041"', b'"\\ud83d\\ude00"', b'"\\u0000"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'"\xf4\x90\x80\x80"', b'"\t"', b'"\\x"', b'"', b"'a'", b"tru", b"nul", b"{",
    b"[", b"}", b"]", b"",
    b"[" * 200, b'{"a":' * 200, b"[" * 600 + b"]" * 600, b'{"a":' * 600 + b"1" + b"}" * 600, b"[" * 3000, b"/* */1",
    b"1,",
    b'"' + b"\\u0041" * 50 + b'"', b"\xef\xbb\xbf1", b"1 1",
)  # fmt: skip


def text(random: Random) -> str:
    """A text that somebody may send: one of the strange ones, several of them, or characters from anywhere."""
    way = random.random()
    if way < 0.8:
        return random.choice(WORDS)
    if way < 0.95:
        return random.choice(WORDS) + random.choice(WORDS)
    return "".join(chr(_code_point(random)) for _ in range(random.randrange(1, 20)))


def _code_point(random: Random) -> int:
    point = random.randrange(random.choice((0x80, 0x800, 0x10000, 0x110000)))
    return point if not 0xD800 <= point < 0xE000 else 0x20AC


def value(random: Random, depth: int = 0) -> Any:
    """Any JSON value."""
    kind = random.randrange(9 if depth < 3 else 7)
    if kind < 2:
        return text(random)
    if kind < 4:
        return random.choice(NUMBERS)
    if kind < 7:
        return random.choice((None, True, False, 1.5, -0.0, 1e300, [], {}))
    if kind == 7:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {text(random): value(random, depth + 1) for _ in range(random.randrange(4))}


def encoded(body: JSON) -> bytes:
    """A frame without its NUL. Characters stand as they are, not as escapes."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def bent(random: Random, body: JSON) -> bytes:
    """The call with one to three of its parts wrong: another type, an unknown, doubled or missing key, a fragment."""
    parameters = dict(body["parameters"])
    changed = {**body, "parameters": parameters}
    doubled: list[tuple[bytes, bytes]] = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        way = random.randrange(10)
        key = random.choice(list(parameters)) if parameters else "x"
        if way < 4:
            parameters[key] = value(random)
        elif way == 4:
            parameters.pop(key, None)
        elif way == 5:
            parameters[random.choice(("id_", "Task", "limits", "requestID", "", text(random)))] = value(random)
        elif way == 6:
            doubled.append((json.dumps(key).encode(), json.dumps(value(random), ensure_ascii=False).encode()))
        elif way == 7:
            doubled.append((json.dumps(key).encode(), random.choice(FRAGMENTS)))
        elif way == 8:
            changed[random.choice(("more", "oneway", "upgrade", "method", "parameters", "continues", "x"))] = value(
                random
            )
        else:
            changed["method"] = renamed(random, body["method"])
    data = encoded(changed)
    for name, fragment in doubled:
        data = data.replace(b'"parameters":{', b'"parameters":{' + name + b":" + fragment + b",", 1).replace(
            b",}", b"}", 1
        )
    return data


def renamed(random: Random, method: str) -> str:
    """A method's name that is nearly one."""
    interface, _, member = method.rpartition(".")
    return random.choice(
        (f"{interface}.{member}s", f"{interface}.{member.lower()}", member, f"{interface}.", f".{member}", interface,
         f"{interface}..{member}", f"org.varlink.service.{member}", f"io.questline.Nothing.{member}",
         f"{interface}.{text(random)}",
         text(random), f"{method}\u0301")
    )  # fmt: skip


def damaged(random: Random, data: bytes, other: bytes) -> bytes:
    """The bytes after one to four faults: flipped bits, cut, copied, spliced with another frame's."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(data) + 1)
        to = min(len(data), at + random.choice((1, 1, 2, 8, 40)))
        way = random.randrange(9)
        if way < 3 and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
        elif way == 3:
            data = data[:at]
        elif way == 4:
            data = data[:at] + data[to:]
        elif way == 5:
            data = data[:to] + data[at:]
        elif way == 6:
            data = data[:at] + other[random.randrange(len(other) + 1) :]
        elif way == 7:
            data = data[:at] + random.choice(FRAGMENTS) + data[to:]
        else:
            data = data[:at] + random.randbytes(random.choice((1, 2, 4, 16))) + data[at:]
    return data


def junk(random: Random) -> bytes:  # noqa: PLR0911  one a way
    """Bytes that never were a call."""
    way = random.randrange(8)
    if way == 0:
        return b""
    if way == 1:
        return random.choice(FRAGMENTS)
    if way == 2:
        return json.dumps(value(random)).encode()
    if way == 3:
        return random.randbytes(random.randrange(1, 64)).replace(b"\0", b"\1")
    if way == 4:
        return random.choice(
            (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02", b'{"jsonrpc":"2.0","method":"a","id":1}', b"l\1\0\1")
        )
    if way == 5:
        return random.choice((b"[", b'{"a":', b'{"method":', b'[{"a":[')) * random.choice((2, 50, 1000, 4000))
    if way == 6:
        return b" " * random.randrange(40) + b"{}"
    return b'{"method":' + random.choice(FRAGMENTS) + b"}"
