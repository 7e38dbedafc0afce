"""An agent inside the daemon's own attempt says how it went; that counts when its process has ended."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.desk import Hold
from tests.integration.server.peer import LEASES, QUESTS, Peer, Refused

AGENT = """
import json, os, socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect(os.environ["QUESTLINED_SOCKET"])
for line in sys.argv[1:]:
    method, parameters = json.loads(line)
    text = json.dumps(parameters)
    for name in ("ID", "RUN", "PROJECT"):
        text = text.replace("$" + name, os.environ["QUESTLINE_" + name])
    parameters = json.loads(text)
    if "run" in parameters:
        parameters["run"] = int(parameters["run"])
    door.sendall(json.dumps({"method": "io.questline.Leases." + method, "parameters": parameters}).encode() + b"\\0")
    reply = b""
    while not reply.endswith(b"\\0"):
        reply += door.recv(65536)
    with open("reply", "ab") as file:
        file.write(reply.rstrip(b"\\0") + b"\\n")
"""


def agent(project: Path, *calls: tuple[str, dict[str, Any]]) -> str:
    """A shell command that makes these calls from inside; `$ID`, `$RUN`, `$PROJECT` are what its environment says."""
    (project / "agent.py").write_text(AGENT)
    return shlex.join([sys.executable, "-I", "agent.py", *(json.dumps(call) for call in calls)])


def replies(project: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project / "reply").read_text().splitlines()]


@pytest.mark.parametrize(
    "named", [{"attempt": "$ID/1"}, {"project": "$PROJECT", "run": "$RUN"}, {"directory": "$PROJECT", "run": "$RUN"}]
)
def test_done_from_inside_counts_when_the_process_has_ended(
    peer: Peer, project: Path, hold: Hold, named: dict[str, Any]
) -> None:
    """Until then the quest runs on; its exit status no longer matters."""
    report = ("Done", {**named, "result": "said", "summary": "short", "commit": "c0ffee"})
    quest = peer.add(f"{agent(project, report)}; {hold.task}; exit 9")
    hold.running()
    assert replies(project)[0]["parameters"]["quest"]["state"] == "running"
    assert peer.quest(quest)["state"] == "running"
    hold.release()
    end = peer.ended(quest)
    assert (end["state"], end["result"], end["class"]) == ("done", "said", "ok")
    (run,) = peer.call(QUESTS + "Runs", id=quest)["runs"]
    assert (run["exitCode"], run["outcome"], run["summary"], run["commit"]) == (9, "done", "short", "c0ffee")


def test_without_a_result_of_its_own_the_output_is_the_result(peer: Peer, project: Path) -> None:
    """Done says only that it is done."""
    end = peer.ended(peer.add(f"echo out; {agent(project, ('Done', {'attempt': '$ID/1'}))}; exit 1"))
    assert (end["state"], end["result"]) == ("done", "out\n")


def test_block_from_inside_puts_the_question_to_a_person(peer: Peer, project: Path) -> None:
    """Though the process ends with 0."""
    report = ("Block", {"attempt": "$ID/1", "question": "red or blue?", "choices": ["red", "blue"], "reason": "unsure"})
    end = peer.ended(peer.add(agent(project, report)))
    assert (end["state"], end["question"], end["choices"]) == ("blocked", "red or blue?", ["red", "blue"])
    assert end["attempts"] - end["refunds"] == 0


def test_fail_from_inside_fails_though_the_process_ends_well(peer: Peer, project: Path) -> None:
    """With the reason it gave."""
    end = peer.ended(peer.add(agent(project, ("Fail", {"attempt": "$ID/1", "reason": "cannot"}))))
    assert (end["state"], end["error"], end["failureKind"]) == ("failed", "cannot", "execution")


def test_the_last_report_counts(peer: Peer, project: Path) -> None:
    """An agent may change its mind while it runs."""
    calls = (("Block", {"attempt": "$ID/1", "question": "?"}), ("Done", {"attempt": "$ID/1", "result": "after all"}))
    end = peer.ended(peer.add(agent(project, *calls)))
    assert (end["state"], end["result"]) == ("done", "after all")
    assert "question" not in end


def test_a_report_does_not_undo_a_cancel(peer: Peer, project: Path, hold: Hold) -> None:
    """Cancelled stays cancelled."""
    quest = peer.add(f"{agent(project, ('Done', {'attempt': '$ID/1'}))}; {hold.task}")
    hold.running()
    peer.call(QUESTS + "Cancel", id=quest)
    assert peer.ended(quest)["state"] == "cancelled"


def test_a_report_after_the_end_is_stale(peer: Peer, project: Path) -> None:
    """And one for the attempt before this one, too."""
    quest = peer.add("exit 1", maxAttempts=2)
    peer.ended(quest)
    for attempt in (1, 2):
        with pytest.raises(Refused) as caught:
            peer.call(LEASES + "Done", attempt=f"{quest}/{attempt}")
        assert caught.value.name == "io.questline.StaleLease"
    assert peer.quest(quest)["state"] == "failed"


def test_a_repeated_report_is_answered_again_after_the_end(peer: Peer, hold: Hold) -> None:
    """Its connection was lost before it heard; by now the attempt is over."""
    quest = peer.add(hold.task)
    hold.running()
    report = {"attempt": f"{quest}/1", "result": "said", "requestId": f"r {quest}"}
    peer.call(LEASES + "Done", **report)
    hold.release()
    peer.ended(quest)
    assert peer.call(LEASES + "Done", **report)["quest"]["state"] == "done"


def test_an_attempt_knows_who_it_is(peer: Peer, project: Path) -> None:
    """Its environment names quest, run, project and socket, and marks its processes."""
    quest = peer.add("env >environment")
    peer.ended(quest)
    seen = dict(line.split("=", 1) for line in (project / "environment").read_text().splitlines() if "=" in line)
    assert (seen["QUESTLINE_ID"], seen["QUESTLINE_RUN"], seen["QUESTLINE_PROJECT"]) == (quest, "1", str(project))
    assert seen["QUESTLINE_ATTEMPT"].split(":")[1:] == [quest, "1"]
    assert seen["QUESTLINED_SOCKET"].endswith("s.sock")
