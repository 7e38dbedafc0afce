"""The real Claude Code in `claude -p`, by the executor that every installation has. Only its model is a stand-in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.installed import folder
from tests.agents.stage import GRACE_S, KEY, Agents, agents
from tests.support.evidence import alive

TIMEOUT = "8s"  # long enough for the agent to have begun on a machine that does much else
SOON_S = 8  # likewise; it is one or two
SESSIONS = 3  # the agent's, its tool's, and that of what got away from the tool


@pytest.fixture(scope="session")
def programs() -> Path:
    return folder()


@pytest.fixture
def stage(tmp_path: Path, programs: Path) -> Iterator[Agents]:
    with agents(tmp_path, programs) as playing:
        yield playing


def steps(stage: Agents) -> list[str]:
    """What the model was asked for, by quests' prompts."""
    return [request["step"] for request in stage.api.requests if request["step"] != "say mock ok"]


def test_a_quest_uses_a_tool_and_its_answer_is_the_result(stage: Agents) -> None:
    """The program is found on the submitter's PATH; what its tool made is there; the key is in no record of ours."""
    quest = stage.ask(f"{stage.tool('make', 'echo made by a tool >made')} [[mock say The file is there.]]")
    shown = stage.ended(quest)
    assert (shown["quest"]["state"], shown["quest"]["result"]) == ("done", "The file is there.\n")
    assert (stage.project / "made").read_text() == "made by a tool\n"
    assert steps(stage) == ["sh sh ./make", "say The file is there."]
    assert KEY not in stage.qlctl("show", quest).stdout + stage.log.read_text()
    stage.in_order()


def test_a_prompt_is_the_agents_whatever_is_in_it(stage: Agents) -> None:
    """Quotes, newlines, $(...), % and braces arrive as they were typed."""
    said = 'it\'s "quoted", $(touch bad) `touch bad` %s {task} {} \\ and \n two lines'
    quest = stage.ask(f"[[mock say {said}]]")
    shown = stage.ended(quest)
    assert (shown["quest"]["state"], shown["quest"]["result"]) == ("done", f"{said}\n")
    assert not (stage.project / "bad").exists()


def test_cancelled_in_the_middle_of_a_tool_nothing_of_it_is_left(stage: Agents) -> None:
    """Not the tool in its own session, not what got away from that; the only slot is free soon after the grace."""
    quest = stage.ask(stage.endless())
    assert stage.at_work() == SESSIONS
    begun = time.monotonic()
    stage.qlctl("cancel", quest)
    waiting = stage.add_as("shell", "echo next")
    shown = stage.ended(quest)
    assert (shown["quest"]["state"], shown["quest"]["class"]) == ("cancelled", "cancelled")
    assert alive(stage.database) == []
    assert stage.ended(waiting)["quest"]["state"] == "done"
    assert time.monotonic() - begun < GRACE_S + SOON_S
    stage.in_order()


def test_killed_in_the_middle_of_a_tool_the_daemon_starts_anew(stage: Agents) -> None:
    """Of the first attempt nothing lives when the second begins, in which the agent does its work."""
    quest = stage.ask(f"{stage.endless()} [[mock say never]]")
    assert stage.at_work() == SESSIONS
    stage.kill()
    assert alive(stage.database)
    stage.tool("endless", stage.evidence.task("true"))
    stage.start()
    shown = stage.ended(quest)
    assert (shown["quest"]["state"], shown["quest"]["result"]) == ("done", "never\n")
    assert (shown["quest"]["attempts"], shown["quest"]["refunds"]) == (2, 1)
    assert [run["class"] for run in shown["runs"]] == ["lost", "ok"]
    assert stage.evidence.runs(quest) == ["1", "2"]
    stage.in_order()


def test_the_time_is_over_in_the_middle_of_a_tool(stage: Agents) -> None:
    """Failed as timeout, and nothing of it is left."""
    quest = stage.ask(stage.endless(), "--timeout", TIMEOUT)
    assert stage.at_work() == SESSIONS
    shown = stage.ended(quest)
    assert (shown["quest"]["state"], shown["quest"]["class"]) == ("failed", "timeout")
    assert (shown["quest"]["attempts"], shown["quest"]["refunds"]) == (1, 0)
    assert alive(stage.database) == []
    stage.in_order()


def test_an_answer_that_never_comes_ends_with_the_time(stage: Agents) -> None:
    """The agent waits for its model much longer than anybody wants to."""
    shown = stage.ended(stage.ask("[[mock hang]]", "--timeout", TIMEOUT))
    assert (shown["quest"]["state"], shown["quest"]["class"]) == ("failed", "timeout")
    assert set(steps(stage)) == {"hang"}
    stage.in_order()


def test_what_a_tool_leaves_behind_ends_with_the_quest(stage: Agents) -> None:
    """A server that the agent put into the background is killed, the answer kept."""
    away = f"setsid nohup sh -c 'echo up >\"{stage.started.path}\"; exec tail -f /dev/null' >/dev/null 2>&1 &"
    quest = stage.ask(f"{stage.tool('serve', away)} [[mock say It serves.]]")
    shown = stage.ended(quest)
    assert (shown["quest"]["state"], shown["quest"]["result"]) == ("done", "It serves.\n")
    assert alive(stage.database) == []


def test_an_error_of_the_api_is_told_without_digging(stage: Agents) -> None:
    """The agent prints it on stdout and exits with 1: who waits sees it at once, and show has both."""
    done = stage.qlctl("add", "--wait", "--", "[[mock 400]]", check=False, PATH=stage.path)
    assert (done.returncode, done.stdout) == (1, "API Error: 400 mock error 400\n")
    assert "is failed: exit code 1" in done.stderr
    (quest,) = stage.call("Quests.List", directory=str(stage.project))["quests"]
    assert (quest["state"], quest["class"]) == ("failed", "failed")
    text = stage.qlctl("show", quest["id"]).stdout
    assert "result:\n    API Error: 400 mock error 400\n" in text
    assert "error:\n    exit code 1\n" in text


def test_an_agent_that_is_not_on_the_path_of_who_added_it(stage: Agents) -> None:
    """No attempt is charged, and the program is named."""
    shown = stage.ended(stage.add("anything"))
    assert (shown["quest"]["state"], shown["quest"]["class"]) == ("failed", "bad_config")
    assert shown["quest"]["attempts"] == shown["quest"]["refunds"]
    assert "claude is not on the PATH" in shown["quest"]["error"]
