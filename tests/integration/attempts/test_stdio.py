"""What a quest's program reads, is called with, and writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.attempts.scene import Scene, scene

ARGV = '["sh", "-c", \'printf "%s\\0" "$@"\', "sh", {words}]'
CONFIG = f"""
executors.file.output = "file"
executors.prompt.stdin = "prompt"
executors.prompt.command = ["cat"]
executors.taskfile.command = ["sh", "-c", 'cat "$1"; stat -c %a "$1" >&2', "sh", "{{task_file}}"]
executors.argv.command = {ARGV.format(words='"{task}", "{name}", "{role}-{id}", "{lane}", "{project}"')}
executors.private.umask = "077"
executors.short.max_inline_output_bytes = 1000
executors.short.output_preview_bytes = 100
executors.missing.command = ["no-such-program-anywhere", "{{task}}"]
executors.plain.command = ["./plain-file", "{{task}}"]
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("stdio"), CONFIG) as playing:
        yield playing


def outcome(shown: dict[str, Any]) -> tuple[str, str | None]:
    return shown["quest"]["state"], shown["quest"].get("result")


@pytest.mark.parametrize("role", ["default", "file"])
def test_stdin_is_at_its_end_at_once(stage: Scene, role: str) -> None:
    """A program that reads it to the end does not wait for ever."""
    assert outcome(stage.run("cat; echo after", role=role)) == ("done", "after\n")


@pytest.mark.parametrize("role", ["prompt", "taskfile"])
def test_a_prompt_too_large_for_an_argument_arrives_whole(stage: Scene, role: str) -> None:
    """By stdin or by the task file, which nobody else may read."""
    task = "é“quoted” $(id) {task} %s\n" * 10_000
    shown = stage.run(task, "--context", "and {context}", role=role)
    assert shown["files"]["stdout"].decode() == f"{task}\n\nContext:\nand {{context}}"
    assert shown["files"]["stderr"] == (b"600\n" if role == "taskfile" else b"")


WEIRD = [
    "'single' \"double\" `back`",
    "two\nlines\n",
    "$(id) $HOME ${x}",
    "100% %s %n",
    "{task} {name} {} {{x}}",
    "-rf --",
]


@pytest.mark.parametrize("text", [*WEIRD, "\\ \\n \\", "🗡 ümläut \u202ertl", " spaces  ", "*?[a]", "a;b|c&d>e"])
def test_odd_text_arrives_unchanged(stage: Scene, text: str) -> None:
    """One argument each, with nothing expanded. A name is one line."""
    name = text.replace("\n", " ")
    quest = stage.qlctl("add", "--print-id", f"--name={name}", "--lane=l.1", "--", "argv", text).stdout.strip()
    words = stage.ended(quest)["files"]["stdout"].decode().split("\0")[:-1]
    assert words == [text, name, f"argv-{quest}", "l.1", str(stage.project)]


def test_a_result_is_all_of_stdout_and_an_error_is_a_reason_and_stderr(stage: Scene) -> None:
    shown = stage.run("echo out; echo err >&2; exit 3")
    assert outcome(shown) == ("failed", "out\n")
    reason, _, rest = shown["quest"]["error"].partition("\n")
    assert "3" in reason
    assert rest == "err\n"


@pytest.mark.parametrize("role", ["default", "file"])
def test_bytes_that_are_no_text_are_kept_and_shown_replaced(stage: Scene, role: str) -> None:
    """The file is verbatim; the result is valid text, NUL as U+FFFD, too."""
    shown = stage.run(r"printf 'a\377b\000c\303'", role=role)
    assert shown["files"]["stdout"] == b"a\xffb\0c\xc3"
    assert outcome(shown) == ("done", "a\ufffdb\ufffdc\ufffd")


@pytest.mark.parametrize("role", ["default", "file"])
def test_a_line_of_three_megabytes_is_kept(stage: Scene, role: str) -> None:
    """No limit on lines in text, and no character is harmed where reads or previews cut."""
    shown = stage.run("printf x; yes é | head -n 1500000 | tr -d '\\n'", role=role)
    assert shown["files"]["stdout"] == b"x" + "é".encode() * 1_500_000
    assert shown["quest"]["state"] == "done"
    assert "\ufffd" not in shown["quest"]["result"]
    assert "bytes left out" in shown["quest"]["result"]


def test_above_the_limit_a_result_is_head_and_tail_with_the_number_left_out(stage: Scene) -> None:
    """executor.max_inline_output_bytes and output_preview_bytes."""
    shown = stage.run("printf %01000d 1", role="short")
    assert shown["quest"]["result"] == f"{1:01000d}"
    shown = stage.run("printf %02000d 7; printf %02000d 8 >&2; exit 1", role="short")
    assert shown["quest"]["result"] == f"{'0' * 100}\n… 1800 bytes left out …\n{'0' * 99}7"
    assert shown["quest"]["error"].endswith(f"{'0' * 100}\n… 1800 bytes left out …\n{'0' * 99}8")


def test_a_preview_is_cut_between_characters(stage: Scene) -> None:
    """Neither end shows a half of one, and the number counts the bytes that are in neither."""
    shown = stage.run("printf x; yes é | head -n 1000 | tr -d '\\n'; printf y", role="short")
    assert shown["quest"]["result"] == f"x{'é' * 49}\n… {2002 - 198} bytes left out …\n{'é' * 49}y"


def test_writing_to_dev_stderr_loses_nothing(stage: Scene) -> None:
    """Which opens it anew, and would truncate a file."""
    shown = stage.run("echo 1; echo a >&2; echo 2 >/dev/stdout; echo b >/dev/stderr; echo 3; echo c >&2")
    assert (shown["files"]["stdout"], shown["files"]["stderr"]) == (b"1\n2\n3\n", b"a\nb\nc\n")


def test_several_writers_of_one_file_lose_nothing(stage: Scene) -> None:
    """output = "file" appends."""
    shown = stage.run("for n in 1 2 3 4 5 6 7 8; do seq 1 200 & done; wait; (seq 1 200; seq 1 200) | cat", role="file")
    assert sorted(shown["files"]["stdout"].split()) == sorted(b"%d" % n for n in range(1, 201) for _ in range(10))


@pytest.mark.parametrize("role", ["default", "file"])
def test_a_program_that_closes_its_stdout_is_still_running(stage: Scene, role: str) -> None:
    """Until it exits."""
    task = stage.held("echo before; exec >&- 2>&-", "exit 5")
    quest = stage.add_as(role, task)
    stage.started.next()
    assert stage.json("show", quest)["quest"]["state"] == "running"
    stage.hold.put()
    shown = stage.ended(quest)
    assert (outcome(shown), shown["run"]["exitCode"]) == (("failed", "before\n"), 5)


@pytest.mark.parametrize(("role", "mode"), [("default", "644"), ("private", "600")])
def test_the_umask_is_the_executors(stage: Scene, role: str, mode: str) -> None:
    """022 whatever the daemon's is; the artifacts are private anyway."""
    shown = stage.run("f=$(mktemp -u); echo >$f; stat -c %a $f; rm $f", role=role)
    assert shown["quest"]["result"] == f"{mode}\n"
    folder = Path(shown["artifacts"][0]["path"]).parent
    assert [oct(path.stat().st_mode & 0o777) for path in (folder, folder / "stdout")] == ["0o700", "0o600"]


@pytest.mark.parametrize(
    ("role", "said"), [("missing", "no-such-program-anywhere"), ("plain", "plain-file is not executable")]
)
def test_a_program_that_cannot_run_fails_at_once_and_uncharged(stage: Scene, role: str, said: str) -> None:
    """And is named."""
    (stage.project / "plain-file").write_text("#!/bin/sh\n")
    quest = stage.run("x", "--max-attempts", "5", role=role)["quest"]
    assert (quest["state"], quest["class"], quest["attempts"], quest["refunds"]) == ("failed", "bad_config", 1, 1)
    assert said in quest["error"]


def test_nothing_is_left(stage: Scene) -> None:
    """Of all the above."""
    stage.in_order()
