"""From one frame to its replies: decode strictly, find the method, render answers and errors by their Varlink names."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from questlined.operations import views
from questlined.operations.context import Caller, Context, Reply
from questlined.operations.registry import METHODS, Method
from questlined.wire import interfaces
from questlined.wire.errors import InvalidInput, QuestlineError

log = logging.getLogger(__name__)
URL = "https://varlink.org/"
_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"unknown field `(.*?)`")
_MISSING = re.compile(r"missing required field `(.*?)`")


class Call(msgspec.Struct, frozen=True):
    """A Varlink call."""

    method: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    more: bool = False
    oneway: bool = False
    upgrade: bool = False


class Rubbish(Exception):
    """A frame that is no Varlink call; the connection cannot be trusted any further."""

    def __init__(self, message: str) -> None:
        hint = "send Varlink calls: JSON objects in UTF-8 without lone surrogates, each ended by NUL"
        self.reply = error_frame(InvalidInput(message, hint=hint, field="frame"))


_calls = msgspec.json.Decoder(Call)
_encoder = msgspec.json.Encoder()
_decoders = {name: msgspec.json.Decoder(method.request) for name, method in METHODS.items()}


def decode(frame: bytes) -> Call:
    """The call in a frame. Raises Rubbish."""
    try:
        return _calls.decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Rubbish(f"this is no Varlink call: {error}") from None


def frame(body: dict[str, Any]) -> bytes:
    """A reply, with its NUL."""
    return _encoder.encode(body) + b"\0"


def error_frame(error: QuestlineError) -> bytes:
    """An error reply."""
    return frame({"error": error.name, "parameters": error.parameters()})


def _service_error(name: str, **parameters: str) -> bytes:
    return frame({"error": f"org.varlink.service.{name}", "parameters": parameters})


async def replies(ctx: Context, caller: Caller, call: Call) -> AsyncIterator[bytes]:
    """The frames that answer a call; with `more` all but the last say `continues`. Raises nothing but cancellation."""
    if call.method.startswith("org.varlink.service."):
        yield _service(ctx, call)
        return
    method = METHODS.get(call.method)
    if method is None:
        known = call.method.rpartition(".")[0]
        wrong = {"method": call.method} if known in interfaces.NAMES else {"interface": known}
        yield _service_error("MethodNotFound" if "method" in wrong else "InterfaceNotFound", **wrong)
        return
    try:
        async for reply in _answers(ctx, caller, call, method):
            yield reply
    except QuestlineError as error:
        yield error_frame(error)
    except Exception as error:
        reference = secrets.token_hex(4)
        log.error("%s failed [%s]", call.method, reference, exc_info=error)
        body = {"message": "questlined has a fault", "hint": f"its log names it as {reference}", "reference": reference}
        yield frame({"error": "io.questline.Internal", "parameters": body})


async def _answers(ctx: Context, caller: Caller, call: Call, method: Method) -> AsyncIterator[bytes]:
    request = _request(call)
    if method.answer is not None:
        yield _fitting(ctx, await method.answer(ctx, caller, request), continues=False)
        return
    assert method.stream is not None
    async for reply, last in method.stream(ctx, caller, request, call.more):
        yield _fitting(ctx, reply, continues=not last)


def _request(call: Call) -> Any:
    """The typed parameters. Raises InvalidInput naming the path."""
    raw = bytes(call.parameters)
    try:
        return _decoders[call.method].decode(b"{}" if raw in (b"", b"null") else raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _invalid(str(error)) from None


def _invalid(text: str) -> InvalidInput:
    match = _PATH.match(text)
    what, path = (match["what"], match["path"] or "") if match else (text, "")
    named = _UNKNOWN.search(what) or _MISSING.search(what)
    field = ".".join(part for part in (path, named[1] if named else "") if part) or "parameters"
    hint = "see the interface: GetInterfaceDescription" if not _UNKNOWN.search(what) else "is the daemon older?"
    return InvalidInput(f"{field}: {what}", hint=hint, field=field)


def _fitting(ctx: Context, reply: Reply, *, continues: bool) -> bytes:
    limit = ctx.config.bounds.max_frame_bytes
    for shown in (reply, views.shortened(reply)):
        body = frame({"parameters": shown, "continues": True} if continues else {"parameters": shown})
        if len(body) <= limit:
            return body
    return error_frame(
        InvalidInput(
            f"the reply has {len(body)} bytes, more than bounds.max_frame_bytes = {limit}",
            hint="ask for fewer at a time",
            field="limit",
            setting="bounds.max_frame_bytes",
        )
    )


def _service(ctx: Context, call: Call) -> bytes:
    """org.varlink.service: who we are and what we speak."""
    if call.method == "org.varlink.service.GetInfo":
        info = {"vendor": "questline", "product": "questlined", "version": ctx.daemon.version, "url": URL}
        return frame({"parameters": info | {"interfaces": interfaces.NAMES}})
    if call.method != "org.varlink.service.GetInterfaceDescription":
        return _service_error("MethodNotFound", method=call.method)
    try:
        name = msgspec.json.decode(bytes(call.parameters), type=dict[str, str])["interface"]
    except (msgspec.MsgspecError, KeyError):
        return _service_error("InvalidParameter", parameter="interface")
    if name not in interfaces.NAMES:
        return _service_error("InterfaceNotFound", interface=name)
    return frame({"parameters": {"description": interfaces.description(name)}})
