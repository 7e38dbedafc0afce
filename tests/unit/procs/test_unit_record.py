"""The record that a unit leaves of its end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from questlined.procs import unit_record
from questlined.procs.child import Exit
from questlined.procs.unit_record import Record, parse


def run(directory: Path, deadline: str = "0", **variables: str) -> Record | None:
    """What the script makes of systemd's variables."""
    path = unit_record.prepare(directory)
    assert path.stat().st_mode & 0o777 == 0o600
    environ = {"PATH": "/nonexistent", **variables}
    subprocess.run(["/bin/sh", str(path), deadline], env=environ, check=True, timeout=30)
    return unit_record.read(directory)


@pytest.mark.parametrize(
    ("result", "code", "status", "ends"),
    [
        ("success", "exited", "0", Exit(0, None, None, 0)),
        ("exit-code", "exited", "5", Exit(5, None, None, 0)),
        ("success", "killed", "TERM", Exit(None, 15, None, 0)),
        ("signal", "killed", "KILL", Exit(None, 9, None, 0)),
        ("core-dump", "dumped", "ABRT", Exit(None, 6, None, 0)),
        ("signal", "killed", "RTMIN+3", Exit(None, 37, None, 0)),
        ("oom-kill", "killed", "KILL", Exit(None, 9, None, 0, oom=True)),
        ("timeout", "killed", "TERM", Exit(None, 15, None, 0)),
    ],
)
def test_the_script_writes_what_systemd_tells_it(
    tmp_path: Path, result: str, code: str, status: str, ends: Exit
) -> None:
    record = run(tmp_path, SERVICE_RESULT=result, EXIT_CODE=code, EXIT_STATUS=status)
    assert record is not None
    found = record.exit()
    assert Exit(found.code, found.signal, None, 0, found.oom, timed_out=found.timed_out) == ends
    assert os.listdir(tmp_path) == [unit_record.NAME]


def test_only_a_unit_whose_own_time_was_up_has_timed_out(tmp_path: Path) -> None:
    """A leftover that outlives its grace gives the same result."""
    told = {"SERVICE_RESULT": "timeout", "EXIT_CODE": "killed", "EXIT_STATUS": "TERM"}
    for deadline, timed_out in (("0.01", True), ("0", False), ("99999999999", False)):
        record = run(tmp_path, deadline, **told)
        assert record is not None
        assert record.exit().timed_out is timed_out


@pytest.mark.parametrize(
    ("told", "stopped"),
    [
        ({"MAINPID": "7", "SERVICE_RESULT": "success"}, True),
        ({"SERVICE_RESULT": "success", "EXIT_CODE": "exited", "EXIT_STATUS": "0"}, False),
        ({"MAINPID": "7", "SERVICE_RESULT": "timeout"}, False),
        ({"SERVICE_RESULT": "exit-code", "EXIT_CODE": "exited", "EXIT_STATUS": "1"}, False),
    ],
)
def test_who_was_asked_to_stop_is_told_from_who_ended_by_itself(
    tmp_path: Path, told: dict[str, str], stopped: bool
) -> None:
    path = unit_record.prepare(tmp_path)
    subprocess.run(["/bin/sh", str(path), unit_record.STOP], env=told, check=True, timeout=30)
    told = {"SERVICE_RESULT": "exit-code", "EXIT_CODE": "exited", "EXIT_STATUS": "143"}
    subprocess.run(["/bin/sh", str(path), "0"], env=told, check=True, timeout=30)
    record = unit_record.read(tmp_path)
    assert record is not None
    assert record.exit().stopped is stopped
    assert os.listdir(tmp_path) == [unit_record.NAME]


def test_a_mark_of_another_life_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "unit.stop").touch()
    record = run(tmp_path, SERVICE_RESULT="success", EXIT_CODE="exited", EXIT_STATUS="0")
    assert record is not None
    assert not record.asked


def test_a_unit_that_never_ran_a_program_has_no_exit(tmp_path: Path) -> None:
    record = run(tmp_path, SERVICE_RESULT="resources")
    assert record is not None
    assert (record.exit().code, record.exit().signal) == (None, None)


def test_the_script_itself_is_no_record(tmp_path: Path) -> None:
    assert not unit_record.tried(tmp_path)
    unit_record.prepare(tmp_path)
    assert unit_record.tried(tmp_path)
    assert unit_record.read(tmp_path) is None


def test_figures_are_those_of_the_kernel() -> None:
    record = parse("ended success exited 0 12.5 10.25 4096 1500400 -\n")
    assert record == Record("success", "exited", "0", 12.5, 10.25, 4096, 1500)
    assert record.exit() == Exit(0, None, 4096, 1500)


@pytest.mark.parametrize(
    "line", ["", "ended", "ended a b c d e f g h\n", "ended success exited 0 1 0 - - -", "x" * 5000]
)
def test_half_a_record_is_none(line: str) -> None:
    assert parse(line) is None


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("ended success exited 0 1 0 - - -\n")
    (tmp_path / unit_record.NAME).symlink_to("other")
    assert unit_record.read(tmp_path) is None
    unit_record.prepare(tmp_path)
    assert (tmp_path / "other").read_text().startswith("ended")
