"""The four dialects in which agents talk to a model. Each answers with text or one tool call, whole or as a stream."""

from __future__ import annotations

import itertools
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.agents.api.script import Body

Call = tuple[str, Body]
BYTES_A_TOKEN = 4
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Refusal:
    """An error to be told: an HTTP status; whether it is a spent plan or quota; when it is over, epoch seconds."""

    status: int
    text: str
    resets_at: int
    kind: str = "error"  # or plan, quota


@dataclass(frozen=True)
class Reply:
    """A status, a JSON value, and headers."""

    status: int
    value: Body
    headers: dict[str, str]


def sse(value: Body, event: str | None = None) -> bytes:
    """One server-sent event; Gemini's client takes no event line."""
    return (f"event: {event}\n" if event else "").encode() + f"data: {json.dumps(value)}\n\n".encode()


def typed(kind: str, **more: object) -> bytes:
    """An event whose data tells its type, too."""
    return sse({"type": kind, **more}, kind)


class Api(ABC):
    """A request in one dialect, and the ways to answer it. `spoken` is the number of tokens of the answer."""

    def __init__(self, body: Body, path: str) -> None:
        self.number = next(_numbers)
        self.model = body.get("model") or re.sub(r".*models/|:.*", "", path)
        self.streams = bool(body.get("stream")) or ":stream" in path
        self.heard = len(json.dumps(body)) // BYTES_A_TOKEN
        self.spoken = 0

    @abstractmethod
    def whole(self, text: str, call: Call | None) -> Body:
        """The answer in one piece."""

    @abstractmethod
    def stream(self, chunks: Iterable[str], call: Call | None) -> Iterator[bytes]:
        """The answer's events, as the chunks come."""

    @abstractmethod
    def refuse(self, refusal: Refusal) -> Reply:
        """An error as the vendor tells it."""

    def broken(self) -> bytes:
        """The event that ends a stream with an error."""
        value = self.refuse(Refusal(529, "Overloaded", 0)).value
        return sse(value, value.get("type"))

    def _usage(self, heard: str, spoken: str, total: str = "") -> Body:
        usage = {heard: self.heard, spoken: self.spoken}
        return usage | ({total: self.heard + self.spoken} if total else {})


class Messages(Api):
    """Anthropic's."""

    _NAMES = {400: "invalid_request", 401: "authentication", 429: "rate_limit", 529: "overloaded"}

    def whole(self, text: str, call: Call | None) -> Body:
        block: Body = {"type": "text", "text": text}
        if call:
            block = {"type": "tool_use", "id": f"toolu_{self.number:08}", "name": call[0], "input": call[1]}
        cached = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        return {
            "id": f"msg_mock{self.number:06}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [block],
            "stop_reason": "tool_use" if call else "end_turn",
            "usage": self._usage("input_tokens", "output_tokens") | cached,
        }

    def stream(self, chunks: Iterable[str], call: Call | None) -> Iterator[bytes]:
        message = self.whole("", call)
        block = message["content"][0] | ({"input": {}} if call else {})
        yield typed("message_start", message=message | {"content": [], "stop_reason": None})
        yield typed("content_block_start", index=0, content_block=block)
        if call:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
            yield typed("content_block_delta", index=0, delta=delta)
        for text in chunks:
            yield typed("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        yield typed("content_block_stop", index=0)
        yield typed("message_delta", usage=message["usage"], delta={"stop_reason": message["stop_reason"]})
        yield typed("message_stop")

    def refuse(self, refusal: Refusal) -> Reply:
        status, text, headers = refusal.status, refusal.text, {"request-id": f"req_mock{self.number}"}
        if refusal.kind == "plan":  # what the CLI reads of a subscriber's limit
            plan = {"status": "rejected", "reset": str(refusal.resets_at), "representative-claim": "five_hour"}
            headers |= {f"anthropic-ratelimit-unified-{key}": value for key, value in plan.items()}
        elif refusal.kind == "quota":
            status, text = 400, "Your credit balance is too low to access the Anthropic API."
        error = {"type": f"{self._NAMES.get(status, 'api')}_error", "message": text}
        return Reply(status, {"type": "error", "error": error}, headers)


class OpenAI(Api):
    """What its two dialects share."""

    def refuse(self, refusal: Refusal) -> Reply:
        kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
        error: Body = {"message": refusal.text, "type": kind, "code": None}
        if refusal.kind == "plan":
            error |= {"type": "usage_limit_reached", "plan_type": "plus", "resets_at": refusal.resets_at}
        elif refusal.kind == "quota":
            error |= {"type": "insufficient_quota", "code": "insufficient_quota"}
        elif refusal.status == 429:
            error |= {"type": "requests", "code": "rate_limit_exceeded"}
        return Reply(refusal.status, {"error": error}, {"x-request-id": f"req_mock{self.number}"})


class Responses(OpenAI):
    """OpenAI's newer one."""

    def whole(self, text: str, call: Call | None, status: str = "completed") -> Body:
        item: Body = {
            "type": "message",
            "id": f"msg_{self.number}",
            "role": "assistant",
            "status": status,
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
        if call:
            item = {
                "type": "function_call",
                "id": f"fc_{self.number}",
                "call_id": f"call_{self.number}",
                "status": status,
                "name": call[0],
                "arguments": json.dumps(call[1]),
            }
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return {
            "id": f"resp_{self.number}",
            "object": "response",
            "status": status,
            "model": self.model,
            "output": [item],
            "usage": self._usage("input_tokens", "output_tokens", "total_tokens") | details,
        }

    def stream(self, chunks: Iterable[str], call: Call | None) -> Iterator[bytes]:
        begun, said = self.whole("", call, "in_progress"), ""
        yield typed("response.created", response=begun | {"output": []})
        yield typed("response.output_item.added", item=begun["output"][0], output_index=0)
        for text in chunks:
            said += text
            place = {"item_id": f"msg_{self.number}", "content_index": 0, "output_index": 0}
            yield typed("response.output_text.delta", delta=text, **place)
        whole = self.whole(said, call)
        yield typed("response.output_item.done", item=whole["output"][0], output_index=0)
        yield typed("response.completed", response=whole)

    def broken(self) -> bytes:
        error = {"code": "server_is_overloaded", "message": "Overloaded"}
        return typed("response.failed", response={"id": f"resp_{self.number}", "status": "failed", "error": error})


class Chat(OpenAI):
    """Chat completions, which many agents speak."""

    def whole(self, text: str, call: Call | None) -> Body:
        message = {"role": "assistant", "content": text}
        return self._wrap("message", message, "tool_calls" if call else "stop", call)

    def stream(self, chunks: Iterable[str], call: Call | None) -> Iterator[bytes]:
        yield sse(self._wrap("delta", {"role": "assistant", "content": ""}, None, call))
        for text in chunks:
            yield sse(self._wrap("delta", {"content": text}, None))
        yield sse(self._wrap("delta", {}, "tool_calls" if call else "stop"))
        yield b"data: [DONE]\n\n"

    def _wrap(self, key: str, message: Body, finish: str | None, call: Call | None = None) -> Body:
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            one = {"index": 0, "id": f"call_{self.number}", "type": "function", "function": function}
            message = message | {"tool_calls": [one]}
        usage = self._usage("prompt_tokens", "completion_tokens", "total_tokens")
        return {
            "id": f"chatcmpl-{self.number}",
            "object": "chat.completion.chunk" if key == "delta" else "chat.completion",
            "created": int(time.time()),
            "model": self.model,
            "usage": usage if finish else None,
            "choices": [{"index": 0, key: message, "finish_reason": finish}],
        }


class Gemini(Api):
    """Google's."""

    _NAMES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
    _RPC = "type.googleapis.com/google.rpc."

    def whole(self, text: str, call: Call | None, finish: str | None = "STOP") -> Body:
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": finish}
        usage = self._usage("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
        return {"candidates": [candidate], "modelVersion": self.model, "usageMetadata": usage}

    def stream(self, chunks: Iterable[str], call: Call | None) -> Iterator[bytes]:
        for text in chunks:
            yield sse(self.whole(text, None, None))
        yield sse(self.whole("", call))

    def refuse(self, refusal: Refusal) -> Reply:
        status = self._NAMES.get(refusal.status, "UNAVAILABLE")
        error: Body = {"code": refusal.status, "message": refusal.text, "status": status}
        if refusal.status == 429:  # the CLI takes a quota per day as final
            period = "Minute" if refusal.kind == "error" else "Day"
            violation = {"quotaId": f"GenerateRequestsPer{period}PerProjectPerModel-FreeTier"}
            wait = f"{max(refusal.resets_at - int(time.time()), 0)}s"
            error["details"] = [
                {"@type": f"{self._RPC}QuotaFailure", "violations": [violation]},
                {"@type": f"{self._RPC}RetryInfo", "retryDelay": wait},
            ]
        return Reply(refusal.status, {"error": error}, {})


# By how a path ends. What ends otherwise (token counts, telemetry) is no request to the model.
BY_PATH: dict[str, type[Api]] = {
    "/messages": Messages,
    "/responses": Responses,
    "/chat/completions": Chat,
    "enerateContent": Gemini,
}


def understood(body: Body, path: str) -> Api | None:
    """The request in its dialect, None if it is none to the model."""
    kind = next((kind for end, kind in BY_PATH.items() if path.endswith(end)), None)
    return kind(body, path) if kind else None
