"""What the files of a cgroup say."""

from __future__ import annotations

from pathlib import Path

import pytest

from questlined.procs import cgroup
from questlined.procs.cgroup import Figures


def group(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return str(folder)


def test_figures_are_those_of_the_kernel(tmp_path: Path) -> None:
    there = group(
        tmp_path,
        memory_peak="314572800\n",
        memory_events="low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n",
        cpu_stat="usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n",
    )
    assert cgroup.figures(there) == Figures(314_572_800, 1235, oom=True)


def test_without_an_oom_kill_there_was_none(tmp_path: Path) -> None:
    there = group(
        tmp_path, memory_events="max 12\noom 3\noom_kill 0\n", memory_peak="4096\n", cpu_stat="usage_usec 0\n"
    )
    assert cgroup.figures(there) == Figures(4096, 0, oom=False)


def test_without_controllers_or_group_nothing_is_known(tmp_path: Path) -> None:
    assert cgroup.figures(str(tmp_path)) == cgroup.NO_FIGURES == Figures(None, None, oom=False)
    assert cgroup.figures(str(tmp_path / "gone")) == cgroup.NO_FIGURES


@pytest.mark.parametrize(
    ("events", "populated"), [("populated 1\nfrozen 0\n", True), ("populated 0\nfrozen 0\n", False)]
)
def test_populated_is_what_cgroup_events_says(tmp_path: Path, events: str, populated: bool) -> None:
    there = group(tmp_path, cgroup_events=events, cgroup_procs="12\n0\n13\n")
    assert cgroup.populated(there) is populated
    assert cgroup.pids(there) == [12, 13]


def test_a_group_that_is_gone_is_empty_and_needs_no_removal(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert not cgroup.populated(gone)
    assert cgroup.pids(gone) == []
    cgroup.kill(gone)
    assert cgroup.remove(gone)
    assert cgroup.end([gone]) == []


def test_what_cannot_be_looked_at_is_not_taken_for_empty(tmp_path: Path) -> None:
    (tmp_path / "cgroup.events").mkdir()
    with pytest.raises(IsADirectoryError):
        cgroup.populated(str(tmp_path))


def test_every_controller_that_is_there_is_enabled_and_no_other(tmp_path: Path) -> None:
    there = group(tmp_path, cgroup_controllers="cpuset cpu io memory pids\n", cgroup_subtree_control="")
    asked: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cgroup, "_write", lambda path, text: asked.append(f"{Path(path).name} {text}"))
        cgroup._enable_controllers(there)
    assert asked == [f"cgroup.subtree_control +{name}" for name in ("memory", "pids", "cpu")]


def test_a_mount_with_odd_characters_is_read_as_it_is() -> None:
    assert cgroup._unescaped(r"/sys/fs/cgroup\040of\011mine\134") == "/sys/fs/cgroup of\tmine\\"
