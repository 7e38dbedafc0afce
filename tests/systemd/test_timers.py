"""Recurring quests on a real systemd: its timers beside the daemon's calendar, one quest for each time of a rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.systemd.lab import Lab, LabDaemon, packaged

EVERY_SECOND = "[Timer]\nOnCalendar=*:*:*\nAccuracySec=10ms\n"
OVERDUE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
db.execute("UPDATE quest_recurrences SET next_run_at = ? WHERE id = ?", (int(sys.argv[3]), sys.argv[2]))
"""
LEAP_DAY = 1_709_164_800_000  # 29 February 2024, 00:00 UTC


@pytest.fixture(scope="module")
def nina(lab: Lab) -> LabDaemon:
    """A daemon of an ordinary user, as it is installed."""
    return lab.daemon("nina")


def rule(daemon: LabDaemon, name: str, cron: str = "0 0 29 2 *", *options: str) -> str:
    """A recurring quest of the daemon's project; its id. By default its next time is far away."""
    return str(daemon.json("recurring", "add", name, cron, f"echo {name}", *options)["id"])


def overdue(daemon: LabDaemon, rule: str) -> None:
    """As if nobody had looked at the rule since early in 2024. Nothing wakes the daemon's calendar for it."""
    database = f"{daemon.state}/quests.sqlite"
    daemon.lab.run(daemon.lab.python, "-c", OVERDUE, database, rule, str(LEAP_DAY), user=daemon.user)


def quests(daemon: LabDaemon, rule: str) -> list[dict[str, Any]]:
    """The quests of a rule."""
    listed = daemon.json("list", "--limit", "1000")
    return [quest for quest in listed if quest.get("recurrenceId") == rule]


def timers(daemon: LabDaemon) -> dict[str, dict[str, Any]]:
    """What `timer list` tells, by name."""
    return {timer["name"]: timer for timer in daemon.json("timer", "list")}


def test_a_nightly_timer_as_a_person_makes_it(nina: LabDaemon) -> None:
    """Installed, seen by systemd with the rule's own next time, shown, and gone again without a trace."""
    lab = nina.lab
    made = nina.json("recurring", "add", "nightly", "30 3 * * *", "echo night", "--zone", "Europe/Berlin")
    said = nina.qlctl("timer", "install", "nightly", "--randomized-delay", "0").stdout
    unit = f"questline-recurring@{made['id']}.timer"
    assert said.startswith(f"{unit} wakes for nightly, next in ")
    path = f"/home/nina/.config/systemd/user/{unit}"
    verified = lab.run("systemd-analyze", "--user", "verify", "--man=no", path, user="nina")
    assert (verified.stdout, verified.stderr) == ("", "")
    shown = lab.show(unit, "ActiveState", "UnitFileState", "Persistent", "AccuracyUSec", "Unit", user="nina")
    assert shown == {
        "ActiveState": "active",
        "UnitFileState": "enabled",
        "Persistent": "yes",
        "AccuracyUSec": "1s",
        "Unit": f"questline-recurring@{made['id']}.service",
    }
    nina.qlctl("timer", "install", "nightly", "--randomized-delay", "5min")
    again = lab.show(unit, "ActiveState", "RandomizedDelayUSec", user="nina")
    assert again == {"ActiveState": "active", "RandomizedDelayUSec": "5min"}
    nina.qlctl("timer", "install", "nightly")
    listed = timers(nina)["nightly"]
    assert (listed["wakesAt"], listed["gone"], listed["active"]) == (made["nextRunAt"], False, True)
    assert listed["recurrence"]["nextRunAt"] == made["nextRunAt"]
    assert "nightly" in nina.qlctl("timer", "list").stdout
    nina.qlctl("recurring", "remove", "nightly")
    assert timers(nina)["nightly"]["gone"] is True
    assert "is gone: qlctl timer remove" in nina.qlctl("timer", "list").stdout
    nina.qlctl("timer", "remove", "nightly")
    assert timers(nina) == {}
    assert lab.show(unit, "LoadState", "ActiveState", user="nina")["ActiveState"] == "inactive"
    left = lab.run("find", "/home/nina", "-name", f"*{made['id']}*", user="nina").stdout
    assert left == ""


def test_what_systemd_does_not_take_leaves_nothing(nina: LabDaemon) -> None:
    """No file, nor a link that would start it at the next boot; it is told in systemd's words."""
    lab, number = nina.lab, rule(nina, "refused")
    unit = f"questline-recurring@{number}.timer"
    emptied = lab.write(f"/home/nina/.config/systemd/user/{unit}.d/no.conf", "[Timer]\nOnCalendar=\n", user="nina")
    done = nina.qlctl("timer", "install", "refused", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "has a bad unit file setting" in done.stderr
    lab.run("rm", "-r", emptied.rpartition("/")[0], user="nina")
    assert lab.run("find", "/home/nina", "-name", f"*{number}*", user="nina").stdout == ""
    assert timers(nina) == {}


def test_the_service_fires_the_rule_it_is_named_after(nina: LabDaemon) -> None:
    """Started twice it adds one quest; a rule that is gone is a failure that is not tried again."""
    number = rule(nina, "by-hand")
    service = f"questline-recurring@{number}.service"
    overdue(nina, number)
    for _ in range(2):
        nina.systemctl("start", service)
        (quest,) = quests(nina, number)
        assert quest["occurrenceAt"] == LEAP_DAY
    assert nina.json("wait", quest["id"])["quest"]["result"] == "by-hand\n"
    nina.qlctl("recurring", "remove", number)
    assert nina.systemctl("start", service, check=False).returncode == 1
    state = nina.lab.show(service, "ActiveState", "NRestarts", user="nina")
    assert (state["ActiveState"], state["NRestarts"]) == ("failed", "0")
    nina.systemctl("reset-failed", service)


def test_a_timer_wakes_a_daemon_that_does_not_run(nina: LabDaemon) -> None:
    """Every second for a while, beside the calendar of the daemon that it has started: one quest for each time."""
    lab, number = nina.lab, rule(nina, "waker")
    unit = f"questline-recurring@{number}.timer"
    nina.qlctl("timer", "install", "waker")
    nina.stop()
    assert nina.pid == 0
    overdue(nina, number)
    dropin = lab.write(f"/home/nina/.config/systemd/user/{unit}.d/often.conf", EVERY_SECOND, user="nina")
    nina.systemctl("daemon-reload")
    lab.until(lambda: nina.pid, "the timer has started the daemon")
    seen = {lab.until(lambda: woke(nina, unit), "it woke")}
    while len(seen) < 3:
        seen.add(lab.until(lambda: woke(nina, unit) not in seen and woke(nina, unit), "it woke again"))
    lab.run("rm", "-r", dropin.rpartition("/")[0], user="nina")
    (quest,) = quests(nina, number)
    assert quest["occurrenceAt"] == LEAP_DAY
    assert lab.show(f"questline-recurring@{number}.service", "Result", user="nina") == {"Result": "success"}
    assert timers(nina)["waker"]["wokeAt"]
    nina.qlctl("timer", "remove", "waker")


def woke(daemon: LabDaemon, unit: str) -> str:
    """When a timer woke last."""
    return daemon.lab.show(unit, "LastTriggerUSec", user=daemon.user)["LastTriggerUSec"]


def test_a_time_that_the_machine_slept_through_is_made_up_for(nina: LabDaemon) -> None:
    """As soon as the timer is there again; a timer that is new has nothing to make up for."""
    lab, number = nina.lab, rule(nina, "sleeper", "0 0 29 2 *", "--catch-up", "all")
    unit = f"questline-recurring@{number}.timer"
    nina.qlctl("timer", "install", number)
    assert not woke(nina, unit)
    assert timers(nina)["sleeper"]["active"] is True
    nina.systemctl("stop", unit)
    assert timers(nina)["sleeper"]["active"] is False
    overdue(nina, number)
    lab.run("touch", "-d", "9 years ago", f"/home/nina/.local/share/systemd/timers/stamp-{unit}", user="nina")
    nina.systemctl("start", unit)
    lab.until(lambda: quests(nina, number), "the missed time has its quest")
    assert [quest["occurrenceAt"] for quest in quests(nina, number)] == [LEAP_DAY]
    nina.qlctl("timer", "remove", number)


def test_timers_of_the_system_are_roots(lab: Lab, nina: LabDaemon) -> None:
    """They live in the administrator's directory, and others cannot put them there."""
    rule(nina, "global", "0 5 * * *")
    template = "questline-recurring@.service"
    asked = ("timer", "install", "global", "--system", f"--socket={nina.socket}", f"--project={nina.project}", "--json")
    silent = lab.run(lab.qlctl, "timer", "install", "global", *asked[4:], check=False)  # root has no manager of a user
    assert silent.returncode == 1
    assert "connect to bus" in silent.stderr
    assert "loginctl enable-linger" in silent.stderr
    refused = lab.run(lab.qlctl, *asked, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.endswith("  questlined install --system\n")
    lab.write(f"/run/systemd/system/{template}", packaged("system")[template])
    lab.systemctl("daemon-reload")
    others = nina.qlctl("timer", "install", "global", "--system", check=False)
    assert (others.returncode, others.stderr.splitlines()[-1]) == (1, "  as root, for --system")
    made = lab.run(lab.qlctl, *asked)
    assert "asks the one on /run/questlined/questlined.sock\n" in made.stderr
    told = json.loads(made.stdout)
    assert told["path"] == f"/etc/systemd/system/{told['unit']}"
    assert lab.show(told["unit"], "ActiveState")["ActiveState"] == "active"
    lab.run(lab.qlctl, "timer", "remove", "global", "--system")
    assert lab.show(told["unit"], "ActiveState")["ActiveState"] == "inactive"
    lab.run("rm", f"/run/systemd/system/{template}")
    lab.systemctl("daemon-reload")
