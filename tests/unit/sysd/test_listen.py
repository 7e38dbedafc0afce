"""Sockets opened by systemd are taken over; whatever else was passed is let go and named."""

import logging
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from questlined.sysd.listen import inherited


class Passed:
    """Descriptors placed in a row, as systemd would."""

    def __init__(self, first):
        self.first, self.number = first, 0

    def add(self, descriptor):
        os.dup2(descriptor, self.first + self.number, inheritable=True)
        self.number += 1

    def environ(self, pid=7, names=""):
        return {"LISTEN_PID": str(pid), "LISTEN_FDS": str(self.number), "LISTEN_FDNAMES": names, "HOME": "/h"}


@pytest.fixture
def passed():
    row = Passed(first=200)
    yield row
    for descriptor in range(row.first, row.first + row.number):
        try:
            os.close(descriptor)
        except OSError:
            pass


def listening(path):
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_listening_sockets_are_taken_in_order_close_on_exec(passed, tmp_path):
    for name in "ab":
        with listening(tmp_path / name) as made:
            passed.add(made.fileno())
    environ = passed.environ(names="questlined:varlink")
    taken = inherited(environ, 7, first=200)
    assert environ == {"HOME": "/h"}
    assert [end.getsockname() for end in taken] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert [end.fileno() for end in taken] == [200, 201]
    assert not any(os.get_inheritable(end.fileno()) for end in taken)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "b"))
        taken[1].accept()[0].close()
    for end in taken:
        end.close()


def test_another_processs_sockets_are_left_alone(passed, tmp_path):
    with listening(tmp_path / "a") as made:
        passed.add(made.fileno())
    environ = passed.environ(pid=8)
    assert inherited(environ, 7, first=200) == []
    assert environ == {"HOME": "/h"}
    assert is_open(200)
    assert os.get_inheritable(200)


def test_what_cannot_be_served_is_closed_and_named(passed, tmp_path, caplog):
    with (
        open(os.devnull) as file,
        socket.socket(socket.AF_INET) as tcp,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as idle,
        listening(tmp_path / "a") as good,
    ):
        for end in (file, tcp, datagrams, idle, good):
            passed.add(end.fileno())
    environ = {**passed.environ(names="f:t:d"), "LISTEN_FDS": "6"}
    with caplog.at_level(logging.WARNING):
        (taken,) = inherited(environ, 7, first=200)
    assert taken.fileno() == 204
    assert [is_open(descriptor) for descriptor in range(200, 206)] == [False, False, False, False, True, False]
    assert [record.getMessage() for record in caplog.records] == [
        "descriptor 200 (f) is no socket, ignoring",
        "descriptor 201 (t) is no Unix stream socket, ignoring",
        "descriptor 202 (d) is no Unix stream socket, ignoring",
        "descriptor 203 (unknown) does not listen, ignoring",
        "descriptor 205 (unknown) is not open, ignoring",
    ]
    taken.close()


def test_a_socket_that_somebody_named_for_something_else_is_not_served(passed, tmp_path, caplog):
    """Without FileDescriptorName= systemd gives the name of the socket unit, which is no such name."""
    for name in "abc":
        with listening(tmp_path / name) as made:
            passed.add(made.fileno())
    with caplog.at_level(logging.WARNING):
        taken = inherited(passed.environ(names="metrics:mine.socket:questlined"), 7, first=200)
    assert [end.getsockname() for end in taken] == [str(tmp_path / "b"), str(tmp_path / "c")]
    assert not is_open(200)
    assert [record.getMessage() for record in caplog.records] == [
        "descriptor 200 (metrics) is named for something else, ignoring"
    ]
    for end in taken:
        end.close()


@pytest.mark.parametrize("number", ["", "x", "-1", "\u0661", "999999999"])
def test_a_number_that_is_none_counts_as_none(number, caplog):
    assert inherited({"LISTEN_PID": "7", "LISTEN_FDS": number}, 7, first=200) == []
    assert "is no number, ignoring" in caplog.text


def test_without_activation_there_are_none():
    assert inherited({}, 7) == []


ROOT = Path(__file__).parents[3]
PROGRAM = """
import os
from questlined.sysd.listen import inherited
(taken,) = inherited(os.environ, os.getpid())
print(taken.getsockname(), taken.fileno(), sorted(name for name in os.environ if name.startswith("LISTEN")), flush=True)
connection = taken.accept()[0]
connection.sendall(b"hello")
"""


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="needs systemd-socket-activate")
def test_a_socket_from_systemd_itself_is_served(tmp_path):
    path = str(tmp_path / "s")
    command = ["systemd-socket-activate", "-l", path, "--fdname=questlined", "-E", "PYTHONPATH",
               sys.executable, "-c", PROGRAM]  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    daemon = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with daemon, socket.socket(socket.AF_UNIX) as client:
        try:
            assert "Listening on" in daemon.stderr.readline()
            client.connect(path)
            assert daemon.stdout.readline().strip() == f"{path} 3 []"
            assert client.recv(10) == b"hello"
            assert daemon.wait(timeout=20) == 0
        finally:
            daemon.kill()
