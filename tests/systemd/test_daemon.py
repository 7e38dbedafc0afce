"""What the daemon says to systemd and does on its word, as systemd sees it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from questlined.sysd.messages import MESSAGE_IDS
from tests.support.daemon import SHELL
from tests.systemd.lab import Lab, LabDaemon

USER = "dora"
HANGING = "[Service]\nRestartSec=0\nWatchdogSec=2\nEnvironment=QUESTLINED_HANG_AT={}\n"
SECRET = "s3cret-of-doras"


@pytest.fixture(scope="module")
def daemon(lab: Lab) -> Iterator[LabDaemon]:
    """A daemon for the tests that leave it as they found it."""
    running = lab.daemon(USER)
    yield running
    running.stop()


def status(daemon: LabDaemon, text: str) -> None:
    """Wait until `systemctl status` shows this line."""
    daemon.lab.until(lambda: daemon.show("StatusText")["StatusText"] == text, text)


def ended(daemon: LabDaemon, quest: str) -> dict[str, object]:
    """The quest when it is over."""
    quests = daemon.qlctl("wait", "--json", quest, check=False).stdout
    assert quests, "it was waited for"
    found: dict[str, object] = daemon.json("show", quest)["quest"]
    return found


def event(daemon: LabDaemon, name: str) -> list[dict[str, str]]:
    """The journal's records of a main event, oldest first."""
    return daemon.lab.journal(f"MESSAGE_ID={MESSAGE_IDS[name]}", f"_UID={daemon.lab.uid(USER)}")


def hold(daemon: LabDaemon, name: str) -> tuple[str, str]:
    """A task that runs until the file it waits for is there, and that file."""
    path = f"{daemon.project}/{name}"
    return f"mkfifo {path} && exec cat {path}", path


def test_the_status_line_has_the_queues_figures(daemon: LabDaemon) -> None:
    """As they change."""
    status(daemon, "0 running, 0 queued")
    task, fifo = hold(daemon, "shown")
    quest = daemon.add(task)
    status(daemon, "1 running, 0 queued")
    daemon.qlctl("pause", "--all")
    waiting = daemon.add("true")
    status(daemon, "1 running, 1 queued; paused")
    daemon.qlctl("block", waiting)
    daemon.qlctl("resume", "--all")
    status(daemon, "1 running, 0 queued, 1 blocked")
    daemon.lab.run("sh", "-c", f"echo >{fifo}", user=USER)
    daemon.qlctl("cancel", waiting)
    status(daemon, "0 running, 0 queued")
    assert ended(daemon, quest)["state"] == "done"


def test_systemctl_reload_takes_a_good_configuration_and_refuses_a_bad_one(daemon: LabDaemon) -> None:
    """It waits for the end, and fails with the reason; the old configuration stays."""
    lab = daemon.lab
    lab.write(daemon.config, SHELL + 'executors.new.command = ["echo", "one"]\n', user=USER)
    daemon.systemctl("reload", "questlined.service")
    assert ended(daemon, daemon.qlctl("add", "--print-id", "new", "x").stdout.strip())["result"] == "one\n"
    assert event(daemon, "config_reloaded")[-1]["MESSAGE"].endswith("changed: executors.new.command")
    lab.write(daemon.config, SHELL + 'executors.new.comand = ["echo", "two"]\n', user=USER)
    assert daemon.systemctl("reload", "questlined.service", check=False).returncode != 0
    assert "did you mean executors.new.command?" in daemon.log()
    assert daemon.show("ActiveState", "SubState") == {"ActiveState": "active", "SubState": "running"}
    assert ended(daemon, daemon.qlctl("add", "--print-id", "new", "x").stdout.strip())["result"] == "one\n"


def test_sighup_reloads_and_a_wrong_configuration_is_one_error_in_the_journal(daemon: LabDaemon) -> None:
    """The service is active again after either."""
    lab, before = daemon.lab, len(event(daemon, "config_refused"))
    lab.write(daemon.config, SHELL + "max_attempts = -1\n", user=USER)
    daemon.systemctl("kill", "--kill-who=main", "--signal=HUP", "questlined.service")
    lab.until(lambda: len(event(daemon, "config_refused")) == before + 1, "the error")
    refused = event(daemon, "config_refused")[-1]
    assert (refused["PRIORITY"], refused["QUESTLINE_EVENT"]) == ("3", "config_refused")
    assert "max_attempts: -1 is below 0" in refused["MESSAGE"]
    before = len(event(daemon, "config_reloaded"))
    lab.write(daemon.config, SHELL, user=USER)
    daemon.systemctl("kill", "--kill-who=main", "--signal=HUP", "questlined.service")
    lab.until(lambda: len(event(daemon, "config_reloaded")) == before + 1, "the reload")
    lab.until(lambda: daemon.show("SubState")["SubState"] == "running", "it is active again")
    status(daemon, "0 running, 0 queued")


def test_the_journal_has_a_quests_story_and_nothing_that_it_says(daemon: LabDaemon) -> None:
    """Found by its id, with whose it is; the user sees it, too."""
    good = daemon.add(f"echo {SECRET}; echo {SECRET} >&2", "--name", SECRET)
    bad = daemon.add(f"echo {SECRET} >&2; exit 3")
    assert [ended(daemon, quest)["state"] for quest in (good, bad)] == ["done", "failed"]

    def story(quest: str) -> list[dict[str, str]]:
        found = daemon.lab.journal(f"QUESTLINE_ID={quest}", user=USER)
        return found if len(found) == 2 else []

    begun, over = daemon.lab.until(lambda: story(good), "its story")
    for record, name, message in ((begun, "claimed", "attempt 1 begins"), (over, "completed", "done by attempt 1")):
        assert record["MESSAGE"] == f"{good}: {message}"
        assert record["MESSAGE_ID"] == MESSAGE_IDS[name]
        assert (record["QUESTLINE_EVENT"], record["PRIORITY"]) == (name, "6")
        assert record["QUESTLINE_PROJECT"] == daemon.project
        assert (record["QUESTLINE_ATTEMPT"], record["QUESTLINE_RUN"]) == ("1", begun["QUESTLINE_RUN"])
        assert record["SYSLOG_IDENTIFIER"] == "questlined"
        assert record["_SYSTEMD_USER_UNIT"] == "questlined.service"
    begun, over = daemon.lab.until(lambda: story(bad), "the other's")
    assert (over["QUESTLINE_EVENT"], over["QUESTLINE_CLASS"], over["PRIORITY"]) == ("failed", "failed", "4")
    ours = daemon.lab.journal("_SYSTEMD_USER_UNIT=questlined.service", f"_UID={daemon.lab.uid(USER)}")
    assert len(ours) > 4
    assert SECRET not in str(ours)


def test_it_ends_well_on_a_stop_and_goes_on_with_what_it_interrupted(daemon: LabDaemon) -> None:
    """With status 0, long before TimeoutStopSec; the start and the stop are in the journal."""
    task, fifo = hold(daemon, "interrupted")
    quest = daemon.add(f"rm -f {fifo}; {task}")
    status(daemon, "1 running, 0 queued")
    daemon.systemctl("stop", "questlined.service", "questlined.socket")
    assert daemon.show("Result", "ExecMainStatus", "ActiveState") == {
        "Result": "success",
        "ExecMainStatus": "0",
        "ActiveState": "inactive",
    }
    assert event(daemon, "daemon_stopping")[-1]["MESSAGE"] == "stopping: 1 attempt under way"
    begun = len(event(daemon, "daemon_started"))
    daemon.start()
    assert len(event(daemon, "daemon_started")) == begun + 1
    status(daemon, "1 running, 0 queued")
    daemon.lab.run("sh", "-c", f"echo over >{fifo}", user=USER)
    assert ended(daemon, quest)["result"] == "over\n"
    told = [record["QUESTLINE_EVENT"] for record in daemon.lab.journal(f"QUESTLINE_ID={quest}")]
    assert told[:3] == ["claimed", "interrupted", "claimed"]


def test_a_start_with_a_wrong_configuration_fails_once_and_says_where(lab: Lab) -> None:
    """As one error with its hint, and is not tried again."""
    lab.user(USER)
    with pytest.raises(AssertionError):
        lab.daemon(USER, SHELL + "max_attempts = -1\n")
    daemon_unit = lab.show("questlined.service", "ActiveState", "ExecMainStatus", "NRestarts", user=USER)
    assert daemon_unit == {"ActiveState": "failed", "ExecMainStatus": "78", "NRestarts": "0"}
    errors = lab.journal("-p", "3", "SYSLOG_IDENTIFIER=questlined", f"_UID={lab.uid(USER)}")
    assert "questlined.toml:4: max_attempts: -1 is below 0" in errors[-1]["MESSAGE"]


def test_a_grace_longer_than_the_time_to_stop_is_asked_for(lab: Lab) -> None:
    """So that the ladder is gone to its end, and the quest's end is written down."""
    daemon = lab.daemon(USER, SHELL.replace("300ms", "1500ms"), unit="[Service]\nTimeoutStopSec=1\n")
    quest = daemon.add("trap '' TERM; while :; do sleep 1000; done")
    status(daemon, "1 running, 0 queued")
    began = time.monotonic()
    daemon.systemctl("stop", "questlined.socket", "questlined.service")
    assert time.monotonic() - began >= 1.5
    assert daemon.show("Result", "ExecMainStatus") == {"Result": "success", "ExecMainStatus": "0"}
    told = [record["QUESTLINE_EVENT"] for record in lab.journal(f"QUESTLINE_ID={quest}")]
    assert told == ["claimed", "interrupted"]


# Who hangs → where, and whom the daemon then complains of. Of a loop that hangs nobody is left to complain.
HANGS = {
    "dora-loop": ("attempt.spawned:2", None),
    "dora-writer": ("claim.before:2", "writer"),
    "dora-scheduler": ("scheduler.round:2", "scheduler"),
}


def test_a_daemon_that_hangs_is_killed_and_started_anew_with_no_work_lost(lab: Lab) -> None:
    """Be it the loop, the writer or a service: what ran runs again, what waited is run, nothing runs twice at once."""
    hanging = {}
    for user, (point, _) in HANGS.items():
        daemon = lab.daemon(user, unit=HANGING.format(point))
        drop_in = f"{lab.home(user)}/.config/systemd/user/questlined.service.d/lab.conf"
        lab.write(drop_in, "[Service]\nRestartSec=0\n", user=user)  # for the next start
        daemon.systemctl("daemon-reload")
        tasks = [f"exec 9>{daemon.project}/{number}; flock -n 9 && echo {number}" for number in range(3)]
        lines = "".join(json.dumps({"task": task}) + "\n" for task in tasks)
        first = daemon.pid
        hanging[daemon] = (first, [each["id"] for each in daemon.json("add", "--from-file", "-", stdin=lines)])
    for daemon, (first, quests) in hanging.items():
        daemon.qlctl("wait", *quests, "--timeout", "30")
        results = {quest["id"]: quest["result"] for quest in daemon.json("list")}
        assert results == {quest: f"{number}\n" for number, quest in enumerate(quests)}
        assert daemon.show("NRestarts")["NRestarts"] == "1"
        assert "Failed with result 'watchdog'" in daemon.log()
        late = HANGS[daemon.user][1]
        told = lab.journal(f"MESSAGE_ID={MESSAGE_IDS['watchdog_late']}", f"_PID={first}")
        assert bool(told) is bool(late)
        # Whoever waits for the one that hangs comes round no more than that.
        assert all(str(late) in record["MESSAGE"] for record in told)


CREDENTIALS = (
    SHELL
    + 'executor.env.credentials = { ANTHROPIC_API_KEY = "the-key", OTHER = "set-one" }\n'
    + 'executors.none.env.credentials.MISSING = "no-such"\n'
)
SHOWS = 'printf "%s|%s|%s" "$ANTHROPIC_API_KEY" "$OTHER" "$CREDENTIALS_DIRECTORY"'


def test_credentials_of_a_user_service_reach_an_executors_environment_by_name(lab: Lab) -> None:
    """Those of a file and those of the unit itself. One that is missing fails the quest and is named."""
    lab.user(USER)
    key = lab.write(f"/home/{USER}/key", f"{SECRET}-key\n", user=USER, mode=0o600)
    unit = f"[Service]\nLoadCredential=the-key:{key}\nSetCredential=set-one:of the unit\n"
    daemon = lab.daemon(USER, CREDENTIALS, unit=unit)
    assert ended(daemon, daemon.add(SHOWS))["result"] == f"{SECRET}-key|of the unit|"
    failed = ended(daemon, daemon.qlctl("add", "--print-id", "none", "true").stdout.strip())
    assert failed["class"] == "bad_config"
    assert "env.credentials.MISSING: the credential no-such cannot be read" in str(failed["error"])
    assert f"{SECRET}-key" not in str(lab.journal("SYSLOG_IDENTIFIER=questlined"))


def test_credentials_of_a_system_service_do_so_too(lab: Lab) -> None:
    """Though the file is root's alone."""
    lab.user(USER)
    home = f"/home/{USER}/system"
    key = lab.write("/root/key", f"{SECRET}-key\n", mode=0o600)
    config = lab.write(f"{home}/questlined.toml", CREDENTIALS, user=USER)
    place = f"{home}/s.sock"
    lab.run(
        "systemd-run", "--unit=dora-system", "--quiet", "--service-type=notify", "--collect",
        f"--property=User={USER}", f"--property=LoadCredential=the-key:{key}", "--property=SetCredential=set-one:x",
        lab.questlined, f"--socket={place}", f"--state={home}/state", f"--config={config}",
    )  # fmt: skip
    try:
        qlctl = [lab.qlctl, "--socket", place]
        said = lab.run(*qlctl, "add", "--wait", SHOWS, user=USER, cwd=home)
        assert said.stdout == f"{SECRET}-key|x|\n"
    finally:
        lab.systemctl("stop", "dora-system.service")
