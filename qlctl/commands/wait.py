"""wait: until quests have ended, through restarts of the daemon; and what `add --wait` does after adding."""

from __future__ import annotations

import time

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import on_terminal, print_json, say
from qlctl.render.colour import paint, wanted
from qlctl.render.quest import ending
from qlctl.render.text import clean
from qlctl.values import span_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from qlctl.client import Call, Client

TIMED_OUT = 124
METHOD = "io.questline.Quests.Wait"


def run(given: Arguments) -> int:
    """Wait for every quest named, in turn, and say how each ended."""
    client = connect(given)
    span = given.text("--timeout")
    until = None if span is None else time.monotonic() + span_ms("--timeout", span) / 1000
    ids = given.words
    if len(ids) > 1:
        # a mistyped id shows now, not when the others have ended
        ids = [client.call(METHOD, {"id": name, "timeoutMs": 0})["quest"]["id"] for name in ids]
    answers = [_wait_and_tell(client, given, name, until) for name in ids]
    if given.flag("--json"):
        print_json(answers if len(answers) > 1 else answers[0])
    return status(answers)


def _wait_and_tell(client: Client, given: Arguments, name: str, until: float | None) -> dict[str, Any]:
    answer = until_ended(client, name, until)
    quest = answer["quest"]
    if answer["timedOut"]:
        say(f"{name} has not ended yet" + (f": it is {quest['state']}" if "state" in quest else ""))
    elif not given.flag("--json"):
        print(_line(quest), flush=True)
    return answer


def _line(quest: dict[str, Any]) -> str:
    line = ending(quest)
    return paint(line, quest["state"], coloured=wanted())


def status(answers: list[dict[str, Any]]) -> int:
    """124 if the time was over for one, else 1 if one did not end done, else 0."""
    if any(answer["timedOut"] for answer in answers):
        return TIMED_OUT
    return int(any(answer["quest"]["state"] != "done" for answer in answers))


def until_ended(client: Client, name: str, until: float | None) -> dict[str, Any]:
    """{quest, timedOut} once the quest is final or blocked, or `until` (monotonic seconds) has passed.

    The quest is the last state seen; only its id if the daemon was away all the time.
    """
    answer: dict[str, Any] = {"quest": {"id": name}, "timedOut": True}

    def fresh() -> Call:
        if until is None:
            return METHOD, {"id": name}
        return METHOD, {"id": name, "timeoutMs": max(0, int((until - time.monotonic()) * 1000))}

    while answer["timedOut"]:
        try:
            for reply in client.stream(fresh, until):
                answer = reply
        except TimeoutError:
            return {**answer, "timedOut": True}
        if until is not None:
            break
    return answer


def finish(client: Client, given: Arguments, added: dict[str, Any]) -> int:
    """The end of `add --wait`: wait for the quest, print its result (with --json the quest), give the exit status."""
    answer = until_ended(client, added["id"], None)
    quest = answer["quest"]
    if given.flag("--json"):
        print_json({**quest, "deduped": added["deduped"]})
    elif quest.get("result") and not given.flag("--print-id"):
        print_result(quest["result"])
    if quest["state"] != "done":
        say(ending(quest))
    return status([answer])


def print_result(result: str) -> None:
    """Print a result: as it is into a pipe or file, safely on a terminal."""
    text = clean(result, lines=True) if on_terminal() else result
    print(text, end="" if text.endswith("\n") else "\n")


def finish_many(client: Client, given: Arguments, ids: list[str]) -> int:
    """The end of `add --from-file --wait`: a line, or with --json the quest, for each."""
    quiet = given.flag("--json") or given.flag("--print-id")
    answers = []
    for name in ids:
        answers.append(until_ended(client, name, None))
        if not quiet:
            print(_line(answers[-1]["quest"]), flush=True)
    if given.flag("--json"):
        print_json([answer["quest"] for answer in answers])
    return status(answers)


COMMANDS = {
    "wait": Command(
        run,
        "ID...",
        least=1,
        most=None,
        options=(Option("--timeout", "SPAN", "give up after this long, with exit status 124"),),
        about="Wait until the quests have ended. The exit status is 0 if all are done, 1 if one failed, was cancelled,"
        " or is blocked and needs a person.",
    )
}
