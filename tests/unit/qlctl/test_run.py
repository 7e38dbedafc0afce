"""run: the foreground attempt, its signals, and what becomes of it when the daemon goes."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qlctl.main import main
from tests.support.typed import Typed
from tests.unit.qlctl.scripted import (
    BLOCKED,
    DONE,
    FAILED,
    QUEST,
    Answer,
    Hangup,
    Scripted,
    begun,
    error,
    followed,
    frame,
    out,
    over,
)

Serve = Callable[[Answer], Scripted]
pytestmark = pytest.mark.usefixtures("here")
Start = Callable[..., Typed]
ROOT = str(Path(__file__).parents[3])
START = "import sys; from qlctl.main import main; sys.exit(main())"
RUN = {"id": "q-1a2b3c4d5e6f/1", "quest": "q-1a2b3c4d5e6f", "attempt": 1, "number": 7}
BEGUN = "qlctl: q-1a2b3c4d5e6f runs (attempt 1, run #7)\n"
RAN = {**DONE, "attempts": 1}
AGAIN = {**QUEST, "state": "interrupted", "attempts": 1}
HINT = "  its output follows here; Ctrl-C leaves it alone\n"


def first() -> bytes:
    """The first reply of Run."""
    return frame({"run": RUN, "records": [], "state": "running"}, continues=True)


def method(request: dict[str, Any]) -> str:
    return str(request["method"]).rsplit(".", 1)[1]


@pytest.mark.parametrize(
    ("quest", "status", "told"),
    [
        (RAN, 0, ""),
        (FAILED, 1, "qlctl: q-1a2b3c4d5e6f is failed: exit 1\n"),
        (BLOCKED, 1, "qlctl: q-1a2b3c4d5e6f is blocked: red or blue?\n"),
        (
            {**AGAIN, "state": "queued"},
            1,
            "qlctl: attempt 1 failed: exit 1; q-1a2b3c4d5e6f is queued and will run again\n",
        ),
        (
            {**AGAIN, "state": "running"},
            1,
            "qlctl: attempt 1 failed: exit 1; q-1a2b3c4d5e6f runs again, in the background\n",
        ),
    ],
)
def test_the_attempts_output_and_then_its_status(
    serve: Serve, capsys: pytest.CaptureFixture[str], quest: dict[str, Any], status: int, told: str
) -> None:
    """One call; blocked in the middle is not yet the end."""
    end = over(3, "done" if status == 0 else "failed", None if status == 0 else "exit 1")

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        yield first()
        yield followed(begun(), out(2, "hi\n"), state="blocked")
        yield followed(end, quest=quest)

    service = serve(answer)
    assert main(["run", "q-1"]) == status
    assert capsys.readouterr() == ("hi\n", BEGUN + told)
    assert service.parameters() == [{"id": "q-1"}]
    assert [(method(request), request["more"]) for request in service.requests] == [("Run", True)]


def test_without_an_id_it_is_the_projects_next(
    serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """3 where there is none."""
    service = serve(lambda _request: iter([error("io.questline.NothingToClaim")]))
    assert main(["run"]) == 3
    assert main(["run", "--project", "p"]) == 3
    assert service.parameters() == [{"directory": str(tmp_path)}, {"project": "p"}]
    assert capsys.readouterr() == ("", "qlctl: told so\n  do this\n" * 2)


def test_a_loss_before_the_answer_repeats_the_call(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """With the same requestId, so that nothing is started twice."""
    answers = iter([[b""], [first(), followed(begun(), over(2), quest=RAN)]])

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        for reply in next(answers):
            if not reply:
                raise Hangup
            yield reply

    service = serve(answer)
    assert main(["run", "q-1"]) == 0
    assert len({request["parameters"]["requestId"] for request in service.requests}) == 1
    assert [method(request) for request in service.requests] == ["Run", "Run"]


@pytest.mark.parametrize("state", ["interrupted", "queued", "running", "done"])
def test_a_daemon_that_goes_leaves_the_quest_in_the_background(
    serve: Serve, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    """However far it has come since, it is followed over all attempts to its end, from the last record on."""
    interrupted = over(3, "interrupted", "the daemon was stopped")
    runs = iter([(begun(), out(2, "one\n")), (interrupted,)])

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if method(request) == "Run":
            yield first()
            if interrupted in (records := next(runs)):
                yield followed(*records, quest={**AGAIN, "state": state})
            else:
                yield followed(*records)
            raise Hangup
        yield followed(begun(2), out(2, "two\n", attempt=2), over(3, attempt=2), quest={**RAN, "attempts": 2})

    service = serve(answer)
    assert main(["run", "q-1"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "one\ntwo\n"
    again = "qlctl: q-1a2b3c4d5e6f was interrupted; when its turn comes, it runs in the background\n"
    between = "qlctl: attempt 1 was interrupted: the daemon was stopped; attempt 2 "
    assert captured.err == BEGUN + again + HINT + between + "begins\n"
    assert service.parameters()[1:] == [{"id": "q-1", "after": "1.2"}, {"id": "q-1a2b3c4d5e6f", "after": "1.3"}]


def test_a_daemon_that_replaces_its_program_keeps_the_attempt_in_the_foreground(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same call finds it again, and gives what has not been shown."""
    runs = iter([followed(begun(), out(2, "one\n")), followed(out(3, "two\n"), over(4), quest=RAN)])

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        yield first()
        yield next(runs)
        raise Hangup

    service = serve(answer)
    assert main(["run", "q-1"]) == 0
    assert capsys.readouterr() == ("one\ntwo\n", BEGUN)
    assert service.parameters() == [{"id": "q-1"}, {"id": "q-1", "after": "1.2"}]
    assert len({request["parameters"]["requestId"] for request in service.requests}) == 1


def test_an_attempt_that_cannot_be_found_again_is_followed_in_the_background(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where too many are run already, or the daemon is an older one."""
    runs = iter([first(), error("io.questline.LimitReached")])

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if method(request) == "Run":
            yield next(runs)
            raise Hangup
        yield followed(begun(), out(2, "one\n"), over(3), quest=RAN)

    service = serve(answer)
    assert main(["run", "q-1"]) == 0
    told = "qlctl: told so: q-1a2b3c4d5e6f runs in the background\n"
    assert capsys.readouterr() == ("one\n", BEGUN + told + HINT)
    assert [method(request) for request in service.requests] == ["Run", "Run", "Follow"]


def test_a_signal_while_the_daemon_is_away_interrupts_when_it_is_back(serve: Serve, typed: Start) -> None:
    """The attempt has nobody to hold it until then, and would run on if the client only followed it."""
    signalled = threading.Event()
    told: list[str] = []

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        told.append(method(request))
        if told == ["Run"]:
            yield first()
            raise Hangup
        if told[-1] == "Run":
            assert signalled.wait(60)
            yield first()
        else:
            yield followed(begun(), over(2, "interrupted"), quest=AGAIN)

    running = typed(serve(answer))
    running.says("is lost", "stderr")
    running.interrupt()
    running.says("interrupting", "stderr")
    signalled.set()
    assert running.end()[0] == 130
    # The second is given up, if its answer has not come by then.
    assert told in (["Run", "Run", "Follow"], ["Run", "Run", "Run", "Follow"])


def test_an_attempt_that_the_daemon_interrupts_leaves_the_quest_in_the_background(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """A daemon that stops has the time to tell of the end."""
    interrupted = over(3, "interrupted", "the daemon was stopped")

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if method(request) == "Run":
            yield first()
            yield followed(begun(), out(2, "one\n"), interrupted, quest=AGAIN)
            raise Hangup
        yield followed(state="interrupted")
        yield followed(begun(2), out(2, "two\n", attempt=2), over(3, attempt=2), quest={**RAN, "attempts": 2})

    service = serve(answer)
    assert main(["run", "q-1"]) == 0
    assert capsys.readouterr() == (
        "one\ntwo\n",
        BEGUN + "qlctl: q-1a2b3c4d5e6f was interrupted; when its turn comes, it runs in the background\n"
        "  its output follows here; Ctrl-C leaves it alone\n"
        "qlctl: attempt 1 was interrupted: the daemon was stopped; attempt 2 follows\n",
    )
    assert service.parameters()[1] == {"id": "q-1a2b3c4d5e6f", "after": "1.3"}


@pytest.fixture
def typed() -> Iterator[Callable[..., Typed]]:
    """qlctl run as a process of its own."""
    made: list[Typed] = []

    def start(service: Scripted, start: str = START) -> Typed:
        environ = {"PYTHONPATH": ROOT, "QUESTLINED_SOCKET": service.path, "PATH": "/bin", "HOME": "/nonexistent"}
        made.append(Typed([sys.executable, "-c", start, "run", "q-1"], environ))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_hangs_up_and_follows_the_attempt_to_its_end(
    serve: Serve, typed: Start, number: signal.Signals, status: int
) -> None:
    """The rest of what it wrote is shown, once."""

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if method(request) == "Run":
            yield first() + followed(begun(), out(2, "one\n", stream="stderr"))
            return
        end = over(4, "interrupted", "the client that ran it went away")
        yield followed(out(3, "two\n"), end, quest=AGAIN)

    service = serve(answer)
    running = typed(service)
    running.says("one", "stderr")
    running.interrupt(number)
    assert running.end() == (
        status,
        "two\n",
        BEGUN + "one\nqlctl: interrupting; Ctrl-C again cancels it\n"
        "qlctl: attempt 1 was interrupted: the client that ran it went away;"
        " q-1a2b3c4d5e6f is interrupted and will run again\n",
    )
    assert service.parameters()[1] == {"id": "q-1a2b3c4d5e6f", "attempt": 1, "after": "1.2"}


def test_the_second_signal_cancels_on_a_connection_of_its_own(serve: Serve, typed: Start) -> None:
    """The end is still followed on the other one. Its reason is told, not that the client it hung up on has gone."""
    gone = "the client that ran it went away"
    cancelled = {**QUEST, "state": "cancelled", "attempts": 1, "reason": "by the terminal that ran it", "error": gone}
    told: list[str] = []
    cancel = threading.Event()

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        told.append(method(request))
        if told[-1] == "Run":
            yield first()
        elif told[-1] == "Follow":
            yield followed(begun(), out(2, "follows\n", stream="stderr"))
            assert cancel.wait(60)
            yield followed(over(3, "cancelled"), quest=cancelled)
        else:
            cancel.set()
            yield frame({"quest": cancelled})

    service = serve(answer)
    running = typed(service)
    for words in ("run #7", "follows"):
        running.says(words, "stderr")
        running.interrupt()
    status, _, err = running.end()
    assert status == 130
    assert "qlctl: cancelling; Ctrl-C again leaves at once\n" in err
    assert err.endswith("qlctl: q-1a2b3c4d5e6f is cancelled: by the terminal that ran it\n")
    assert told == ["Run", "Follow", "Cancel"]
    assert service.parameters()[2]["reason"] == cancelled["reason"]


def test_the_third_signal_leaves_at_once(serve: Serve, typed: Start) -> None:
    """Even where the daemon does not answer the cancel."""

    cancel = threading.Event()

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if method(request) == "Cancel":
            cancel.set()
        yield first() if method(request) == "Run" else b""

    running = typed(serve(answer))
    for words in ("run #7", "interrupting"):
        running.says(words, "stderr")
        running.interrupt()
    assert cancel.wait(60)
    running.interrupt()
    assert running.end()[0] == 130


@pytest.mark.parametrize("known", [False, True])
def test_a_signal_ends_what_is_not_there_to_interrupt(serve: Serve, typed: Start, known: bool) -> None:
    """Before the quest is known, and when it runs in the background."""
    asked = threading.Event()
    runs = iter([first(), error("io.questline.LimitReached")])

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if known and method(request) == "Run":
            yield next(runs)
            raise Hangup
        asked.set()
        yield b""

    service = serve(answer)
    running = typed(service)
    assert asked.wait(60)
    running.interrupt()
    status, _, err = running.end()
    assert (status, "interrupting" in err, HINT in err) == (130, False, known)
    assert [method(request) for request in service.requests] == (["Run", "Run", "Follow"] if known else ["Run"])


def test_a_signal_that_is_ignored_stays_so(serve: Serve, typed: Start) -> None:
    """As shells start what they put into the background."""
    going = threading.Event()

    def answer(_request: dict[str, Any]) -> Iterator[bytes]:
        yield first()
        assert going.wait(60)
        yield followed(begun(), over(2), quest=RAN)

    running = typed(serve(answer), start="import signal; signal.signal(2, signal.SIG_IGN); " + START)
    running.says("run #7", "stderr")
    running.interrupt()
    going.set()
    assert running.end() == (0, "", BEGUN)


def test_a_stdout_that_takes_nothing_holds_no_signal_up(serve: Serve, typed: Start) -> None:
    """The first one hangs up though the client is in the middle of writing."""
    gone = threading.Event()

    def answer(request: dict[str, Any]) -> Iterator[bytes]:
        if method(request) == "Run":
            yield first() + followed(begun(), out(2, "x" * (1 << 20)), state="running")
            gone.set()
        else:
            yield followed(over(3, "interrupted"), quest=AGAIN)

    service = serve(answer)
    running = typed(service)
    running.says("run #7", "stderr")
    assert gone.wait(60)
    running.interrupt()
    running.says("interrupting", "stderr")
    status, text, _ = running.end()
    assert (status, len(text)) == (130, 1 << 20)
