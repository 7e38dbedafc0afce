"""JSON by _json's parts says what the json package says."""

from __future__ import annotations

import json
import math

import pytest

from qlctl import codec

VALUES: list[object] = [
    None,
    True,
    0,
    -(2**53),
    1.5,
    "",
    'a"\\/\n\t\x00\x7f\u2028ä€😀',
    [],
    {},
    {"a": [1, {"b": None}], "": [[]]},
]


@pytest.mark.parametrize("make", [codec._fast, codec._plain])
@pytest.mark.parametrize("value", VALUES)
def test_both_ways_agree_with_json(make: object, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    encode, scan = make()  # type: ignore[operator]
    monkeypatch.setattr(codec, "_encode", encode)
    monkeypatch.setattr(codec, "_scan", scan)
    assert json.loads(codec.encode(value)) == value
    assert codec.decode(json.dumps(value, indent=1) + "\n") == value
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("make", [codec._fast, codec._plain])
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "{",
        '{"a":}',
        "[1,]",
        "1 2",
        "NaN",
        "[Infinity]",
        '"a\nb"',
        '"\\x"',
        "[" * 100_000,
        "9" * 5000,
        "'a'",
    ],
)
def test_rubbish_is_malformed(make: object, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_scan", make()[1])  # type: ignore[operator]
    with pytest.raises(codec.Malformed):
        codec.decode(text)


def test_what_json_has_no_word_for_is_refused() -> None:
    for value in (b"bytes", {1, 2}, math.nan):
        with pytest.raises((TypeError, ValueError)):
            codec.encode(value)
