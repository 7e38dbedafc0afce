"""Whatever Unicode a client sends is refused naming its field, or arrives unchanged: in argv, stdin, files, answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.fuzz.mutate import WORDS, text
from tests.integration.server.peer import QUESTS, Peer
from tests.support.daemon import REPOSITORY, Daemon

SEED = int(os.environ.get("FUZZ_SEED", "20265"))
TEXTS = 300
# A role whose program leaves its own argv, as the kernel has it, its standard input and its task file.
DUMP = """
scheduler.max_concurrent = 4
[executors.dump]
command = ["sh", "-c", '''cat /proc/$$/cmdline >"$1.argv"; cat >"$1.stdin"; cat "$2" >"$1.file"; printf ok''',
  "dump", "{id}", "{task_file}", "{task}", "-{task}{name}", "{context}", "{name}", "{prompt}"]
stdin = "prompt"
"""
SINGLE = [
    chr(point)
    for point in (*range(1, 32), 127, 128, 133, 159, 160, 173, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF, 0x10FFFF)
]
HAND_MADE = (
    "quotes ' \" ` \\", "two\nlines\r\nand\rthree\n", "\n\nlead", "trail \n\n", "\ttab\t",
    "$(touch pwned) `touch pwned`", "; touch pwned &",
    "$HOME ${HOME} ~ * ? [a]", "%s %d %n %% %(x)s", "{} {task} {prompt} {task_file} {id} {nothing} {{task}} }{",
    "--help", "-c", "-", "--",
    "\u202eright to left\u202c", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "e\u0301 \u00e9 n\u0303 \u00f1", "\u1112\u1161\u11ab \ud55c",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "Z\u0351\u036b\u0343\u036a",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07", "\x08\x7f\x9b",
    "\uffff\ufffe\ufdd0\U0001ffff", "x" * (100 * 1024), "\u20ac" * (34 * 1024), "a\n" * (50 * 1024),
    "'" * 1000, "\\" * 1001, "\u00a0x\u3000",
)  # fmt: skip


def texts() -> list[str]:
    """Those made by hand, each odd character, and mixtures."""
    random = Random(SEED)
    made = [
        *HAND_MADE,
        *(f"a{each}b" for each in SINGLE),
        *(word for word in WORDS if word.strip() and "\0" not in word),
    ]
    while len(made) < TEXTS:
        mixed = "".join(
            random.choice((text(random), random.choice(HAND_MADE)[:200], " ")) for _ in range(random.randrange(1, 5))
        )
        if mixed.strip() and "\0" not in mixed:
            made.append(mixed)
    return made


@pytest.fixture(scope="module")
def dumping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with that role. Its log has no fault at the end."""
    with Daemon(tmp_path_factory.mktemp("texts"), DUMP) as daemon:
        yield daemon
        assert daemon.stop() == 0
    assert "Traceback" not in daemon.log.read_text()


def arrived(daemon: Daemon, shown: dict[str, Any], task: str, context: str | None) -> None:
    """What the program was given is what was sent, to the byte."""
    quest = shown["quest"]
    assert quest["state"] == "done", quest
    assert (quest["task"], quest.get("context")) == (task, context or None)
    whole = f"{task}\n\nContext:\n{context}" if context else task
    left = {kind: (daemon.project / f"{quest['id']}.{kind}").read_bytes() for kind in ("argv", "stdin", "file")}
    argv = left["argv"].split(b"\0")
    name = quest["name"].encode()
    assert argv[6:] == [
        whole.encode(),
        b"-" + whole.encode() + name,
        (context or "").encode(),
        name,
        whole.encode(),
        b"",
    ]
    assert left["stdin"] == left["file"] == whole.encode()


def test_a_task_arrives_as_it_was_sent(dumping: Daemon) -> None:
    """Three hundred texts, half of them with another as context; nothing in them is expanded or executed."""
    sent: dict[str, tuple[str, str | None]] = {}
    made = texts()
    with Peer(dumping.socket, str(dumping.project)) as peer:
        for number, task in enumerate(made):
            context = made[-number] if number % 2 and len(made[-number]) < 10_000 and len(task) < 10_000 else None
            sent[peer.add(task, role="dump", **({} if context is None else {"context": context}))] = (task, context)
        for quest, (task, context) in sent.items():
            peer.ended(quest)
            arrived(dumping, peer.call(QUESTS + "Get", id=quest), task, context)
        listed: dict[str, str] = {}
        cursor: dict[str, str] = {}
        while True:
            page = peer.call(QUESTS + "List", directory=peer.directory, limit=100, **cursor)
            listed |= {quest["id"]: quest["task"] for quest in page["quests"]}
            if "next" not in page:
                break
            cursor = {"cursor": page["next"]}
    assert listed.keys() == sent.keys()
    for quest, shown in listed.items():
        task = sent[quest][0]
        assert shown == task if len(task) <= 200 else task.startswith(shown[:190]), quest
    assert not list(dumping.project.glob("*pwned*"))


def _utf8(words: list[str]) -> list[bytes]:
    return [word.encode() for word in words]


@pytest.mark.parametrize("number", range(len(HAND_MADE)))
def test_what_is_typed_arrives_as_well(dumping: Daemon, number: int) -> None:
    """Through qlctl's argv or its standard input, and out of show and list --json."""
    task = HAND_MADE[number]
    words = ["add", "--wait", "--json", "dump", "--", task]
    typed = len(task) < 50_000 and task != "-"  # alone it is standard input
    done = subprocess.run(
        [sys.executable, "-m", "qlctl", *_utf8(words if typed else [*words[:-2], "-"])],
        env=dumping.environ(PYTHONPATH=str(REPOSITORY), LC_ALL="C.UTF-8"),
        cwd=dumping.project,
        input=b"" if typed else task.encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    added = json.loads(done.stdout)
    shown = dumping.json("show", added["id"])
    arrived(dumping, shown, task, None)
    assert shown["quest"]["result"] == added["result"] == "ok"


NAMES = [*HAND_MADE, *WORDS, *SINGLE, "x" * 200, "x" * 201, "\u20ac" * 200, "a" * 64]


@pytest.mark.parametrize("field", ["task", "context", "name", "lane", "role", "requestId", "path", "project"])
def test_a_text_is_kept_as_it_is_or_refused_naming_its_field(dumping: Daemon, field: str) -> None:
    """Every field that takes one, with every odd text; nothing is cut, trimmed or changed on the way."""
    kept = 0
    with Peer(dumping.socket, str(dumping.project)) as peer:
        for written in NAMES:
            given = {"task": "true", "directory": peer.directory, "external": True, field: written}
            reply = peer.raw(QUESTS + "Add", given)
            if "error" in reply:
                assert reply["error"] == "io.questline.InvalidInput", (written, reply)
                assert reply["parameters"]["field"] == field, (written, reply)
                continue
            quest = reply["parameters"]["quest"]
            kept += 1
            shown = peer.quest(quest["id"])
            if field in ("task", "name", "lane", "role"):
                assert shown[field] == written
            if field == "context":
                assert shown.get("context", "") == written
            assert shown["name"] == shown["name"].strip() or field == "name"
    assert kept > (0 if field == "project" else 3)


@pytest.mark.parametrize("lone", ['"\\ud800"', '"a\\udfff"', '"\\ud800\\u0041"', '"\\udc00\\ud800"'])
@pytest.mark.parametrize("field", ["task", "name", "context", "role", "nothing"])
def test_a_lone_surrogate_is_refused(dumping: Daemon, field: str, lone: str) -> None:
    """Such a frame is no JSON: it is told so, and what was meant is not carried out."""
    with Peer(dumping.socket, str(dumping.project)) as peer:
        parameters = '{"task":"x","external":true,"project":"surrogates","' + field + '":' + lone + "}"
        peer.send(b'{"method":"io.questline.Quests.Add","parameters":' + parameters.encode() + b"}\0")
        reply = peer.reply()
        assert reply["error"] == "io.questline.InvalidInput"
        assert reply["parameters"]["field"] in ("frame", "parameters")
        assert "surrogates" in reply["parameters"]["hint"] or "surrogate" in reply["parameters"]["message"]
    with Peer(dumping.socket, str(dumping.project)) as peer:
        assert peer.call(QUESTS + "List", project="surrogates")["quests"] == []
