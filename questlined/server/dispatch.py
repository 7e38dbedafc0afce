"""From one frame to its replies: decode strictly, find the method, render answers and errors by their Varlink names."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, nullcontext
from typing import Any, cast

import msgspec

from questlined.operations import views
from questlined.operations.context import Caller, Context, Pending, Reply
from questlined.operations.registry import METHODS, Method
from questlined.wire import interfaces
from questlined.wire.errors import InvalidInput, QuestlineError

log = logging.getLogger(__name__)
URL = "https://varlink.org/"
NAME_SHOWN = 256  # characters of an unknown name that its refusal repeats: a reply has its bound, too
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
    shown = {key: value[:NAME_SHOWN] for key, value in parameters.items()}
    return frame({"error": f"org.varlink.service.{name}", "parameters": shown})


class Begun:
    """A call that was begun before its turn: an error at once, or an answer of the store that comes."""

    def __init__(self, call: Call, pending: Pending[Reply] | None, error: bytes = b"") -> None:
        self.call, self._pending, self._error = call, pending, error
        self._heard = False
        self.unknown = False  # `reply` has found that the reply must be looked up
        self.size = 0  # bytes of its frame

    def done(self) -> bool:
        """Whether the reply can be made."""
        return self._pending is None or self._pending.answer.done()

    def when_done(self, tell: Callable[[asyncio.Future[Any]], None]) -> None:
        """Have `tell` called then, once however often this is asked for."""
        if self._pending is not None and not self._heard:
            self._heard = True
            self._pending.answer.add_done_callback(tell)

    def forget(self) -> None:
        """Nobody waits for the reply any more."""
        if self._pending is not None:
            self._pending.answer.cancel()

    def reply(self, ctx: Context) -> bytes | None:
        """The frame that answers it; None where `replies` must look it up, which begins nothing twice."""
        if self._pending is None:
            return self._error
        try:
            reply = self._pending.reply(self._pending.answer.result())
            self.unknown = reply is None
            return None if reply is None else _fitting(ctx, reply, continues=False)
        except Exception as error:
            return _refused(self.call, error)


def begin(ctx: Context, caller: Caller, call: Call) -> Begun | None:
    """Begin a call before those in front of it are answered, None where it must wait for its turn."""
    method = METHODS.get(call.method)
    if method is None or method.begin is None:
        return None
    try:
        pending = method.begin(ctx, caller, _request(call))
    except Exception as error:
        return Begun(call, None, _refused(call, error))
    return None if pending is None else Begun(call, pending)


async def replies(ctx: Context, caller: Caller, call: Call) -> AsyncGenerator[bytes, None]:
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
        async with aclosing(_answers(ctx, caller, call, method)) as answers:
            async for reply in answers:
                yield reply
    except Exception as error:
        yield _refused(call, error)


def _refused(call: Call, error: Exception) -> bytes:
    """The frame for what a call has raised; a fault of ours is logged."""
    if isinstance(error, QuestlineError):
        return error_frame(error)
    reference = secrets.token_hex(4)
    log.error("%s failed [%s]", call.method, reference, exc_info=error)
    body = {"message": "questlined has a fault", "hint": f"its log names it as {reference}", "reference": reference}
    return frame({"error": "io.questline.Internal", "parameters": body})


async def _answers(ctx: Context, caller: Caller, call: Call, method: Method) -> AsyncGenerator[bytes, None]:
    request = _request(call)
    if method.answer is not None:
        yield _fitting(ctx, await method.answer(ctx, caller, request), continues=False)
        return
    assert method.stream is not None
    stream = cast(AsyncGenerator[tuple[Reply, bool], None], method.stream(ctx, caller, request, call.more))
    with ctx.streaming() if call.more else nullcontext():
        async with aclosing(stream):
            async for reply, last in stream:
                encoded = _fitting(ctx, reply, continues=not last)
                del reply  # the peer may take its time
                yield encoded


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
    rest = {"continues": True} if continues else {}
    body = frame({"parameters": reply, **rest})
    if len(body) > limit:
        body = frame({"parameters": views.shortened(reply), **rest})
    if len(body) <= limit:
        return body
    raise InvalidInput(
        f"the reply has {len(body)} bytes, more than bounds.max_frame_bytes = {limit}",
        hint="ask for fewer at a time, or raise the bound",
        field="limit",
        setting="bounds.max_frame_bytes",
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
