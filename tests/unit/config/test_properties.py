"""Properties of units in a configuration: what each means on the bus, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from questlined.config.load import from_text, load_from
from questlined.config.properties import INFINITY, TABLE, TAKEN
from questlined.wire.errors import ConfigInvalid

UNIT = 'executor.isolation = "unit"\n'


def read(line: str) -> dict[str, tuple[str, object]]:
    """What one property sets."""
    executor = from_text(f"{UNIT}[executor.properties]\n{line}\n").executor
    return {name: value for group in executor.properties.values() for name, value in group}


@pytest.mark.parametrize(
    ("line", "sets"),
    [
        ('MemoryMax = "2G"', {"MemoryMax": ("t", 2 * 1024**3)}),
        ("MemoryHigh = 1000", {"MemoryHigh": ("t", 1000)}),
        ('MemorySwapMax = "infinity"', {"MemorySwapMax": ("t", INFINITY)}),
        ('MemoryMax = "50%"', {"MemoryMaxScale": ("u", 2**31)}),
        ("TasksMax = 100", {"TasksMax": ("t", 100)}),
        ('CPUQuota = "150%"', {"CPUQuotaPerSecUSec": ("t", 1_500_000)}),
        ("CPUWeight = 20", {"CPUWeight": ("t", 20)}),
        ('RuntimeMaxSec = "1h 30min"', {"RuntimeMaxUSec": ("t", 5_400_000_000)}),
        ("LimitNOFILE = 1024", {"LimitNOFILE": ("t", 1024), "LimitNOFILESoft": ("t", 1024)}),
        ('LimitNOFILE = "1024:infinity"', {"LimitNOFILE": ("t", INFINITY), "LimitNOFILESoft": ("t", 1024)}),
        ('LimitCORE = "1M"', {"LimitCORE": ("t", 1024**2), "LimitCORESoft": ("t", 1024**2)}),
        ('LimitCPU = "90s"', {"LimitCPU": ("t", 90), "LimitCPUSoft": ("t", 90)}),
        ("Nice = -5", {"Nice": ("i", -5)}),
        ('IOSchedulingClass = "idle"', {"IOSchedulingClass": ("i", 3)}),
        ('ProtectSystem = "strict"', {"ProtectSystem": ("s", "strict")}),
        ("ProtectSystem = true", {"ProtectSystem": ("s", "yes")}),
        ("ProtectHome = false", {"ProtectHome": ("s", "no")}),
        ("PrivateTmp = true", {"PrivateTmp": ("b", True)}),
        ('ReadWritePaths = ["{project}", "-/a", "{project}/x"]',
         {"ReadWritePaths": ("as", ["{project}", "-/a", "{project}/x"])}),
        ('ReadOnlyPaths = "/with a space"', {"ReadOnlyPaths": ("as", ["/with a space"])}),
        ('BindPaths = ["/a:/b", "-/c"]',
         {"BindPaths": ("a(ssbt)", [("/a", "/b", False, 0x4000), ("/c", "/c", True, 0x4000)])}),
        ("RestrictNamespaces = true", {"RestrictNamespaces": ("t", 0)}),
        ('RestrictNamespaces = "user net"', {"RestrictNamespaces": ("t", 0x50000000)}),
        ('RestrictAddressFamilies = ["AF_UNIX", "AF_INET"]',
         {"RestrictAddressFamilies": ("(bas)", (True, ["AF_UNIX", "AF_INET"]))}),
        ('RestrictAddressFamilies = "none"', {"RestrictAddressFamilies": ("(bas)", (True, []))}),
        ('SystemCallFilter = "~@mount chroot:EPERM"',
         {"SystemCallFilter": ("(bas)", (False, ["@mount", "chroot:EPERM"]))}),
        ('SystemCallArchitectures = "native"', {"SystemCallArchitectures": ("as", ["native"])}),
        ('User = "bob"', {"User": ("s", "bob")}),
        ("User = 1000", {"User": ("s", "1000")}),
        ('SupplementaryGroups = ["a", "b"]', {"SupplementaryGroups": ("as", ["a", "b"])}),
    ],
)  # fmt: skip
def test_a_property_becomes_what_the_bus_takes(line: str, sets: dict[str, tuple[str, object]]) -> None:
    assert read(line) == sets


def test_a_path_may_begin_at_home() -> None:
    assert read('ReadWritePaths = ["~/x"]') == {"ReadWritePaths": ("as", [str(Path.home() / "x")])}


@pytest.mark.parametrize(
    ("line", "key", "message"),
    [
        ('MemoryMaks = "1G"', "MemoryMaks", "unknown property"),
        ('MemoryMax = "1Q"', "MemoryMax", "is no size"),
        ('MemoryMax = "101%"', "MemoryMax", "above 100%"),
        ("MemoryMax = true", "MemoryMax", "is no size"),
        ("MemoryMax = -1", "MemoryMax", "out of range"),
        ("TasksMax = 0", "TasksMax", "not between"),
        ("CPUQuota = 50", "CPUQuota", "no share of processors"),
        ("CPUWeight = 10001", "CPUWeight", "not between 1 and 10000"),
        ("RuntimeMaxSec = 0", "RuntimeMaxSec", "it is 0"),
        ('LimitNOFILE = "9:3"', "LimitNOFILE", "soft limit is above"),
        ('LimitNOFILE = "many"', "LimitNOFILE", "no number"),
        ("Nice = 20", "Nice", "not between -20 and 19"),
        ('ProtectSystem = "strickt"', "ProtectSystem", "not one of"),
        ('PrivateTmp = "yes"', "PrivateTmp", "text, not true or false"),
        ('ReadWritePaths = ["x"]', "ReadWritePaths", "no absolute path"),
        ('ReadWritePaths = ["/a/../b"]', "ReadWritePaths", "without .."),
        ('ReadWritePaths = ["{task}"]', "ReadWritePaths", "no absolute path"),
        ("ReadWritePaths = [1]", "ReadWritePaths", "not text"),
        ('SystemCallFilter = "@mounts"', "SystemCallFilter", "no group of system calls"),
        ('SystemCallFilter = "open;close"', "SystemCallFilter", "no system call"),
        ('RestrictAddressFamilies = "AF_INETS"', "RestrictAddressFamilies", "no address family"),
        ('RestrictNamespaces = "users"', "RestrictNamespaces", "no kind of namespace"),
        ('User = "root"', "User", "not run by root"),
        ('User = "a b"', "User", "no name of an account"),
        ('Environment = "A=b"', "Environment", "questlined sets this one itself"),
        ('KillMode = "none"', "KillMode", "questlined sets this one itself"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(line: str, key: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        read(line)
    assert raised.value.message.startswith(f"questlined.toml:3: executor.properties.{key}: ")
    assert message in raised.value.message + raised.value.hint
    assert raised.value.hint


@pytest.mark.parametrize(("line", "meant"), [("MemMax = 1", "MemoryMax"), ('ProtectSystem = "strct"', "strict")])
def test_what_was_probably_meant_is_said(line: str, meant: str) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        read(line)
    assert raised.value.hint == f"did you mean {meant}?"


def test_no_property_is_both_taken_and_to_be_set() -> None:
    assert not TABLE.keys() & TAKEN.keys()
    assert all(TAKEN.values())


def test_a_role_has_the_common_properties_and_its_own() -> None:
    text = f"{UNIT}[executor.properties]\nNice = 1\nPrivateTmp = true\n[executors.build.properties]\nNice = 5\n"
    config = from_text(text)
    assert {name: value[0][1] for name, value in config.for_role("build").properties.items()} == {
        "Nice": ("i", 5),
        "PrivateTmp": ("b", True),
    }


def check(folder: Path, text: str, uid: int = 1000) -> None:
    (folder / "questlined.toml").write_text(text)
    load_from({}, str(folder / "questlined.toml"), uid)


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ("executor.properties.Nice = 1", 1, "executor.properties", 'isolation is "process"'),
        (f"{UNIT}executor.keep_children = true", 2, "executor.keep_children", "nothing of a unit outlives it"),
        (f'{UNIT}executor.properties.User = "bob"', 2, "executor.properties", "a daemon of root only"),
        ('[executors.a]\nisolation = "process"\nproperties.Nice = 1', 3, "executors.a.properties", "isolation"),
        ('executor.keep_children = true\n[executors.a]\nisolation = "unit"', 1, "executor.keep_children", "outlives"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, text: str, line: int, key: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        check(tmp_path, text)
    assert raised.value.message.startswith(f"{tmp_path}/questlined.toml:{line}: {key}: ")
    assert message in raised.value.message


def test_common_properties_are_for_the_roles_that_are_units(tmp_path: Path) -> None:
    check(tmp_path, 'executor.properties.Nice = 1\n[executors.a]\nisolation = "unit"')
    check(tmp_path, f'{UNIT}executor.properties.Nice = 1\n[executors.a]\nisolation = "process"')


def test_a_daemon_of_root_has_to_name_the_account(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="has to say who runs its units"):
        check(tmp_path, UNIT, uid=0)
    check(tmp_path, f'{UNIT}executor.properties.User = "bob"', uid=0)
    with pytest.raises(ConfigInvalid, match="can be read by root only"):
        check(tmp_path, f'{UNIT}executor.properties.User = "bob"\nexecutor.command = ["x", "{{task_file}}"]', uid=0)
