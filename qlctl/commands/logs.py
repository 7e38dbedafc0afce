"""logs: what is stored of an attempt's stdout or stderr, without waiting for more."""

from __future__ import annotations

import sys

from qlctl.client import connect
from qlctl.codec import encode
from qlctl.flow import Flow, write
from qlctl.options import Arguments, Command, Option
from qlctl.records import FOLLOW, missing
from qlctl.values import integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from qlctl.client import Client


def run(given: Arguments) -> int:
    """Print one stream of one attempt, page by page: it may be larger than memory."""
    asked = given.text("--attempt")
    attempt = None if asked is None else integer("--attempt", asked, 1)
    stream = "stderr" if given.flag("--stderr") else "stdout"
    client, flow = connect(given), Flow()
    quest = client.call("io.questline.Quests.Wait", {"id": given.words[0], "timeoutMs": 0})["quest"]
    attempt = quest["attempts"] if attempt is None else attempt
    if not attempt:
        flow.say(f"{quest['id']} is {quest['state']} and has not run")
    texts = _texts(client, flow, quest, attempt, stream) if attempt else iter(())
    if given.flag("--json"):
        _as_json(attempt, stream, texts)
    else:
        for text in texts:
            flow.put("stdout", text)
    return 0


def _texts(client: Client, flow: Flow, quest: dict[str, Any], attempt: int, stream: str) -> Iterator[str]:
    """The pieces of the stream as far as there are any. What is missing is said on stderr."""
    wanted: dict[str, object] = {"id": quest["id"], "attempt": attempt, "streams": [stream]}
    runs = quest["state"] == "running" and attempt == quest["attempts"]
    replies = _pages(client, wanted) if runs else client.stream(lambda: (FOLLOW, wanted))
    for reply in replies:
        for record in reply["records"]:
            yield from _piece(flow, record, stream)
            wanted["after"] = record.get("id") or wanted.get("after")


def _pages(client: Client, wanted: dict[str, object]) -> Iterator[dict[str, Any]]:
    """Replies until there is no more now: a stream would wait for what the attempt has yet to write."""
    while True:
        page = client.call(FOLLOW, wanted)
        yield page
        if page.get("quest") is not None or not page["records"]:
            return


def _piece(flow: Flow, record: dict[str, Any], stream: str) -> Iterator[str]:
    kind, data = record["kind"], record["data"]
    if kind == "output" and data["stream"] == stream:
        yield data["text"]
    elif kind == "gap":
        flow.say(f"attempt {record['attempt']}: {missing(data)}")
    elif kind == "text" and stream == "stdout":
        flow.say("what follows is its stored result")
        yield data["text"]


def _as_json(attempt: int, stream: str, texts: Iterator[str]) -> None:
    """One JSON value, its long text written piece by piece; nothing of it before the daemon has answered."""
    first = next(texts, "")
    head = encode({"attempt": attempt or None, "stream": stream, "text": ""})
    write(sys.stdout, head[:-2] + encode(first)[1:-1])
    for text in texts:
        write(sys.stdout, encode(text)[1:-1])
    write(sys.stdout, head[-2:] + "\n")


COMMANDS = {
    "logs": Command(
        run,
        "ID",
        least=1,
        most=1,
        options=(
            Option("--attempt", "N", "of this attempt (default: the last one)"),
            Option("--stderr", "", "what it wrote to stderr, instead of stdout"),
        ),
        about="Print what an attempt has written so far, verbatim, without waiting for more.",
    )
}
