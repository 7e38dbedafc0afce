"""qlctl add"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk
from tests.support.daemon import SHELL, Daemon

AWKWARD = "$(touch x) `id` \"quoted\" 'single' %s {} {context} $$ $& \\1\n\ttab -- --dash ä€𝄞"


def test_a_quest_runs_and_is_done(daemon: Daemon) -> None:
    """Its stdout is the result, its stderr an artifact."""
    added = daemon.qlctl("add", "--wait", "--json", "echo hello; echo oops >&2")
    shown = daemon.json("list")
    assert added.returncode == 0
    assert [(quest["state"], quest["result"]) for quest in shown] == [("done", "hello\n")]


def test_it_says_which_quest_in_which_project_on_which_daemon(desk: Desk) -> None:
    """In one line, with the id."""
    line = desk.ok("add", "--external", "true")
    (quest,) = desk.json("list")
    assert line == f"{quest['id']} queued in {desk.key} (questlined on {desk.daemon.socket})\n"


def test_print_id_prints_the_id_and_nothing_else(desk: Desk) -> None:
    """For scripts."""
    printed = desk.ok("add", "--print-id", "--external", "true")
    assert printed == desk.json("list")[0]["id"] + "\n"


def test_every_option_reaches_the_quest(desk: Desk) -> None:
    """And --json gives it back with `deduped`."""
    first = desk.add("first", "--external")
    options = ["--name", "n", "--priority=-7", "--context", "c", "--depends", first, "--max-attempts", "4"]
    more = ["--not-before", "2100-01-01T00:00:00Z", "--timeout", "2min 30s", "--lane", "git", "--external"]
    quest = desk.json("add", "review", "do it", *options, *more)
    wanted = {
        "role": "review",
        "task": "do it",
        "name": "n",
        "priority": -7,
        "context": "c",
        "dependsOn": [first],
        "maxAttempts": 4,
        "scheduledAt": 4_102_444_800_000,
        "timeoutMs": 150_000,
        "lane": "git",
        "external": True,
        "deduped": False,
        "state": "queued",
        "project": desk.key,
    }
    assert {key: quest[key] for key in wanted} == wanted
    assert desk.quest(quest["id"]) == {key: value for key, value in quest.items() if key != "deduped"}


def test_defaults_are_the_documented_ones(desk: Desk) -> None:
    """Role default, priority 0, one attempt, a name made of the task; for external quests no bound."""
    quest = desk.json("add", "--not-before", "+1h", "echo one\necho two")
    assert (quest["role"], quest["priority"], quest["maxAttempts"]) == ("default", 0, 1)
    assert (quest["name"], quest["external"]) == ("echo one", False)
    assert desk.json("add", "--external", "x")["maxAttempts"] == 0


@pytest.mark.parametrize("options", [("--title", "t", "--body", "b"), ("--name", "t", "b")])
def test_title_and_body_are_name_and_task(desk: Desk, options: tuple[str, ...]) -> None:
    """And a title alone is both."""
    quest = desk.json("add", "--external", *options)
    assert (quest["name"], quest["task"]) == ("t", "b")
    alone = desk.json("add", "--external", "--title", "t")
    assert (alone["name"], alone["task"]) == ("t", "t")


@pytest.mark.parametrize("way", ["argument", "stdin", "file", "file and role"])
def test_a_task_arrives_unchanged_whichever_way_it_came(desk: Desk, way: str) -> None:
    """Newlines, quotes, signs of shells and templates."""
    (desk.folder / "task file").write_text(AWKWARD)
    arguments, stdin = {
        "argument": (("--", AWKWARD), None),
        "stdin": (("-",), AWKWARD),
        "file": (("--file", "task file"), None),
        "file and role": (("review", "--file", "task file"), None),
    }[way]
    quest = (
        desk.json("add", "--external", *arguments, stdin=stdin)
        if way != "argument"
        else json.loads(desk.ok("add", "--external", "--json", *arguments))
    )
    assert quest["task"] == AWKWARD
    assert quest["role"] == ("review" if "role" in way else "default")


def test_a_task_that_begins_with_a_dash_follows_two(desk: Desk) -> None:
    """Without them it would be an option."""
    assert desk.quest(desk.add("-n", "--external"))["task"] == "-n"
    desk.refused("add", "-n", says=("unknown option -n", "`--`"))


def test_wait_prints_the_result_and_nothing_else(desk: Desk) -> None:
    """What was added is said on stderr."""
    done = desk.run("add", "--wait", "echo one; echo two; echo no >&2")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")
    assert "queued in" in done.stderr


def test_wait_ends_with_1_for_a_quest_that_failed(desk: Desk) -> None:
    """Its output is still printed, and why is on stderr; --json gives the quest."""
    done = desk.run("add", "--wait", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (1, "out\n")
    assert "is failed: exit code 3" in done.stderr
    done = desk.run("add", "--wait", "--json", "exit 3")
    quest = json.loads(done.stdout)
    assert (done.returncode, quest["state"], quest["deduped"]) == (1, "failed", False)


def test_follow_shows_the_output_as_it_comes(desk: Desk) -> None:
    """What was added is said on stderr; the status is that of follow."""
    hold = desk.hold()
    adding = desk.start("add", "--follow", f"echo out; {hold.task}; echo err >&2; exit 3")
    adding.says("out\n")
    (quest,) = desk.json("list")
    hold.release("more\n")
    status, out, err = adding.end()
    assert (status, out) == (1, "out\nmore\n")
    added, *rest = err.splitlines()
    assert added == f"qlctl: {quest['id']} queued in {desk.key} (questlined on {desk.daemon.socket})"
    assert rest == ["err", f"qlctl: {quest['id']} is failed: exit code 3"]
    lines = desk.ok("add", "--follow", "--json", "echo out").splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["state", "output", "end"]
    desk.refused("add", "--follow", "--wait", "true", says=("--wait and --follow",))


def test_a_dependent_runs_after_what_it_depends_on(desk: Desk) -> None:
    """By id and by prefix; a failed one fails it."""
    hold = desk.hold()
    first = desk.add(f"{hold.task}; echo first >>order")
    second = desk.add("echo second >>order", "--depends", first[:-1])
    third = desk.add("echo third >>order", "--depends", f"{first},{second}")
    hold.running()
    assert [desk.quest(quest)["state"] for quest in (second, third)] == ["queued", "queued"]
    hold.release()
    assert desk.ended(third)["state"] == "done"
    assert (desk.folder / "order").read_text() == "first\nsecond\nthird\n"
    failing = desk.add("exit 1")
    child = desk.add("true", "--depends", failing)
    end = desk.ended(child)
    assert (end["state"], end["failureKind"], end["failedDependencyId"]) == ("failed", "dependency", failing)


def test_one_of_a_lane_runs_at_a_time(desk: Desk) -> None:
    """And another lane is not held up."""
    hold = desk.hold()
    first, second = (desk.add(hold.task, "--lane", "git") for _ in range(2))
    hold.running()
    assert desk.json("add", "--wait", "--lane", "other", "true")["state"] == "done"
    assert (desk.quest(second)["state"], hold.started()) == ("queued", False)
    hold.release()
    hold.running()
    assert desk.quest(first)["state"] == "done"
    hold.release()


def test_a_timeout_ends_an_attempt(desk: Desk) -> None:
    """Whatever its children do."""
    quest = desk.add("setsid cat; cat " + str(fifo(desk)), "--timeout", "100ms")
    end = desk.ended(quest)
    assert (end["state"], end["class"]) == ("failed", "timeout")


def fifo(desk: Desk) -> Path:
    """A pipe that nobody ever writes to."""
    path = desk.folder / "never"
    os.mkfifo(path)
    return path


def test_max_attempts_is_how_often_it_fails(desk: Desk) -> None:
    """With backoff between."""
    quest = desk.add("echo x >>tries; exit 1", "--max-attempts", "3")
    assert desk.ended(quest)["attempts"] == 3
    assert (desk.folder / "tries").read_text() == "x\n" * 3


class TestFromFile:
    """Many quests, one JSON object a line."""

    def test_names_of_earlier_lines_are_dependencies(self, desk: Desk) -> None:
        """Empty lines are none; --json gives ids in order."""
        lines = [
            {"task": "echo a >>order", "name": "a"},
            {"task": "echo b >>order", "name": "b", "dependsOn": ["a"], "priority": 9},
            {"task": "echo c >>order", "dependsOn": ["b", "a"], "role": "review"},
        ]
        (desk.folder / "quests").write_text("\n\n".join(json.dumps(line) for line in lines) + "\n")
        added = desk.json("add", "--from-file", "quests")
        assert [entry["deduped"] for entry in added] == [False] * 3
        ids = [entry["id"] for entry in added]
        assert desk.run("wait", *ids).returncode == 0
        assert (desk.folder / "order").read_text() == "a\nb\nc\n"
        assert set(desk.quest(ids[2])["dependsOn"]) == set(ids[:2])
        assert desk.quest(ids[2])["role"] == "review"

    def test_standard_input_and_print_id(self, desk: Desk) -> None:
        """One id a line; without either a sentence."""
        text = '{"task":"x","external":true}\n' * 3
        ids = desk.ok("add", "--from-file", "-", "--print-id", stdin=text).split()
        assert [quest["id"] for quest in desk.json("list")] == ids[::-1]
        assert desk.ok("add", "--from-file", "-", stdin=text).startswith("3 quests added")

    def test_wait_waits_for_all(self, desk: Desk) -> None:
        """1 where one did not end done."""
        done = desk.run("add", "--from-file", "-", "--wait", "--json", stdin='{"task":"true"}\n{"task":"exit 1"}\n')
        assert (done.returncode, [quest["state"] for quest in json.loads(done.stdout)]) == (1, ["done", "failed"])

    def test_more_than_a_call_takes_are_sent_in_several(self, daemon: Daemon) -> None:
        """A name of an earlier call is still a dependency."""
        desk = Desk(daemon, daemon.project)
        lines = [json.dumps({"task": "x", "external": True, "name": "root"})]
        lines += [json.dumps({"task": "x", "external": True})] * 5000
        lines += [json.dumps({"task": "x", "external": True, "dependsOn": ["root"]})]
        ids = desk.ok("add", "--from-file", "-", "--print-id", stdin="\n".join(lines)).split()
        assert len(set(ids)) == 5002
        assert desk.quest(ids[-1])["dependsOn"] == [ids[0]]

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ('{"task":', "no JSON"),
            ("[]", "no JSON object"),
            ('{"name":"x"}', "no task"),
            ('{"task":""}', "no task"),
            ('{"task":"x","pirority":1}', "'pirority'"),
            ('{"task":"x","priority":"high"}', "priority"),
            ('{"task":"x","dependsOn":"a"}', "dependsOn"),
            ('{"task":"a\\u0000b"}', "NUL"),
            ('{"task":"a\\ud800b"}', "UTF-8"),
        ],
    )
    def test_a_bad_line_is_named_by_its_number(self, desk: Desk, line: str, says: str) -> None:
        """Nothing of the file is added."""
        text = f'{{"task":"true"}}\n{line}\n{{"task":"true"}}\n'
        desk.refused("add", "--from-file", "-", says=("line 2", says), stdin=text)

    @pytest.mark.parametrize(
        ("lines", "says"),
        [
            (['{"task":"true"}', '{"task":"x","role":"a b"}'], ("role", "lines 1 to 2", "quests[1]")),
            (['{"task":"true"}', '{"task":"x","dependsOn":["q-000000000000"]}'], ("dependsOn", "q-000000000000")),
            (['{"task":"true"}', '{"task":"x","name":"me","dependsOn":["me"]}'], ("dependsOn", "'me'")),
            (
                ['{"task":"x","name":"a","dependsOn":["b"]}', '{"task":"x","name":"b","dependsOn":["a"]}'],
                ("dependsOn", "circle"),
            ),
        ],
    )
    def test_what_the_daemon_refuses_adds_nothing(self, desk: Desk, lines: list[str], says: tuple[str, ...]) -> None:
        """All of a call or none; with the lines it was in."""
        desk.refused("add", "--from-file", "-", says=says, stdin="\n".join(lines))

    def test_a_file_that_is_not_there_is_named(self, desk: Desk) -> None:
        """And options of single quests do not go with it."""
        desk.refused("add", "--from-file", "nowhere", says=("--from-file", "nowhere"))
        desk.refused("add", "--from-file", "-", "--priority", "1", says=("--priority", "--from-file"), stdin="")


def test_a_large_task_arrives_byte_for_byte_on_stdin_and_in_a_file(tmp_path: Path) -> None:
    """Above what an argument holds; an executor without either refuses it when it is queued."""
    config = SHELL + (
        'executors.stdin.command = ["sha256sum"]\nexecutors.stdin.stdin = "prompt"\n'
        'executors.file.command = ["sha256sum", "{task_file}"]\n'
    )
    task = ("ä€𝄞 \"'$(x)\\ {task}\n" * 8000)[:140_000] + "\r\nend without newline"
    wanted = hashlib.sha256(task.encode()).hexdigest()
    assert len(task.encode()) > 131_072
    with Daemon(tmp_path, config) as daemon:
        desk = Desk(daemon, daemon.project)
        (desk.folder / "task").write_bytes(task.encode())
        for role in ("stdin", "file"):
            assert desk.json("add", role, "--file", "task", "--wait")["result"].split()[0] == wanted
        desk.refused("add", "--file", "task", says=("task", "131071", "stdin", "{task_file}"))
        for size, fits in ((131_071, True), (131_072, False)):
            (desk.folder / "task").write_text(":" + " " * (size - 1))
            if fits:
                assert desk.json("add", "--file", "task", "--wait")["state"] == "done"
            else:
                desk.refused("add", "--file", "task", says=("131072",))
