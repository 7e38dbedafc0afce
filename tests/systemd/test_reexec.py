"""`qlctl reexec` as systemd sees it: one service that reloads, with attempts of both isolations in it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import SHELL
from tests.systemd.lab import Lab, LabDaemon

USER = "ruth"
ATTEMPTS = 20
CONFIG = f"""{SHELL}
scheduler.max_concurrent = {2 * ATTEMPTS}
executors.unit.command = ["sh", "-c", "{{task}}"]
executors.unit.isolation = "unit"
"""
# So short that a daemon which went silent over the exec would be killed, and so quick that it would not be missed.
UNIT = "[Service]\nWatchdogSec=2\nRestartSec=0\nEnvironment=PYTHONPATH=%h/site\n"
# For a directory on that path: what a new program does that passes for good when it is asked.
DIES = "import os\nif 'QUESTLINED_HANDOVER' in os.environ:\n    os._exit(1)\n"
GATED = (
    'mkfifo "gate-$QUESTLINE_ID"; echo "$QUESTLINE_ID" >>ran; echo before; read go <"gate-$QUESTLINE_ID"; echo after'
)


@pytest.fixture(scope="module")
def daemon(lab: Lab) -> LabDaemon:
    return lab.daemon(USER, CONFIG, unit=UNIT)


def seen(daemon: LabDaemon, name: str) -> Path:
    """A file of the project, from outside."""
    return Path(f"{daemon.lab.root}{daemon.project}/{name}")


def gated(daemon: LabDaemon, number: int) -> list[str]:
    """Quests of either isolation that run and wait at their gates."""
    seen(daemon, "ran").unlink(missing_ok=True)
    lines = [json.dumps({"role": ("unit", "default")[n % 2], "task": GATED}) for n in range(number)]
    added = daemon.json("add", "--from-file", "-", stdin="\n".join(lines))
    quests = sorted(each["id"] for each in added)
    daemon.lab.until(lambda: sorted(ran(daemon)) == quests, f"{number} attempts run")
    return quests


def ran(daemon: LabDaemon) -> list[str]:
    """The quests whose programs have run, once for each time."""
    path = seen(daemon, "ran")
    return path.read_text().split() if path.exists() else []


def let_through(daemon: LabDaemon, quests: list[str]) -> None:
    script = 'for quest in "$@"; do echo go >"gate-$quest"; done'
    daemon.lab.run("sh", "-c", script, "sh", *quests, user=USER, cwd=daemon.project)


def test_attempts_of_both_isolations_go_on_while_clients_add_follow_and_wait(daemon: LabDaemon) -> None:
    """systemd keeps its main process and its unit, restarts nothing and feels no silence; nobody is refused."""
    lab = daemon.lab
    quests = gated(daemon, ATTEMPTS)
    properties = ("MainPID", "NRestarts", "ExecMainStartTimestampMonotonic", "InvocationID")
    before = daemon.show(*properties)
    add = f'n=0; until test -e enough; do {lab.qlctl} add --print-id "echo added" || exit 1; n=$((n+1)); done'
    clients = [
        lab.start("sh", "-c", add, user=USER, cwd=daemon.project),
        lab.start(lab.qlctl, "follow", quests[0], user=USER, cwd=daemon.project),
        lab.start(lab.qlctl, "wait", *quests, user=USER, cwd=daemon.project),
    ]
    for _ in range(3):
        told = daemon.json("reexec")
        assert (told["pid"], told["running"] >= ATTEMPTS) == (daemon.pid, True)
        assert daemon.show("ActiveState", "SubState") == {"ActiveState": "active", "SubState": "running"}
    assert daemon.show(*properties) == before
    assert daemon.json("health", "--all-projects")["problems"] == []
    seen(daemon, "enough").touch()
    adding, following, waiting = clients
    status, told, err = _ended(adding)
    assert status == 0, err
    ids = told.split()
    let_through(daemon, quests)
    assert _ended(following)[:2] == (0, "before\nafter\n")
    assert _ended(waiting)[0] == 0
    daemon.qlctl("wait", *ids)
    assert sorted(ran(daemon)) == quests
    shown = {quest["id"]: quest for quest in daemon.json("list", "--limit", "1000")}
    assert sorted(shown) == sorted((*quests, *ids))
    for name, quest in shown.items():
        wanted = "added\n" if name in ids else "before\nafter\n"
        assert (quest["state"], quest["attempts"], quest["result"]) == ("done", 1, wanted)
    assert len(set(ids)) == len(ids) > 3
    assert "watchdog" not in daemon.log().lower()


def _ended(client: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = client.communicate(timeout=60)
    return client.returncode, out, err


def test_a_cgroup_that_was_handed_over_ends_with_its_attempt(daemon: LabDaemon) -> None:
    """What left its session and its environment dies with it, and the group goes; a new attempt gets one, too."""
    task = "env -i setsid sh -c 'echo $$ >escaped; exec sleep 1000' & until test -s escaped; do :; done; " + GATED
    quest = daemon.add(task)
    daemon.lab.until(lambda: quest in ran(daemon), "it runs")
    groups = Path(f"{daemon.lab.root}/sys/fs/cgroup{daemon.show('ControlGroup')['ControlGroup']}/attempts")
    daemon.qlctl("reexec")
    assert (groups / f"{quest}-1" / "cgroup.procs").read_text()
    let_through(daemon, [quest])
    new = daemon.add("grep ^0:: /proc/self/cgroup")
    daemon.qlctl("wait", quest, new)
    assert daemon.json("show", new)["quest"]["result"].endswith(f"/attempts/{new}-1\n")
    escaped = seen(daemon, "escaped").read_text().strip()
    assert daemon.lab.run("kill", "-0", escaped, check=False).returncode != 0
    assert not [group for group in groups.iterdir() if group.is_dir()]


def test_a_program_that_would_not_start_is_refused_and_the_service_stays_active(daemon: LabDaemon) -> None:
    daemon.lab.write(daemon.config, CONFIG + "heartbeet = 3\n", user=USER)
    before = daemon.show("MainPID", "ActiveEnterTimestampMonotonic")
    done = daemon.qlctl("reexec", check=False)
    assert (done.returncode, "heartbeet" in done.stderr, "nothing was changed" in done.stderr) == (78, True, True)
    assert daemon.show("MainPID", "ActiveEnterTimestampMonotonic") == before
    daemon.lab.write(daemon.config, CONFIG, user=USER)
    daemon.qlctl("reexec")


def test_a_new_program_that_dies_at_once_is_told_and_costs_no_unit(daemon: LabDaemon) -> None:
    """systemd starts it again. What ran as a child is interrupted and runs again, what ran as a unit goes on."""
    quests = gated(daemon, 2)
    site = daemon.lab.write(f"{daemon.lab.home(USER)}/site/sitecustomize.py", DIES, user=USER)
    before = daemon.pid
    done = daemon.qlctl("reexec", check=False)
    daemon.lab.run("rm", site)
    assert (done.returncode, f"started anew (pid {daemon.pid})" in done.stderr) == (75, True), done.stderr
    assert daemon.pid != before
    daemon.lab.until(lambda: len(ran(daemon)) == 3, "the interrupted one runs again")
    let_through(daemon, quests)
    daemon.qlctl("wait", *quests)
    shown = [daemon.json("show", quest)["quest"] for quest in quests]
    assert {(quest["role"], quest["attempts"]) for quest in shown} == {("unit", 1), ("default", 2)}


def test_a_stop_after_it_is_a_clean_one(daemon: LabDaemon) -> None:
    """And the socket unit, whose descriptor was handed over, starts it again for the next client."""
    daemon.qlctl("reexec")
    daemon.stop()
    assert daemon.show("ActiveState", "Result", "ExecMainStatus") == {
        "ActiveState": "inactive",
        "Result": "success",
        "ExecMainStatus": "0",
    }
    quest = daemon.add("echo again")
    daemon.qlctl("wait", quest)
    assert daemon.json("show", quest)["quest"]["result"] == "again\n"
