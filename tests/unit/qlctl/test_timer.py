"""qlctl timer: files and calls of systemctl, with a systemctl that notes what it is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qlctl.alarms import MARK
from qlctl.main import main
from questlined.sysd import timers
from tests.unit.qlctl.scripted import Answer, Scripted, always, error, frame

Serve = Callable[[Answer], Scripted]
pytestmark = pytest.mark.usefixtures("here")
ID, NAME, PROJECT = "r-1a2b3c4d5e6f", "nightly", "/home/me/proj"
UNIT = timers.unit_name(ID)
RULE: dict[str, Any] = {"id": ID, "name": NAME, "project": PROJECT, "enabled": True, "nextRunAt": 4_000_000_000_000}

FAKE = """#!/bin/sh
echo "$*" >>"{log}"
case "$*" in *$MISSING) echo "No files found for $MISSING." >&2; exit 1 ;; esac
[ -z "$SILENT" ] || {{ echo "$SILENT" >&2; exit 1; }}
for word; do
  case " $REFUSED " in *" $word "*) echo "Failed to $word: no such thing." >&2; exit 1 ;; esac
done
case "$*" in *list-timers*) cat "{timers}" ;; esac
"""


class Systemctl:
    """The fake: what it was told, without the options that every call has; `refused` names words it does not like."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._log, self._timers, self._patch = folder / "log", folder / "timers", patch
        self.folder = folder / "config/systemd/user"
        program = folder / "systemctl"
        program.write_text(FAKE.format(log=self._log, timers=self._timers))
        program.chmod(0o755)
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.setenv("REFUSED", "")
        patch.setenv("SILENT", "")
        patch.setenv("MISSING", "nothing")
        patch.delenv("XDG_RUNTIME_DIR", raising=False)
        self._timers.write_text("[]")

    @property
    def told(self) -> list[str]:
        """Each call's arguments."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        assert all(line.startswith("--user --no-ask-password ") for line in lines)
        return [line.split(" ", 2)[2] for line in lines]

    def refuse(self, *words: str) -> None:
        self._patch.setenv("REFUSED", " ".join(words))

    def lacks(self, unit: str) -> None:
        self._patch.setenv("MISSING", unit)

    def unreachable(self, says: str) -> None:
        self._patch.setenv("SILENT", says)

    def knows(self, **times: int | None) -> None:
        """What list-timers answers of the one timer."""
        self._timers.write_text(json.dumps([{"unit": UNIT, "activates": "x", **times}]))


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemctl:
    folder = tmp_path / "systemd"
    folder.mkdir()
    return Systemctl(folder, monkeypatch)


def text(name: str = NAME, rule: str = ID, project: str = PROJECT, delay_ms: int = 0) -> str:
    return timers.timer(
        rule=rule, name=name, project=project, cron="0 2 * * *", zone="UTC", lines=["*-*-* 02:00:00 UTC"],
        delay_ms=delay_ms,
    )  # fmt: skip


def rendered(**fields: Any) -> bytes:
    return frame({"unit": UNIT, "text": text(**fields), "recurrence": RULE})


def installed(systemctl: Systemctl, unit: str = UNIT, **fields: Any) -> Path:
    """A timer as `timer install` leaves it."""
    systemctl.folder.mkdir(parents=True, exist_ok=True)
    path = systemctl.folder / unit
    path.write_text(text(**fields))
    return path


def test_install_writes_the_units_file_and_starts_it(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    service = serve(always(rendered(delay_ms=600_000)))
    assert main(["timer", "install", NAME, "--randomized-delay", "10min"]) == 0
    path = systemctl.folder / UNIT
    assert path.read_text() == text(delay_ms=600_000)
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(systemctl.folder) == [UNIT]
    assert systemctl.told == ["cat questline-recurring@.service", "daemon-reload", f"enable --now {UNIT}"]
    assert service.parameters() == [{"directory": str(tmp_path), "id": NAME, "randomizedDelayMs": 600_000}]
    assert f"{UNIT} wakes for nightly, next in " in capsys.readouterr().out


def test_install_again_writes_it_anew(serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]) -> None:
    path = installed(systemctl, delay_ms=5)
    serve(always(rendered()))
    assert main(["timer", "install", NAME, "--json"]) == 0
    assert path.read_text() == text()
    told = json.loads(capsys.readouterr().out)
    assert told == {"unit": UNIT, "path": str(path), "text": text(), "recurrence": RULE}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_of_somebody_else_is_left_alone(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """A link, too, as that of a masked unit."""
    systemctl.folder.mkdir(parents=True)
    path = systemctl.folder / UNIT
    if kind == "file":
        path.write_text("[Timer]\nOnCalendar=daily\n")
    else:
        path.symlink_to("/dev/null")
    serve(always(rendered()))
    assert main(["timer", "install", NAME]) == 1
    assert "was not written by qlctl timer install" in capsys.readouterr().err
    assert path.is_symlink() if kind == "link" else path.read_text().startswith("[Timer]")
    assert not any("enable" in told for told in systemctl.told)
    assert main(["timer", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_without_the_service_nothing_is_written(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]
) -> None:
    """A timer that starts nothing would fail every night."""
    systemctl.lacks("questline-recurring@.service")
    serve(always(rendered()))
    assert main(["timer", "install", NAME]) == 1
    assert capsys.readouterr().err.endswith("  questlined install --user\n")
    assert not systemctl.folder.exists()


@pytest.mark.parametrize(
    "says",
    [
        "Failed to connect to bus: No medium found",
        "Failed to connect to user scope bus via local transport: No such file or directory",
        "System has not been booted with systemd as init system (PID 1). Can't operate.",
    ],
)
def test_a_manager_that_does_not_answer_is_no_missing_service(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str], says: str
) -> None:
    """As over su, or in a container: to install anything would not help."""
    systemctl.unreachable(says)
    serve(always(rendered()))
    assert main(["timer", "install", NAME]) == 1
    err = capsys.readouterr().err
    assert says in err
    assert "loginctl enable-linger" in err
    assert "questlined install" not in err
    assert not systemctl.folder.exists()


def test_the_service_of_another_daemon_is_told(
    serve: Serve,
    systemctl: Systemctl,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The timer would ask a daemon that does not know the rule, and fail every night."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    serve(always(rendered()))
    assert main(["timer", "install", NAME]) == 0
    warning, hint = capsys.readouterr().err.splitlines()
    assert f"the daemon on {tmp_path}/questlined.sock, and" in warning
    assert warning.endswith(f"the one on {tmp_path}/run/questlined/questlined.sock")
    assert hint.endswith(": systemctl --user edit questline-recurring@.service")
    (tmp_path / "run/questlined").mkdir(parents=True)
    (tmp_path / "run/questlined/questlined.sock").symlink_to(tmp_path / "questlined.sock")
    assert main(["timer", "install", NAME]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("unit", "more"),
    [
        ("questline-recurring@/../../../cron.d/x.timer", ""),
        ("/etc/cron.d/questline-recurring@x.timer", ""),
        ("questline-recurring@x.service", ""),
        ("rescue.timer", ""),
        (UNIT, "[Timer]\nUnit=rescue.target\n"),
        (UNIT, "  OnFailure = rescue.target\n"),
        (UNIT, "#\rFailureAction=poweroff\n"),
    ],
)
def test_only_timers_are_written(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str], unit: str, more: str
) -> None:
    """Root writes what the daemon of another user says, whose agents may have become the daemon."""
    serve(always(frame({"unit": unit, "text": text() + more, "recurrence": RULE})))
    assert main(["timer", "install", NAME]) == 1
    assert "is no timer of a recurring quest" in capsys.readouterr().err
    assert not systemctl.folder.exists()
    assert systemctl.told == ["cat questline-recurring@.service"]


@pytest.mark.parametrize("word", ["daemon-reload", "enable"])
def test_what_systemd_refuses_is_taken_back(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    systemctl.refuse(word)
    serve(always(rendered()))
    assert main(["timer", "install", NAME]) == 1
    assert f"Failed to {word}: no such thing." in capsys.readouterr().err
    assert os.listdir(systemctl.folder) == []
    assert systemctl.told[-2:] == [f"disable {UNIT}", "daemon-reload"]  # it may have been enabled before the refusal


def test_a_rule_that_is_not_there_touches_nothing(serve: Serve, systemctl: Systemctl) -> None:
    serve(always(error("io.questline.NotFound")))
    assert main(["timer", "install", NAME]) == 1
    assert systemctl.told == []


def test_list_tells_both_sides(serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]) -> None:
    """What the rule says and when systemd wakes, and the timers that have no rule any more."""
    installed(systemctl)
    gone = installed(systemctl, "questline-recurring@r-gone.timer", rule="r-gone", name="old one")
    (systemctl.folder / "questline-recurring@mine.timer").write_text("[Timer]\n")
    systemctl.knows(next=4_000_000_000_000_000, last=1_700_000_000_000_000)
    serve(always(frame({"recurrences": [RULE]})))
    assert main(["timer", "list", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["id"], first["name"], first["project"], first["unit"]) == (ID, NAME, PROJECT, UNIT)
    assert (first["wakesAt"], first["wokeAt"]) == (4_000_000_000_000, 1_700_000_000_000)
    assert (first["active"], first["gone"], first["recurrence"]) == (True, False, RULE)
    assert (second["path"], second["active"], second["gone"]) == (str(gone), False, True)
    assert (second["wakesAt"], second["recurrence"]) == (None, None)
    assert main(["timer", "list"]) == 0
    heads, *lines = capsys.readouterr().out.splitlines()
    assert heads.split() == ["NAME", "NEXT", "WAKES", "WOKE", "ID", "PROJECT", "NOTE"]
    assert lines[1].endswith("its recurring quest is gone: qlctl timer remove r-gone")


@pytest.mark.parametrize("times", [{"next": None, "last": 0}, None])
def test_a_timer_that_was_stopped_is_told_with_what_starts_it(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str], times: dict[str, int | None] | None
) -> None:
    """Whether systemd has forgotten it or lists it without a next time."""
    installed(systemctl)
    if times is not None:
        systemctl.knows(**times)
    serve(always(frame({"recurrences": [RULE]})))
    assert main(["timer", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["active"] is False
    assert main(["timer", "list"]) == 0
    assert f"not started: systemctl --user start {UNIT}" in capsys.readouterr().out


def test_list_without_a_daemon_shows_what_systemd_knows(
    systemctl: Systemctl, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(systemctl)
    systemctl.knows(next=4_000_000_000_000_000, last=0)
    assert main(["timer", "list", "--json"]) == 0
    captured = capsys.readouterr()
    (timer,) = json.loads(captured.out)
    assert (timer["wakesAt"], timer["wokeAt"], timer["gone"]) == (4_000_000_000_000, None, False)
    assert "no daemon answers" in captured.err


@pytest.mark.parametrize("word", [NAME, ID, UNIT])
def test_remove_needs_no_daemon(systemctl: Systemctl, capsys: pytest.CaptureFixture[str], word: str) -> None:
    """A timer outlives its rule, or is what is left of a questline that was removed."""
    path = installed(systemctl)
    systemctl.refuse("clean")
    assert main(["timer", "remove", word]) == 0
    assert not path.exists()
    assert systemctl.told == [f"disable --now {UNIT}", f"clean --what=state {UNIT}", "daemon-reload"]
    assert capsys.readouterr().out == f"{UNIT} removed; the recurring quest nightly stays\n"


def test_each_of_several_is_removed_that_can_be(systemctl: Systemctl, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is that of the first that was refused."""
    installed(systemctl)
    installed(systemctl, "questline-recurring@r-2.timer", rule="r-2", name="weekly")
    assert main(["timer", "remove", NAME, "gone", "weekly", "--json"]) == 1
    captured = capsys.readouterr()
    assert [timer["name"] for timer in json.loads(captured.out)] == [NAME, "weekly"]
    assert "gone has no timer" in captured.err
    assert os.listdir(systemctl.folder) == []


def test_a_rule_that_is_removed_tells_of_its_timer(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which stays: it may be the system's, and need root."""
    path = installed(systemctl)
    serve(always(frame({"recurrence": RULE})))
    assert main(["recurring", "remove", NAME]) == 0
    captured = capsys.readouterr()
    assert captured.out == "nightly: removed; its quests stay\n"
    assert captured.err == f"qlctl: the timer of nightly is still there: {path}\n  qlctl timer remove {ID}\n"
    assert systemctl.told == []
    path.unlink()
    assert main(["recurring", "remove", NAME]) == 0
    assert capsys.readouterr().err == ""


def test_remove_of_a_name_of_two_asks_for_the_id(systemctl: Systemctl, capsys: pytest.CaptureFixture[str]) -> None:
    installed(systemctl)
    installed(systemctl, "questline-recurring@r-2.timer", rule="r-2", project="/other")
    assert main(["timer", "remove", NAME]) == 2
    assert f"{ID}, r-2" in capsys.readouterr().err
    assert main(["timer", "remove", "weekly"]) == 1
    assert "qlctl timer list" in capsys.readouterr().err
    assert len(os.listdir(systemctl.folder)) == 2


def test_a_machine_without_systemd_is_told_so(
    serve: Serve, systemctl: Systemctl, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(always(rendered()))
    monkeypatch.setenv("PATH", str(systemctl.folder))
    assert main(["timer", "install", NAME]) == 1
    assert "systemctl is not installed" in capsys.readouterr().err


def test_user_and_system_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timer", "list", "--user", "--system"]) == 2
    assert "--system" in capsys.readouterr().err


@pytest.mark.parametrize(
    "strange", ["50% off", "back\\", "new\nline\n[Service]", "tab\t\x1b[2J", '"quoted"', "ü", "$X %i"]
)
def test_no_name_or_path_breaks_a_unit(systemctl: Systemctl, strange: str) -> None:
    """Other programs name rules as they like. It comes back from the file as it was."""
    made = text(name=strange, project=f"/p/{strange}")
    assert made.startswith(MARK)
    lines = made.splitlines()
    assert [line for line in lines if line.startswith("[")] == ["[Unit]", "[Timer]", "[Install]", "[X-Questline]"]
    assert not any(line.endswith("\\") for line in lines)
    (about,) = [line for line in lines if line.startswith("Description=")]
    assert "%" not in about.replace("%%", "")
    installed(systemctl, name=strange, project=f"/p/{strange}")
    assert main(["timer", "remove", strange]) == 0
