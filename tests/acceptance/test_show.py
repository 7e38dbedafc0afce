"""qlctl show"""

from __future__ import annotations

import stat
from pathlib import Path

from tests.acceptance.desk import Desk


def test_json_has_quest_runs_events_and_artifacts(desk: Desk) -> None:
    """Each as the verbs of their own give them."""
    quest = desk.add("echo out; echo err >&2; exit 2", "--max-attempts", "2")
    desk.ended(quest)
    shown = desk.json("show", quest)
    assert list(shown) == ["quest", "runs", "events", "artifacts"]
    assert shown["quest"] == desk.json("list")[0]
    assert shown["runs"] == desk.json("runs", quest)
    assert shown["events"] == desk.json("events", quest)[::-1]
    assert {(each["attempt"], each["kind"]) for each in shown["artifacts"]} == {
        (attempt, kind) for attempt in (1, 2) for kind in ("stdout", "stderr")
    }


def test_artifacts_are_private_files_of_the_size_that_is_told(desk: Desk) -> None:
    """0600 in 0700."""
    quest = desk.add("echo out; echo error >&2; exit 2")
    desk.ended(quest)
    for artifact in desk.json("show", quest)["artifacts"]:
        path = Path(artifact["path"])
        assert path.read_text() == {"stdout": "out\n", "stderr": "error\n"}[artifact["kind"]]
        assert path.stat().st_size == artifact["bytes"]
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)


def test_error_is_a_reason_and_then_stderr(desk: Desk) -> None:
    """Both are kept, and both are shown."""
    quest = desk.add("echo out; echo went wrong >&2; exit 2")
    end = desk.ended(quest)
    assert (end["result"], end["error"], end["class"]) == ("out\n", "exit code 2\nwent wrong\n", "failed")
    out = desk.ok("show", quest)
    for words in ("failed", "exit code 2", "went wrong", "1 of 1", "run #1", "stdout", "enqueued"):
        assert words in out


def test_long_texts_are_whole(desk: Desk) -> None:
    """Other than in a list."""
    text = "x" * 5000
    quest = desk.add(f": {text}", "--context", text, "--external")
    shown = desk.json("show", quest)["quest"]
    assert (shown["task"], shown["context"]) == (f": {text}", text)
    assert text in desk.ok("show", quest)


def test_output_of_any_bytes_is_valid_text(desk: Desk) -> None:
    """The file is verbatim; result shows what is no UTF-8, and NUL, replaced."""
    quest = desk.add(r"printf 'a\000b\377c\303\244'")
    assert desk.ended(quest)["result"] == "a\ufffdb\ufffdcä"
    (path,) = [each["path"] for each in desk.json("show", quest)["artifacts"] if each["kind"] == "stdout"]
    assert Path(path).read_bytes() == b"a\0b\xffc\xc3\xa4"


def test_a_beginning_of_an_id_will_do(desk: Desk) -> None:
    """With or without its q-."""
    quest = desk.add("true", "--external")
    assert desk.json("show", quest[:-1])["quest"]["id"] == quest
    assert desk.json("show", quest[2:])["quest"]["id"] == quest


def test_a_running_quest_shows_its_attempt(desk: Desk) -> None:
    """Not finished, with its lease; its pid is in the journal."""
    hold = desk.hold()
    quest = desk.add(hold.task)
    hold.running()
    shown = desk.json("show", quest)
    (run,) = shown["runs"]
    assert (shown["quest"]["state"], run["id"], run["number"]) == ("running", f"{quest}/1", 1)
    assert "finishedAt" not in run
    assert shown["quest"]["leaseExpiresAt"] > shown["quest"]["startedAt"]
    assert "running" in desk.ok("show", quest)
    hold.release()
