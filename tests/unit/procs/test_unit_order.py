"""The properties by which a command becomes a transient unit."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from questlined.procs import unit_order
from questlined.procs.spawn import Command
from questlined.procs.unit_order import Order, environment_text, exposed, marker_in, name_of, unfit

STORE = "11111111-2222-3333-4444-555555555555"


def order(directory: Path = Path("/state/q-1/1"), *properties: tuple[str, tuple[str, object]], **env: str) -> Order:
    command = Command(("/bin/echo", "$HOME", "${X} $$"), "/project", env, 3, 4, 5, 0o027)
    return Order(name_of("q-1", 7), f"{STORE}:q-1:7", command, directory, 5.0, properties)


def made(wanted: Order, *inherited: str, own_user: bool = True) -> dict[str, object]:
    """Each property's value. The uptime is 100 s."""
    found = unit_order.properties(wanted, inherited, own_user=own_user, now_s=100.0)
    assert len({name for name, _ in found}) == len(found)
    return {name: value for name, (_, value) in found}


def test_the_name_is_the_fence() -> None:
    assert name_of("q-0123456789ab", 7) == "questline-attempt-q-0123456789ab-7.service"


def test_a_unit_tells_whose_it_is() -> None:
    assert marker_in(str(made(order())["Description"])) == f"{STORE}:q-1:7"
    assert marker_in("Some other unit") is None


def test_nothing_of_a_command_is_expanded() -> None:
    assert made(order())["ExecStart"] == [("/bin/echo", ["/bin/echo", "$$HOME", "$${X} $$$$"], False)]


def test_a_program_is_executed_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "agent").symlink_to("/bin/busybox")
    written = f"{tmp_path}/bin/../bin//agent"
    command = Command((written, "-p"), "/project", {}, 3, 4, 5)
    assert made(replace(order(), command=command))["ExecStart"] == [(f"{tmp_path}/bin/agent", [written, "-p"], False)]


def test_what_the_manager_would_add_to_the_environment_is_taken_away() -> None:
    taken = made(order(HOME="/home/a", LANG="C"), "LANG", "ANTHROPIC_API_KEY", "PATH")["UnsetEnvironment"]
    assert isinstance(taken, list)
    assert {"ANTHROPIC_API_KEY", "PATH", "INVOCATION_ID", "JOURNAL_STREAM", "USER"} <= set(taken)
    assert not {"HOME", "LANG"} & set(taken)
    assert len(set(taken)) == len(taken)


def test_another_account_keeps_what_systemd_tells_of_it() -> None:
    taken = made(order(Path("/s"), ("User", ("s", "bob"))), own_user=False)["UnsetEnvironment"]
    assert isinstance(taken, list)
    assert not {"HOME", "USER", "LOGNAME", "SHELL"} & set(taken)


@pytest.mark.parametrize("name", ["ProtectSystem", "PrivateTmp", "ReadWritePaths", "PrivateNetwork", "BindPaths"])
def test_a_users_manager_is_made_to_heed_a_sandbox(name: str) -> None:
    wanted = order(Path("/s"), (name, ("b", True)))
    assert made(wanted)["PrivateUsers"] is True
    assert "PrivateUsers" not in made(wanted, own_user=False)
    assert "PrivateUsers" not in made(order(Path("/s"), ("MemoryMax", ("t", 1))))


def test_the_configuration_has_the_last_word() -> None:
    assert made(order())["OOMScoreAdjust"] == 200
    assert made(order(Path("/s"), ("OOMScoreAdjust", ("i", 500))))["OOMScoreAdjust"] == 500


def test_the_record_is_told_when_the_units_time_is_up() -> None:
    assert made(order())["ExecStopPost"] == [("/bin/sh", ["/bin/sh", "/state/q-1/1/unit", "0.00"], False)]
    bounded = made(order(Path("/a $b"), ("RuntimeMaxUSec", ("t", 2_500_000))))
    assert bounded["ExecStopPost"] == [("/bin/sh", ["/bin/sh", "/a $$b/unit", "102.50"], False)]
    assert bounded["ExecStop"] == [("/bin/sh", ["/bin/sh", "/a $$b/unit", "stop"], False)]


def test_the_file_of_variables_is_no_pattern() -> None:
    assert made(order(Path("/a[b]*?")))["EnvironmentFiles"] == [("/a\\[b]\\*\\?/variables", True)]


def test_variables_are_quoted_as_systemd_reads_them() -> None:
    assert environment_text({"A": 'x"y\\z`$HOME', "B": "two\nlines ", "C": ""}) == (
        'A="x\\"y\\\\z\\`\\$HOME"\nB="two\nlines "\nC=""\n'
    )


@pytest.mark.parametrize("value", ["\x1b[0m", "\r", "\x7f", "\udc80"])
def test_a_value_that_systemd_would_drop_is_refused_by_name(value: str) -> None:
    reason = unfit(order(ODD=value))
    assert reason is not None
    assert "variable ODD" in reason
    assert value not in reason


def test_arguments_are_bounded_together() -> None:
    assert unfit(order(TEXT="tab\tand\nline")) is None
    large = Command(("x", *["é" * 50_000] * 10), "/", {}, 0, 1, 2)
    assert "stdin" in str(unfit(replace(order(), command=large)))


def test_what_is_no_text_is_refused() -> None:
    for argv, cwd in ((("x", "\udc80"), "/"), (("x",), "/\udc80")):
        assert "not UTF-8" in str(unfit(replace(order(), command=Command(argv, cwd, {}, 0, 1, 2))))
    assert "artifacts' directory is not UTF-8" in str(unfit(order(Path("/\udc80"))))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
def test_where_others_may_write_nothing_is_run_as_root(tmp_path: Path) -> None:
    state = tmp_path / "state"
    attempt = state / "q-1" / "1"
    attempt.mkdir(parents=True, mode=0o700)
    assert exposed(attempt) is None
    for owner, group, mode in ((1000, 0, 0o700), (0, 0, 0o777), (0, 1000, 0o770)):
        os.chown(state, owner, group)
        state.chmod(mode)
        assert f"others may change {state}" in str(exposed(attempt))
    os.chown(state, 0, 0)
    state.chmod(0o775)
    (tmp_path / "way").symlink_to(attempt)
    assert exposed(tmp_path / "way") is None


def test_secrets_are_in_a_file_of_ours_and_gone_when_it_has_been_read(tmp_path: Path) -> None:
    wanted = order(tmp_path, SECRET="swordfish")
    unit_order.stage(wanted)
    file = tmp_path / "variables"
    assert file.read_text() == 'SECRET="swordfish"\n'
    assert file.stat().st_mode & 0o777 == 0o600
    assert "swordfish" not in str(made(wanted)) + repr(wanted)
    unit_order.stage(wanted)  # what an earlier life of it left is no obstacle
    unit_order.unstage(tmp_path)
    assert not file.exists()
