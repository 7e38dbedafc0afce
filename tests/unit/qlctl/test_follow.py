"""follow, logs and add --follow: each record once, over losses and attempts, with the exit status of its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qlctl import flow
from qlctl.main import main
from qlctl.render.record import ended
from tests.unit.qlctl.scripted import (
    BLOCKED,
    DONE,
    FAILED,
    QUEST,
    Answer,
    Hangup,
    Scripted,
    added,
    begun,
    error,
    followed,
    frame,
    instead,
    out,
    over,
    waited,
)

Serve = Callable[[Answer], Scripted]
pytestmark = pytest.mark.usefixtures("here")
FOLLOW = "io.questline.Quests.Follow"
RAN = {**DONE, "attempts": 1}


def stream(*replies: bytes) -> Answer:
    """One call, all replies."""
    return lambda _request: iter(replies)


def calls(*answers: tuple[bytes, ...]) -> Answer:
    """Each call has replies of its own; b"" at their end hangs up there."""
    left = list(answers)

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        for reply in left.pop(0):
            if not reply:
                raise Hangup
            yield reply

    return answer


@pytest.mark.parametrize(("quest", "status"), [(RAN, 0), (FAILED, 1), ({**QUEST, "state": "cancelled"}, 1)])
def test_output_goes_where_it_came_from_and_the_status_is_that_of_wait(
    serve: Serve, capsys: pytest.CaptureFixture[str], quest: dict[str, Any], status: int
) -> None:
    """Escape sequences and all, and nothing besides on stdout."""
    service = serve(
        stream(
            followed(begun(), out(2, "one\x1b[2J")),
            followed(out(3, "oops\n", stream="stderr")),
            followed(out(4, "\ud800ä\n"), over(5, "failed"), quest=quest),
        )
    )
    assert main(["follow", "q-1a"]) == status
    captured = capsys.readouterr()
    assert captured.out == "one\x1b[2J\\ud800ä\n"
    why = "" if quest["state"] == "done" else f"qlctl: q-1a2b3c4d5e6f is {quest['state']}"
    assert captured.err.startswith("oops\n" + why)
    assert [request["method"] for request in service.requests] == [FOLLOW]
    assert (service.parameters(), service.requests[0]["more"]) == ([{"id": "q-1a"}], True)


def test_a_connection_lost_for_a_moment_is_no_news(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The next call names the last record that was shown, not the one that was cut off on its way."""
    half = followed(out(4, "three\n"))[:-5]
    service = serve(
        calls(
            (followed(begun(), out(2, "one\n")), followed(out(3, "two\n")), half, b""),
            (b"",),
            (followed(out(4, "three\n"), over(5), quest=RAN),),
        )
    )
    assert main(["follow", "q-1"]) == 0
    assert capsys.readouterr() == ("one\ntwo\nthree\n", "")
    assert [call.get("after") for call in service.parameters()] == [None, "1.3", "1.3"]


def test_what_stands_in_for_records_is_not_doubled_by_a_loss(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no id to go on from, and comes again."""
    gone = instead("gap", reason="pruned"), instead("text", text="the result\n")
    end = {**over(1, "failed", "exit code 3"), "id": None}
    service = serve(
        calls(
            (followed(*gone), b""),
            (followed(*gone, end, begun(2)), b""),
            (followed(out(2, "again\n", attempt=2), over(3, attempt=2), quest={**RAN, "attempts": 2}),),
        )
    )
    assert main(["follow", "q-1"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "the result\nagain\n"
    assert captured.err.count("something is missing here: pruned") == 1
    assert captured.err.count("attempt 1 failed: exit code 3; attempt 2 begins\n") == 1
    assert [call.get("after") for call in service.parameters()] == [None, None, "2.1"]


@pytest.mark.parametrize("state", ["queued", "interrupted"])
def test_between_attempts_there_is_one_line(serve: Serve, capsys: pytest.CaptureFixture[str], state: str) -> None:
    """At once where the next attempt is not there yet, and never in the middle of a line of the quest's own."""
    first = over(3, "failed", "exit code 3\nand more")
    serve(
        stream(
            followed(begun(), out(2, "no newline", stream="stderr"), first, state=state),
            followed(state=state),
            followed(begun(2), out(2, "fine\n", attempt=2), over(3, attempt=2), quest={**RAN, "attempts": 2}),
        )
    )
    assert main(["follow", "q-1"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "fine\n"
    assert captured.err == "no newline\nqlctl: attempt 1 failed: exit code 3; attempt 2 follows\n"


def test_a_message_leaves_a_line_of_stdout_where_both_are_one_terminal(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere stdout gets no newline that the quest did not write."""
    serve(stream(followed(begun(), out(2, "half a line"), over(3, "failed"), quest=FAILED)))
    assert main(["follow", "q-1"]) == 1
    assert capsys.readouterr() == ("half a line", "qlctl: q-1a2b3c4d5e6f is failed: exit 1\n")
    monkeypatch.setattr(flow, "_one_place", lambda: True)
    assert main(["follow", "q-1"]) == 1
    assert capsys.readouterr() == ("half a line", "\nqlctl: q-1a2b3c4d5e6f is failed: exit 1\n")


def blocked_after(*records: dict[str, Any], attempts: int, stored: int = 1) -> Answer:
    """A daemon whose quest is blocked and has these records, `stored` in a reply; its stream stays open."""

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if request["method"].endswith("Wait"):
            yield waited({**BLOCKED, "attempts": attempts, "choices": ["red", "blue"]})
            return
        after = request["parameters"].get("after")
        left = list(records[[record["id"] for record in records].index(after) + 1 if after else 0 :])
        while left:
            yield followed(*left[:stored], state="blocked")
            del left[:stored]
        yield followed(state="blocked")

    return answer


ASKED = "qlctl: q-1a2b3c4d5e6f is blocked: red or blue? [red / blue]\n"


@pytest.mark.parametrize("stored", [1, 2, 9])
def test_blocked_ends_with_the_question(serve: Serve, capsys: pytest.CaptureFixture[str], stored: int) -> None:
    """After everything there is of all its attempts has been shown, however it comes."""
    first = begun(), out(2, "one\n"), over(3, "failed", "exit code 3")
    second = begun(2), out(2, "two\n", attempt=2), over(3, "interrupted", attempt=2)
    serve(blocked_after(*first, *second, attempts=2, stored=stored))
    assert main(["follow", "q-1"]) == 1
    assert capsys.readouterr() == ("one\ntwo\n", "qlctl: attempt 1 failed: exit code 3; attempt 2 begins\n" + ASKED)


@pytest.mark.parametrize("after", [[], ["--after", "1.2"]])
def test_blocked_without_anything_to_show_ends_at_once(
    serve: Serve, capsys: pytest.CaptureFixture[str], after: list[str]
) -> None:
    """It never ran, or all of it was seen before."""
    ran = [begun(), over(2, "interrupted")] if after else []
    serve(blocked_after(*ran, attempts=len(ran) // 2))
    assert main(["follow", "q-1", *after]) == 1
    assert capsys.readouterr() == ("", ASKED)


def test_blocked_with_records_that_are_gone_ends_all_the_same(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """They have no id to go on from, and come again."""
    gone = {**instead("gap", reason="gone"), "id": None}, {**over(2, "interrupted"), "id": None}
    serve(blocked_after(*gone, attempts=1, stored=2))
    assert main(["follow", "q-1"]) == 1
    assert capsys.readouterr() == ("", "qlctl: attempt 1: something is missing here: gone\n" + ASKED)


def test_blocked_that_was_answered_meanwhile_is_followed_on(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """What was blocked a moment ago may run again, before the question was read or after."""
    begin = (followed(begun(), over(2, "interrupted"), state="blocked"),)
    known = (followed(begun(2), state="blocked"), followed(state="queued"), followed(state="blocked"))
    again = (followed(begun(3), over(2, attempt=3), quest={**RAN, "attempts": 3}),)
    asked = {**BLOCKED, "attempts": 2}
    service = serve(calls(begin, (waited(QUEST),), begin, (waited(asked),), known, (waited(QUEST),), again))
    assert main(["follow", "q-1"]) == 0
    assert service.parameters()[-1] == {"id": "q-1", "after": "2.1"}


@pytest.mark.parametrize(("quest", "status"), [({**RAN, "attempts": 2}, 1), ({**RAN, "attempts": 1}, 0)])
def test_one_attempt_has_a_status_of_its_own(
    serve: Serve, capsys: pytest.CaptureFixture[str], quest: dict[str, Any], status: int
) -> None:
    """0 if it is the one that is done."""
    service = serve(stream(followed(out(7, "x"), over(8, "failed", "exit code 3"), quest=quest)))
    assert main(["follow", "q-1", "--attempt", "1", "--after", "1.6"]) == status
    assert service.parameters() == [{"id": "q-1", "attempt": 1, "after": "1.6"}]
    told = "qlctl: q-1a2b3c4d5e6f: attempt 1 failed: exit code 3\n"
    assert capsys.readouterr() == ("x", told if status else "")


def test_what_waits_says_so(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """With the command that tells why."""
    serve(stream(followed(state="queued"), followed(begun(), over(2), quest=RAN)))
    assert main(["follow", "q-1"]) == 0
    assert capsys.readouterr().err == "qlctl: q-1 is queued\n  qlctl why q-1 tells what it waits for\n"


def test_json_is_a_line_a_record_and_nothing_else(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """As they came, kinds of later versions among them."""
    strange = {**out(3, ""), "kind": "telemetry", "data": {"turns": 3}}
    records = [begun(), out(2, "a\nb"), strange, instead("gap", reason="r"), over(4, "failed"), begun(2)]
    last = over(2, attempt=2)
    serve(stream(followed(*records), followed(last, quest={**RAN, "attempts": 2})))
    assert main(["follow", "q-1", "--json"]) == 0
    captured = capsys.readouterr()
    assert [json.loads(line) for line in captured.out.splitlines()] == [*records, last]
    assert captured.err == ""


def test_kinds_of_later_versions_are_not_shown_as_text(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is known."""
    strange = {**out(2, ""), "kind": "telemetry", "data": {"turns": 3}}
    serve(stream(followed(begun(), strange, over(3), quest=RAN)))
    assert main(["follow", "q-1"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("chatty", [False, True])
def test_timeout_ends_with_124_also_while_output_comes(
    serve: Serve, capsys: pytest.CaptureFixture[str], chatty: bool
) -> None:
    """The daemon is not asked to end the stream, so that nothing is waited for beyond the time."""

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        yield followed(begun())
        number = 2
        while chatty:
            yield followed(out(number, "x"))  # ends when the client has hung up
            number += 1

    serve(answer)
    assert main(["follow", "q-1", "--timeout", "50ms"]) == 124
    assert capsys.readouterr().err.endswith("qlctl: q-1 has not ended yet: it is running\n")


def test_an_error_of_the_daemon_is_no_timeout(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The first answer is waited for even where the time is over."""
    serve(stream(error("io.questline.NotFound")))
    assert main(["follow", "q-1", "--timeout", "0"]) == 1
    assert "told so" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--attempt", "0"], ["--attempt", "x"], ["--timeout", "soon"], ["--attempt", "1.5"], ["q-2"]]
)
def test_bad_input_is_refused_before_a_call(serve: Serve, capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    """Naming the option."""
    service = serve(stream(frame({})))
    assert main(["follow", "q-1", *argv]) == 2
    assert argv[0] in capsys.readouterr().err
    assert service.requests == []


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"outcome": "failed", "class": "failed", "error": "exit code 3\nmore"}, "attempt 2 failed: exit code 3"),
        ({"outcome": "failed", "class": "timeout"}, "attempt 2 failed: timeout"),
        ({"outcome": "failed", "class": "failed", "exitSignal": 9}, "attempt 2 failed: signal 9"),
        ({"outcome": "interrupted", "class": "lost"}, "attempt 2 was interrupted: lost"),
        ({"outcome": "cancelled", "class": "cancelled"}, "attempt 2 was cancelled"),
        ({"outcome": "done", "class": "ok"}, "attempt 2 is done"),
        ({"outcome": None}, "attempt 2 ended"),
        ({"outcome": "failed", "error": "\x1b[2J"}, r"attempt 2 failed: \x1b[2J"),
    ],
)
def test_an_end_is_told_in_few_words(data: dict[str, Any], told: str) -> None:
    """On one line that is safe to show."""
    assert ended({"attempt": 2, "data": data}) == told


def test_add_follow_says_the_id_on_stderr_and_follows(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """stdout is for the output; --json is that of follow."""
    end = followed(begun(), out(2, "hi\n"), over(3), quest=RAN)
    service = serve(calls((added(),), (followed(state="queued"), end), (added(),), (end,)))
    assert main(["add", "t", "--follow"]) == 0
    captured = capsys.readouterr()
    told = f"q-1a2b3c4d5e6f queued in /home/me/proj (questlined on {service.path})\n"
    assert captured == ("hi\n", f"qlctl: {told}")
    assert service.parameters()[1] == {"id": "q-1a2b3c4d5e6f"}
    assert main(["add", "t", "--follow", "--json"]) == 0
    captured = capsys.readouterr()
    assert [json.loads(line)["kind"] for line in captured.out.splitlines()] == ["state", "output", "end"]
    assert captured.err == f"qlctl: {told}"


@pytest.mark.parametrize("other", ["--wait", "--print-id", "--from-file=quests"])
def test_add_follow_does_not_go_with_what_also_prints(
    serve: Serve, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    """Said before anything is added."""
    service = serve(stream(added()))
    assert main(["add", *([] if "file" in other else ["t"]), "--follow", other]) == 2
    err = capsys.readouterr().err
    assert "--follow" in err
    assert "qlctl follow ID" in err or "shows the output as it comes" in err
    assert service.requests == []


class TestLogs:
    """What is stored, without waiting."""

    def test_of_what_runs_pages_are_asked_for_to_the_end(
        self, serve: Serve, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Of the last attempt, from the last record of the page before; a stream would wait for more."""
        service = serve(
            calls(
                (waited({**QUEST, "state": "running", "attempts": 3}),),
                (followed(begun(3), out(2, "one", attempt=3), continues=False),),
                (followed(out(9, "two\x1b[1m", attempt=3), continues=False),),
                (followed(continues=False),),
            )
        )
        assert main(["logs", "q-1"]) == 0
        assert capsys.readouterr() == ("onetwo\x1b[1m", "")
        wanted = {"id": "q-1a2b3c4d5e6f", "attempt": 3, "streams": ["stdout"]}
        assert service.parameters()[1:] == [wanted, {**wanted, "after": "3.2"}, {**wanted, "after": "3.9"}]
        assert not any(request.get("more") for request in service.requests)

    @pytest.mark.parametrize(("state", "attempts"), [("failed", 1), ("running", 2), ("queued", 1), ("blocked", 1)])
    def test_of_what_is_over_there_is_one_stream(
        self, serve: Serve, capsys: pytest.CaptureFixture[str], state: str, attempts: int
    ) -> None:
        """It ends by itself; a lost one goes on from the last record. stderr comes on stdout."""
        service = serve(
            calls(
                (waited({**QUEST, "state": state, "attempts": attempts}),),
                (followed(begun(), out(2, "oo", stream="stderr")), b""),
                (followed(out(3, "ps", stream="stderr"), over(4), quest=FAILED),),
            )
        )
        assert main(["logs", "q-1", "--attempt", "1", "--stderr"]) == 0
        assert capsys.readouterr() == ("oops", "")
        wanted = {"id": "q-1a2b3c4d5e6f", "attempt": 1, "streams": ["stderr"]}
        assert service.parameters()[1:] == [wanted, {**wanted, "after": "1.2"}]
        assert all(request.get("more") for request in service.requests[1:])

    def test_json_is_one_value(self, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
        """Its text is written piece by piece, and put together as it was."""
        pieces = ['a "quoted"\n', "\\ä\x1b\ud800", "€"]
        records = [out(number, text) for number, text in enumerate(pieces, 2)]
        serve(calls((waited(RAN),), (followed(begun(), *records, over(9), quest=RAN),)))
        assert main(["logs", "q-1", "--json"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 1
        assert json.loads(lines[0]) == {"attempt": 1, "stream": "stdout", "text": "".join(pieces)}

    @pytest.mark.parametrize(("options", "text"), [([], "the result\n"), (["--stderr"], "")])
    def test_of_a_pruned_attempt_the_result_is_left(
        self, serve: Serve, capsys: pytest.CaptureFixture[str], options: list[str], text: str
    ) -> None:
        """It stands in for stdout, and a note says so."""
        gone = instead("gap", reason="its files are gone"), instead("text", text="the result\n")
        serve(calls((waited(RAN),), (followed(*gone, {**over(1), "id": None}, quest=RAN),)))
        assert main(["logs", "q-1", *options]) == 0
        captured = capsys.readouterr()
        assert captured.out == text
        assert "attempt 1: something is missing here: its files are gone\n" in captured.err
        assert ("stored result" in captured.err) is bool(text)

    def test_an_error_leaves_stdout_empty(self, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
        """Of --json, too."""
        serve(calls((waited(RAN),), (error("io.questline.NotFound"),)))
        assert main(["logs", "q-1", "--attempt", "7", "--json"]) == 1
        assert capsys.readouterr() == ("", "qlctl: told so\n  do this\n")

    def test_one_that_has_not_run_has_none(self, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
        """Which is no error."""
        serve(stream(waited(QUEST)))
        assert main(["logs", "q-1"]) == 0
        assert capsys.readouterr() == ("", "qlctl: q-1a2b3c4d5e6f is queued and has not run\n")
        assert main(["logs", "q-1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"attempt": None, "stream": "stdout", "text": ""}
