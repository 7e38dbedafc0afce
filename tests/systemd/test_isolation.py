"""Attempts as transient units of a real systemd: what they promise, what their properties do, and that they outlive
the daemon."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import SHELL
from tests.systemd.lab import Lab, LabDaemon

USER, CRASHED = "iris", "ivy"
ATTEMPTS = 20
SUITES = ("tests/integration/procs/test_units.py", "tests/integration/attempts/test_units.py")
# Says that it runs, and goes on when somebody writes to its gate.
GATED = (
    'mkfifo "gate-$QUESTLINE_ID"; echo "$QUESTLINE_ID" >>ran; echo before; read go <"gate-$QUESTLINE_ID"; eval "$go"'
)
CONFIG = f"""{SHELL}
executor.isolation = "unit"
executor.env.set = {{ QUOTED = 'a "b" $c \\d `e`', LINES = "one\\n two", SECRET_OF_MINE = "swordfish" }}
executor.env.pass = ["SECRET_OF_MINE"]
scheduler.max_concurrent = {ATTEMPTS + 5}
[executors.plain]
[executors.process]
isolation = "process"
[executors.strict.properties]
ProtectSystem = "strict"
ProtectHome = "read-only"
ReadWritePaths = ["{{project}}"]
[executors.hidden.properties]
PrivateTmp = true
ProtectHome = "tmpfs"
BindPaths = ["{{project}}"]
NoNewPrivileges = true
[executors.limited.properties]
LimitNOFILE = "100:200"
Nice = 7
RestrictAddressFamilies = ["AF_UNIX"]
SystemCallFilter = ["~chroot:EPERM"]
[executors.short.properties]
RuntimeMaxSec = "300ms"
[executors.small.properties]
MemoryMax = "50M"
MemorySwapMax = 0
TasksMax = 5
[executors.broken.properties]
ReadWritePaths = ["/no/such/place"]
"""


@pytest.fixture(scope="module")
def daemon(lab: Lab) -> LabDaemon:
    lab.user(USER)
    # What somebody told their manager must not come to an attempt.
    lab.systemctl("set-environment", "ANTHROPIC_API_KEY=leaked", "EDITOR=leaked", user=USER)
    return lab.daemon(USER, CONFIG)


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test no unit of an attempt is loaded."""
    yield
    if "daemon" in request.fixturenames:
        assert units(request.getfixturevalue("daemon")) == []


def units(daemon: LabDaemon) -> list[str]:
    """The attempts' units that are loaded, active, failed or not."""
    listed = daemon.systemctl("list-units", "--all", "--plain", "--no-legend", "questline-attempt-*").stdout
    return [line.split()[0] for line in listed.splitlines()]


def seen(daemon: LabDaemon, name: str) -> Path:
    """A file of the project's, seen from outside the lab."""
    return Path(f"{daemon.lab.root}{daemon.project}/{name}")


def ran(daemon: LabDaemon) -> list[str]:
    """The quests whose programs have run, once for each time."""
    try:
        return seen(daemon, "ran").read_text().split()
    except FileNotFoundError:
        return []


def add(daemon: LabDaemon, task: str, role: str = "plain", *options: str) -> str:
    """A quest of a role; its id."""
    return daemon.qlctl("add", "--print-id", *options, "--", role, task).stdout.strip()


def gated(daemon: LabDaemon, number: int, *options: str) -> list[str]:
    """Quests that run and wait at their gates."""
    seen(daemon, "ran").unlink(missing_ok=True)
    quests = [add(daemon, GATED, "plain", *options) for _ in range(number)]
    daemon.lab.until(lambda: sorted(ran(daemon)) == sorted(quests), f"{number} attempts run")
    return quests


def let_through(daemon: LabDaemon, quests: list[str], command: str = "echo after") -> None:
    script = 'for quest in "$@"; do echo "$0" >"gate-$quest"; done'
    daemon.lab.run("sh", "-c", script, command, *quests, user=USER, cwd=daemon.project)


def end(daemon: LabDaemon, quest: str) -> dict[str, Any]:
    """The quest when it is final, its last run with it."""
    daemon.qlctl("wait", quest, check=False)
    shown = daemon.json("show", quest)
    return shown["quest"] | {"last": shown["runs"][-1]}


def result(daemon: LabDaemon, task: str, role: str = "plain") -> str:
    """What a task that ends well prints."""
    quest = end(daemon, add(daemon, task, role))
    assert quest["state"] == "done", quest
    return str(quest["result"])


def running(daemon: LabDaemon) -> int:
    """How many attempts this very daemon runs."""
    return int(daemon.json("health", "--all-projects")["running"])


@pytest.mark.parametrize("user", [None, USER], ids=["root", "user"])
def test_units_are_found_again_and_told_apart(lab: Lab, user: str | None) -> None:
    done = lab.pytest("-q", *SUITES, user=lab.user(user) if user else None)
    assert " passed" in done.stdout
    assert "no systemd" not in done.stdout


def test_an_attempt_gets_the_same_environment_as_without_a_unit(daemon: LabDaemon) -> None:
    one, other = _environment(daemon, "plain"), _environment(daemon, "process")
    told = {"QUESTLINE_ID", "QUESTLINE_ATTEMPT", "QUESTLINE_RUN"}
    assert {name: value for name, value in one.items() if name not in told} == {
        name: value for name, value in other.items() if name not in told
    }
    assert (one["QUOTED"], one["LINES"], one["SECRET_OF_MINE"]) == ('a "b" $c \\d `e`', "one\n two", "swordfish")


def _environment(daemon: LabDaemon, role: str) -> dict[str, str]:
    result(daemon, "env -0 >environment", role)
    return dict(entry.split("=", 1) for entry in seen(daemon, "environment").read_text().split("\0") if entry)


def test_a_secret_is_not_among_the_properties_of_the_unit(daemon: LabDaemon) -> None:
    (quest,) = gated(daemon, 1)
    (unit,) = units(daemon)
    assert unit == f"questline-attempt-{quest}-1.service"
    shown = daemon.systemctl("show", unit).stdout
    assert "\nSlice=questline.slice\n" in shown
    assert "swordfish" not in shown + daemon.systemctl("cat", unit).stdout
    kept = daemon.lab.run("grep", "-rl", "swordfish", f"{daemon.state}/artifacts", user=USER, check=False).stdout
    assert kept == ""
    let_through(daemon, [quest])
    assert end(daemon, quest)["result"] == "before\nafter\n"


def test_a_task_arrives_as_it_was_written(daemon: LabDaemon) -> None:
    awkward = 'it\'s "$HOME" ${X} $$ %n %% \\n {task} `id`; * ~ é\n  --end  '
    assert result(daemon, f"printf %s {shlex.quote(awkward)}") == awkward


def test_a_strict_unit_writes_to_its_project_alone(daemon: LabDaemon) -> None:
    tries = "for place in /var/tmp ~ .; do touch $place/tried && echo $place; done 2>/dev/null; true"
    assert result(daemon, tries, "strict") == ".\n"
    assert result(daemon, tries, "plain").split() == ["/var/tmp", f"/home/{USER}", "."]


def test_a_unit_with_a_home_and_tmp_of_its_own_sees_none_of_ours(daemon: LabDaemon) -> None:
    daemon.lab.write("/tmp/ours", "here", user=USER)
    look = "ls /tmp; ls ~; id -un; grep NoNewPrivs: /proc/self/status"
    assert result(daemon, look, "hidden").split() == ["project", USER, "NoNewPrivs:", "1"]
    assert "ours" in result(daemon, look, "plain").split()


def test_limits_priority_and_filters_have_their_effect(daemon: LabDaemon) -> None:
    connect = "import os, socket\\ntry: socket.socket(socket.AF_INET)\\nexcept OSError as error: print(error.errno)"
    tries = f"ulimit -Sn; ulimit -Hn; nice; printf '{connect}' | {daemon.lab.python}"
    assert result(daemon, tries, "limited").split() == ["100", "200", "7", "97"]


def test_a_unit_that_runs_longer_than_it_may_has_timed_out(daemon: LabDaemon) -> None:
    quest = end(daemon, add(daemon, "echo begun; exec sleep 1000", "short"))
    assert (quest["state"], quest["class"], quest["reason"]) == (
        "failed",
        "timeout",
        "it ran longer than RuntimeMaxSec",
    )
    assert quest["result"] == "begun\n"
    assert result(daemon, "echo soon", "short") == "soon\n"


def test_limits_of_memory_and_tasks_are_enforced(daemon: LabDaemon) -> None:
    controllers = daemon.lab.run("cat", "/sys/fs/cgroup/cgroup.controllers").stdout.split()
    if not {"memory", "pids"} <= set(controllers):
        pytest.skip(f"this kernel offers the lab only the controllers {controllers}")
    eat = f"exec {daemon.lab.python} -c 'x = b\"x\" * (200 << 20)'"
    assert end(daemon, add(daemon, eat, "small"))["class"] == "oom"
    forks = "import os, signal\nfor n in range(9): os.fork() or signal.pause()"
    failed = end(daemon, add(daemon, f"exec {daemon.lab.python} -c '{forks}'", "small"))
    assert "BlockingIOError" in failed["error"]


def test_a_sandbox_that_cannot_be_set_up_fails_the_quest_and_says_why(daemon: LabDaemon) -> None:
    quest = end(daemon, add(daemon, "true", "broken"))
    assert (quest["state"], quest["class"]) == ("failed", "bad_config")
    assert "226/NAMESPACE: does every path of its properties exist" in quest["error"]


def test_a_cancel_ends_what_ignores_it_in_a_session_of_its_own(daemon: LabDaemon) -> None:
    deaf = "trap '' TERM; echo $$ >deaf; exec sleep 1000"
    quest = add(daemon, f"env -i setsid sh -c {shlex.quote(deaf)} & trap '' TERM; {GATED}")
    pid = daemon.lab.until(lambda: seen(daemon, "deaf").exists() and seen(daemon, "deaf").read_text(), "it runs")
    daemon.qlctl("cancel", quest)
    assert end(daemon, quest)["state"] == "cancelled"
    assert daemon.lab.run("kill", "-0", pid.strip(), check=False).returncode != 0


@pytest.mark.parametrize("away", [False, True], ids=["", "while the daemon is away"])
def test_a_unit_that_somebody_else_stops_is_interrupted_and_runs_again(daemon: LabDaemon, away: bool) -> None:
    """As at a shutdown: what a program makes of SIGTERM is no outcome."""
    seen(daemon, "ran").unlink(missing_ok=True)
    quests = [add(daemon, f"{trap}{GATED}") for trap in ("", "trap 'exit 143' TERM; ", "trap 'exit 0' TERM; ")]
    daemon.lab.until(lambda: sorted(ran(daemon)) == sorted(quests), "they run")
    if away:
        daemon.stop()
    daemon.systemctl("stop", "questline-attempt-*-1.service")
    if away:
        daemon.systemctl("start", "questlined.service")
    daemon.lab.until(lambda: sorted(ran(daemon)) == sorted(2 * quests), "they run again")
    let_through(daemon, quests)
    for quest in quests:
        assert end(daemon, quest)["state"] == "done"
        assert [run["class"] for run in daemon.json("show", quest)["runs"]] == ["interrupted", "ok"]


def test_attempts_outlive_a_restart_a_crash_and_a_stop_of_the_daemon_and_run_once(daemon: LabDaemon) -> None:
    quests = gated(daemon, ATTEMPTS)
    before = daemon.pid
    daemon.restart()
    assert running(daemon) == ATTEMPTS  # it is READY, and they are adopted
    assert daemon.pid != before
    crashed = daemon.pid
    daemon.kill()
    daemon.lab.until(lambda: daemon.pid not in {0, crashed}, "it is started again")
    assert running(daemon) == ATTEMPTS
    daemon.stop()
    let_through(daemon, quests[:5])
    assert running(daemon) >= ATTEMPTS - 5  # the client has started it
    let_through(daemon, quests[5:])
    daemon.qlctl("wait", *quests)
    ended = [each for each in daemon.json("list", "--state", "done") if each["id"] in quests]
    assert [(each["state"], each["attempts"]) for each in ended] == [("done", 1)] * ATTEMPTS
    written = [Path(f"{daemon.lab.root}{daemon.state}/artifacts/{quest}/1/stdout").read_text() for quest in quests]
    assert written == ["before\nafter\n"] * ATTEMPTS
    assert sorted(ran(daemon)) == sorted(quests)


def test_what_ended_while_the_daemon_was_away_has_its_true_outcome(daemon: LabDaemon) -> None:
    quests = gated(daemon, 4, "--max-attempts", "1")
    daemon.stop()
    daemon.systemctl("daemon-reload")  # the manager reads again what it wrote down of them
    ways = ("echo after", "echo after; exit 5", "kill -ABRT $$", "trap '' TERM; sleep 1000 & exit 0")
    for quest, way in zip(quests, ways, strict=True):
        let_through(daemon, [quest], way)
    # The last has left something that systemd is still waiting for.
    daemon.lab.until(lambda: len(_active(daemon)) == 1, "all others have ended")
    assert daemon.pid == 0
    daemon.systemctl("start", "questlined.service")
    ends = [end(daemon, quest) for quest in quests]
    assert [(each["state"], each["class"]) for each in ends] == [
        ("done", "ok"),
        ("failed", "failed"),
        ("failed", "failed"),
        ("done", "ok"),
    ]
    assert [(each["last"].get("exitCode"), each["last"].get("exitSignal")) for each in ends] == [
        (0, None), (5, None), (None, 6), (0, None),
    ]  # fmt: skip
    assert sorted(ran(daemon)) == sorted(quests)


def _active(daemon: LabDaemon) -> list[str]:
    states = ("--state=active,activating,deactivating", "--plain", "--no-legend")
    return daemon.systemctl("list-units", *states, "questline-attempt-*").stdout.splitlines()


# Where the daemon may be killed from the start of an attempt to its end; the unit goes on.
POINTS = ("prepared", "spawned", "swept", "reaped")


def test_a_crash_at_any_step_of_an_attempt_costs_nothing_and_runs_nothing_twice(lab: Lab) -> None:
    lab.user(CRASHED)
    crash = f"/home/{CRASHED}/crash"
    drop_in = f"[Service]\nEnvironmentFile=-{crash}\nRestart=no\n"
    daemon = lab.daemon(CRASHED, f'{SHELL}executor.isolation = "unit"\n', unit=drop_in)
    daemon.systemctl("stop", "questlined.socket")
    for point in POINTS:
        lab.write(crash, f"QUESTLINED_CRASH_AT=attempt.{point}\n", user=CRASHED)
        daemon.restart()
        quest = daemon.add("echo ran; echo again >>times-$QUESTLINE_ID; exit 3", "--max-attempts", "1")
        lab.until(lambda: daemon.show("Result")["Result"] == "signal", f"it is killed at {point}")
        lab.run("rm", crash, user=CRASHED)
        daemon.systemctl("start", "questlined.service")
        ended = end(daemon, quest)
        assert (ended["state"], ended["result"], ended["last"]["exitCode"]) == ("failed", "ran\n", 3), point
        assert seen(daemon, f"times-{quest}").read_text() == "again\n", point
        assert units(daemon) == [], point
    daemon.stop()


def test_without_a_manager_a_quest_waits_and_health_says_what_to_do(lab: Lab) -> None:
    nowhere = "[Service]\nEnvironment=XDG_RUNTIME_DIR=/nowhere\n"
    daemon = lab.daemon(CRASHED, f'{SHELL}executor.isolation = "unit"\n', unit=nowhere)
    quest = daemon.add("true")
    lab.until(lambda: daemon.json("show", quest)["quest"].get("class") == "released", "it is given back")
    health = daemon.json("health", check=False)
    assert not health["ok"]
    assert "/nowhere/bus: No such file" in health["problems"][0]["what"]
    assert f"loginctl enable-linger {CRASHED}" in health["problems"][0]["hint"]
    shown = daemon.json("show", quest)["quest"]
    assert (shown["state"], shown["attempts"] - shown["refunds"]) == ("queued", 0)
    daemon.stop()


def test_a_daemon_of_the_system_has_its_units_in_the_manager_of_its_own_user(lab: Lab) -> None:
    lab.user(USER)
    project, socket = f"/home/{USER}/served", "/run/questlined-served/s.sock"
    lab.run("mkdir", "-p", project, user=USER)
    lab.write(f"{project}/served.toml", f'{SHELL}executor.isolation = "unit"\n', user=USER)
    places = f"QUESTLINED_SOCKET={socket} QUESTLINED_STATE={project}/state QUESTLINED_CONFIG={project}/served.toml"
    how = ("Type=notify", f"User={USER}", "RuntimeDirectory=questlined-served", f"Environment={places}")
    lab.run(
        "systemd-run", "--quiet", "--collect", "--unit=served", *(f"--property={each}" for each in how), lab.questlined
    )
    env = {"QUESTLINED_SOCKET": socket}
    said = lab.run(lab.qlctl, "add", "--wait", "grep ^0:: /proc/self/cgroup", user=USER, cwd=project, env=env).stdout
    lab.systemctl("stop", "served.service")
    assert f"/user@{lab.uid(USER)}.service/questline.slice/questline-attempt-q-" in said


def test_a_bus_that_is_started_again_costs_no_attempt(daemon: LabDaemon) -> None:
    quests = gated(daemon, 2)
    daemon.systemctl("restart", "dbus.service")
    let_through(daemon, quests[:1])
    assert end(daemon, quests[0])["result"] == "before\nafter\n"
    daemon.qlctl("cancel", quests[1])
    assert end(daemon, quests[1])["state"] == "cancelled"
    assert daemon.json("health")["ok"]


def test_a_daemon_of_root_runs_attempts_as_another_account_and_they_outlive_it(lab: Lab) -> None:
    lab.user(USER)
    project, socket = f"/home/{USER}/theirs", "/run/questlined-root/s.sock"
    lab.run("mkdir", "-p", project, user=USER)
    lab.write("/etc/root.toml", f'{SHELL}executor.isolation = "unit"\nexecutor.properties.User = "{USER}"\n')
    places = f"QUESTLINED_SOCKET={socket} QUESTLINED_STATE=/var/lib/questlined-root QUESTLINED_CONFIG=/etc/root.toml"
    places += " XDG_CONFIG_HOME=/root/.config"
    how = ("Type=notify", "KillMode=mixed", "RuntimeDirectory=questlined-root", f"Environment={places}")
    start = ["systemd-run", "--quiet", "--collect", "--unit=root-daemon", *(f"--property={each}" for each in how)]

    def qlctl(*arguments: str, check: bool = True) -> str:
        return lab.run(lab.qlctl, *arguments, cwd=project, env={"QUESTLINED_SOCKET": socket}, check=check).stdout

    lab.run(*start, lab.questlined)
    who = 'id -un; echo "$HOME $USER $(env | grep -c XDG_)"; pwd; umask; touch made; cat ~/.ssh/x || echo err >&2'
    quest = qlctl("add", "--print-id", "--wait", who, check=False).strip().splitlines()[0]
    assert qlctl("logs", quest).splitlines()[:4] == [USER, f"/home/{USER} {USER} 0", project, "0022"]
    assert lab.run("stat", "-c", "%U", f"{project}/made").stdout.strip() == USER
    artifact = f"/var/lib/questlined-root/artifacts/{quest}/1/stdout"
    assert lab.run("stat", "-c", "%U %a", artifact).stdout == "root 600\n"

    gate = 'mkfifo gate; echo "$QUESTLINE_ID" >>once; read go <gate; echo after; exit 6'
    quest = qlctl("add", "--print-id", gate).strip()
    once = Path(f"{lab.root}{project}/once")
    lab.until(lambda: once.exists() and once.read_text(), "it runs")
    lab.systemctl("kill", "--signal=KILL", "--kill-whom=main", "root-daemon.service")
    lab.until(lambda: lab.show("root-daemon.service", "LoadState")["LoadState"] == "not-found", "it has died")
    lab.run("sh", "-c", "echo >gate", user=USER, cwd=project)
    lab.run(*start, lab.questlined)
    qlctl("wait", quest, check=False)
    shown = json.loads(qlctl("show", quest, "--json"))
    assert (shown["quest"]["class"], shown["quest"]["result"], shown["runs"][0]["exitCode"]) == ("failed", "after\n", 6)
    assert once.read_text().split() == [quest]
    lab.systemctl("stop", "root-daemon.service")
    assert "questline-attempt" not in lab.systemctl("list-units", "--all").stdout
