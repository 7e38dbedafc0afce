"""The stand-in speaks the dialects that agents understand, and does what the prompt says."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agents.api.server import StandIn, serving

PATHS = {
    "Messages": "/v1/messages",
    "Responses": "/v1/responses",
    "Chat": "/v1/chat/completions",
    "Gemini": "/v1beta/models/some-model:generateContent",
}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "Messages": [{"name": "Bash", "input_schema": SCHEMA}],
    "Responses": [{"name": "shell", "parameters": SCHEMA}],
    "Chat": [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}],
    "Gemini": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": SCHEMA}]}],
}
USED = {
    "Messages": {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]},
    "Responses": {"type": "function_call_output", "output": "ok"},
    "Chat": {"role": "tool", "content": "ok"},
    "Gemini": {"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command"}}]},
}


@pytest.fixture
def api() -> Iterator[StandIn]:
    with serving() as server:
        yield server


def request(api: StandIn, dialect: str, prompt: str, *, stream: bool = False, used: int = 0) -> str:
    """The text of the answer, after `used` results of tools."""
    path, results = PATHS[dialect], [USED[dialect]] * used
    body: dict[str, Any] = {"tools": TOOLS[dialect]}
    if dialect == "Gemini":
        body["contents"] = [{"role": "user", "parts": [{"text": prompt}]}, *results]
        path = path.replace("generate", "streamGenerate") if stream else path
    else:
        key = "input" if dialect == "Responses" else "messages"
        body |= {key: [{"role": "user", "content": prompt}, *results], "stream": stream}
    with urllib.request.urlopen(urllib.request.Request(api.url + path, json.dumps(body).encode()), timeout=20) as reply:
        text: str = reply.read().decode()
    return text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", PATHS)
def test_a_story_is_played_a_step_a_turn(api: StandIn, dialect: str, stream: bool) -> None:
    """A tool first, then the text; after the last step it says so."""
    story = "[[mock sh touch made]] [[mock say these words]]"
    first, second, third = (request(api, dialect, story, stream=stream, used=used) for used in range(3))
    assert "touch made" in first
    assert "these words" in second
    assert "touch" not in second
    assert "done" in third
    assert [(each["dialect"], each["step"]) for each in api.requests[-3:]] == [
        (dialect, "sh touch made"),
        (dialect, "say these words"),
        (dialect, "say done"),
    ]


@pytest.mark.parametrize("dialect", PATHS)
def test_an_error_is_told_as_often_as_it_says(api: StandIn, dialect: str) -> None:
    """With its retry-after; then the story goes on."""
    story = f"[[mock 429 times=1 retry=7]] [[mock say {dialect} again]]"
    with pytest.raises(urllib.error.HTTPError) as refused:
        request(api, dialect, story)
    with refused.value as error:
        assert (error.code, error.headers["retry-after"]) == (429, "7")
        assert "Rate limit reached" in error.read().decode()
    assert f"{dialect} again" in request(api, dialect, story)


@pytest.mark.parametrize("dialect", PATHS)
def test_a_stream_may_break_off(api: StandIn, dialect: str) -> None:
    """By an error within it, or with the connection."""
    assert "verloaded" in request(api, dialect, "[[mock sse]]", stream=True)
    with pytest.raises((http.client.HTTPException, OSError)):
        request(api, dialect, "[[mock cut]]", stream=True)


def test_a_limit_of_the_plan_is_in_the_headers_that_the_cli_reads(api: StandIn) -> None:
    """An empty balance is another error."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        request(api, "Messages", "[[mock plan 600]]")
    with refused.value as error:
        assert (error.code, error.headers["anthropic-ratelimit-unified-status"]) == (429, "rejected")
    with pytest.raises(urllib.error.HTTPError) as refused:
        request(api, "Messages", "[[mock quota]]")
    with refused.value as error:
        assert (error.code, "credit balance" in error.read().decode()) == (400, True)


def test_it_closes_while_somebody_waits_for_an_answer() -> None:
    """And leaves no thread behind."""
    with serving() as server:
        line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        line.request("POST", PATHS["Chat"], json.dumps({"messages": [{"role": "user", "content": "[[mock hang]]"}]}))
    with pytest.raises((http.client.HTTPException, OSError)):
        line.getresponse()
    line.close()
