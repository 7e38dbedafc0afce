"""What a prompt asks the stand-in to do. Markers are played in order, one per turn of the model:

    [[mock say TEXT]]       answer TEXT; "mock ok" stands in for no marker at all, "done" follows the last one
    [[mock slow N]]         stream N chunks, one a second
    [[mock big MB]]         stream so many mebibytes of text
    [[mock sh COMMAND]]     have the agent run COMMAND with its shell tool
    [[mock NNN]]            HTTP status NNN: 429, 500, 529, 401 ...
    [[mock plan SECONDS]]   the usage limit of a subscription, to be reset in so many seconds
    [[mock quota]]          an empty balance or hard quota: no retry can help
    [[mock hang]]           take the request, never answer
    [[mock stall]]          answer the first chunk, then nothing more
    [[mock cut]]            answer the first chunk, then drop the connection
    [[mock sse]]            answer the first chunk, then an error within the stream

Inside a marker, times=N lets only the first N requests with this very marker have it, later ones go on to the next;
retry=S adds a retry-after header. So [[mock sh touch a]] [[mock 529 times=2]] [[mock slow 5]] is one story.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MARKER = re.compile(r"\[\[mock (.*?)\]\](?!\])", re.DOTALL)
UNMARKED, ENDED = "say mock ok", "say done"
SHELL_TOOLS = {"bash", "shell", "shell_command", "exec_command", "run_shell_command"}
FILLERS = {"boolean": False, "number": 60000, "integer": 60000, "array": []}

Body = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One marker: its first word, the rest, and the seconds of retry=, None without it."""

    kind: str
    rest: str
    retry_s: int | None

    @classmethod
    def parse(cls, text: str) -> Step:
        """From the inside of a marker."""
        retry = re.search(r"\bretry=(\d+)", text)
        kind, _, rest = re.sub(r"\s*\b(?:times|retry)=\d+", "", text).strip().partition(" ")
        return cls(kind, rest, int(retry[1]) if retry else None)


@dataclass
class Script:
    """Counts the requests that had a marker with times=. Not for several threads at once."""

    _had: Counter[str] = field(default_factory=Counter)

    def step(self, body: Body) -> Step:
        """The marker to act on: of the last user message that has any, one for each tool result after it."""
        said = list(turns(body))
        marked = [index for index, (who, text) in enumerate(said) if who == "user" and MARKER.search(text)]
        after = [who for who, _ in said[marked[-1] :]] if marked else ["assistant"]
        if "assistant" in after:  # no story, or one that was played to its end
            return Step.parse(UNMARKED)
        for text in MARKER.findall(said[marked[-1]][1])[after.count("result") :]:
            limit = re.search(r"\btimes=(\d+)", text)
            self._had[text] += 1
            if limit is None or self._had[text] <= int(limit[1]):
                return Step.parse(text)
        return Step.parse(ENDED)


def turns(body: Body) -> Iterator[tuple[str, str]]:
    """A conversation in any dialect as (who, text); who is user, assistant, or result for that of a tool."""
    given = body.get("messages") or body.get("input") or body.get("contents") or []
    for message in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        if str(message.get("type")).endswith("_output") or message.get("role") == "tool":
            yield "result", ""
            continue
        parts = message.get("content") or message.get("parts") or []
        for part in [{"text": parts}] if isinstance(parts, str) else parts:
            if part.get("type") == "tool_result" or "functionResponse" in part:
                yield "result", ""
            elif part.get("text"):
                yield message["role"].replace("model", "assistant"), part["text"]


def tools(body: Body) -> Iterator[tuple[str, Body]]:
    """The tools that a request offers, in any dialect, as (name, JSON schema of the arguments)."""
    for tool in body.get("tools", []):
        for function in tool.get("functionDeclarations") or [tool.get("function", tool)]:
            schemas = (function.get(key) for key in ("input_schema", "parametersJsonSchema", "parameters"))
            yield function.get("name", ""), next((schema for schema in schemas if schema), {})


def shell_call(body: Body, command: str) -> tuple[str, Body] | None:
    """The call (tool, arguments) by which this agent runs a command; None where it offers no shell."""
    for name, schema in tools(body):
        if name.lower() in SHELL_TOOLS:
            key = "cmd" if "cmd" in schema.get("properties", {}) else "command"
            return name, filled(schema | {"type": "object"}) | {key: command}
    return None


def filled(schema: Body) -> Any:
    """The least value that fits a JSON schema: side requests, such as routing to a model, want one."""
    kind = str(schema.get("type")).lower()
    if kind == "object":
        return {key: filled(schema["properties"][key]) for key in schema.get("required", [])}
    return schema.get("enum", [FILLERS.get(kind, "mock")])[0]
