"""JSON for the wire, without what the json package brings along.

`import json` loads re and enum, which take as long as the interpreter's own start. The work in json is done by C
functions of the module _json; here they are called as json.decoder and json.encoder call them. Where an interpreter
has them not, or wants other arguments, json itself is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SPACE = " \t\n\r"


class Malformed(ValueError):
    """A text that is no JSON."""


def _refuse(value: object) -> object:
    raise TypeError(f"{value!r} has no place in JSON")


def _no_constant(name: str) -> float:
    raise Malformed(f"{name} is no JSON")


class _Strict:
    """What the C scanner reads from its decoder: strict JSON, plain types, no NaN."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_no_constant)
    memo: dict[str, str] = {}


def _fast() -> tuple[Callable[[object], str], Callable[[str, int], tuple[Any, int]]]:
    """Encoder and scanner made of _json's parts. Raises ImportError, AttributeError or TypeError where they differ."""
    import _json

    encoder: Any = _json.make_encoder(None, _refuse, _json.encode_basestring, None, ":", ",", False, False, False)
    scanner: Any = _json.make_scanner(_Strict())  # type: ignore[arg-type]
    encoder({}, 0)  # a first use, so that other arguments show here and not in the middle of a call
    return (lambda value: "".join(encoder(value, 0))), scanner


def _plain() -> tuple[Callable[[object], str], Callable[[str, int], tuple[Any, int]]]:
    """The same two from json, at its price."""
    import json

    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return encoder.encode, json.JSONDecoder(parse_constant=_no_constant).raw_decode


try:
    _encode, _scan = _fast()
except (ImportError, AttributeError, TypeError):
    _encode, _scan = _plain()


def encode(value: object) -> str:
    """The compact JSON text of a value of plain types. Lone surrogates come through: encoding to UTF-8 refuses them."""
    return _encode(value)


def decode(text: str) -> Any:
    """The value of a JSON text. Raises Malformed for anything else, deep nesting and endless numbers included."""
    start = len(text) - len(text.lstrip(SPACE))
    try:
        value, end = _scan(text, start)
    except StopIteration:
        raise Malformed("no JSON value where one should be") from None
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None
    if text[end:].strip(SPACE):
        raise Malformed("something follows the JSON value")
    return value
