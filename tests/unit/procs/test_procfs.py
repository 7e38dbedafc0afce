"""Reading /proc."""

from __future__ import annotations

import os

from questlined.procs import procfs


def line(name: bytes, state: bytes = b"S", threads: bytes = b"1", memory: bytes = b"9", env: bytes = b"8 9") -> bytes:
    head = [b"12", b"(" + name + b")", state, b"7", b"12", b"11", *[b"0"] * 13, threads, b"0", b"4242", memory]
    return b" ".join([*head, *[b"0"] * 26, env, b"0\n"])


def test_a_name_with_spaces_and_parentheses_shifts_no_field() -> None:
    seen = procfs.parse_stat(line(b"a) R 1 (x y) Z"))
    assert (seen.pid, seen.state, seen.parent, seen.group, seen.session) == (12, "S", 7, 12, 11)
    assert (seen.threads, seen.started, seen.memory, seen.bare) == (1, 4242, True, False)


def test_a_zombie_is_dead_unless_other_threads_of_it_live() -> None:
    assert procfs.parse_stat(line(b"x", b"Z")).dead
    assert not procfs.parse_stat(line(b"x", b"Z", b"2")).dead
    assert not procfs.parse_stat(line(b"x")).dead


def test_a_program_that_is_being_loaded_is_told_from_one_without_environment() -> None:
    assert not procfs.parse_stat(line(b"loading", env=b"0 0")).bare
    assert procfs.parse_stat(line(b"empty", env=b"7 7")).bare
    assert not procfs.parse_stat(line(b"kthread", memory=b"0", env=b"0 0")).memory


def test_the_marker_is_a_whole_name_at_any_place() -> None:
    assert procfs.parse_marker(b"QUESTLINE_ATTEMPT=s:q-1:2\0HOME=/\0") == "s:q-1:2"
    assert procfs.parse_marker(b"HOME=/\0QUESTLINE_ATTEMPT=s:q-1:2") == "s:q-1:2"
    assert procfs.parse_marker(b"HOME=/\0MY_QUESTLINE_ATTEMPT=s:q-1:2\0") is None
    assert procfs.parse_marker(b"A=QUESTLINE_ATTEMPT=s\0QUESTLINE_ATTEMPT_X=1\0") is None
    assert procfs.parse_marker(b"") is None


def test_this_process_is_seen_as_the_kernel_tells_it() -> None:
    seen = procfs.stat(os.getpid())
    assert seen is not None
    assert (seen.pid, seen.parent, seen.group, seen.session) == (os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0))
    assert seen.started == procfs.start_ticks(os.getpid())
    assert os.getpid() in procfs.pids()


def test_a_process_that_is_not_there_is_none() -> None:
    nobody = 1 << 30
    assert procfs.stat(nobody) is None
    assert procfs.start_ticks(nobody) is None
    assert procfs.marker(nobody) is None
    assert procfs.children(nobody) == []


def test_the_boot_has_one_name() -> None:
    assert procfs.boot_id() == procfs.boot_id() != ""
