"""What systemd gives: a socket that is open before the daemon and after it, and a place to say how it does."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.daemon import REPOSITORY, UP_S, Daemon

LAUNCH = 'exec 3<&"$1"; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=varlink exec "$2" -m questlined'


@contextmanager
def notified(folder: Path) -> Iterator[tuple[socket.socket, str]]:
    """A socket for sd_notify, and its address."""
    address = str(folder / "sd_notify.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(address)
        receiving.settimeout(UP_S)
        yield receiving, address


def until(receiving: socket.socket, wanted: bytes) -> list[bytes]:
    """Every field sent up to and with `wanted`."""
    fields: list[bytes] = []
    while wanted not in fields:
        fields += receiving.recv(65536).split(b"\n")
    return fields


@pytest.fixture
def settings(tmp_path: Path) -> Daemon:
    """Folders and environment of a daemon that the test starts itself."""
    return Daemon(tmp_path)


def test_an_inherited_socket_is_served_and_left_open(settings: Daemon, tmp_path: Path) -> None:
    """A client that came before the daemon is answered; after its end the socket still takes connections."""
    with notified(tmp_path) as (receiving, address), socket.socket(socket.AF_UNIX) as listening:
        listening.bind(settings.socket)
        listening.listen()
        with socket.socket(socket.AF_UNIX) as early:
            early.connect(settings.socket)
            early.settimeout(UP_S)
            early.sendall(b'{"method":"org.varlink.service.GetInfo"}\0')
            number = listening.fileno()
            environ = settings.environ(NOTIFY_SOCKET=address)
            del environ["QUESTLINED_SOCKET"]  # what was inherited is the place
            argv = ["bash", "-c", LAUNCH, "bash", str(number), sys.executable]
            with subprocess.Popen(argv, env=environ, cwd=REPOSITORY, pass_fds=[number]) as process:
                until(receiving, b"READY=1")
                assert json.loads(early.recv(65536).rstrip(b"\0"))["parameters"]["product"] == "questlined"
                early.sendall(b'{"method":"io.questline.Manager.Status"}\0')
                assert json.loads(early.recv(65536).rstrip(b"\0"))["parameters"]["socket"] == settings.socket
                process.send_signal(signal.SIGTERM)
                assert process.wait(UP_S) == 0
        with socket.socket(socket.AF_UNIX) as late:
            late.connect(settings.socket)


def test_as_many_clients_may_wait_as_the_socket_was_made_for(settings: Daemon, tmp_path: Path) -> None:
    """While the daemon does not accept, none of 300 is refused: it does not make systemd's queue shorter."""
    with notified(tmp_path) as (receiving, address), socket.socket(socket.AF_UNIX) as listening:
        listening.bind(settings.socket)
        listening.listen(1024)
        number = listening.fileno()
        argv = ["bash", "-c", LAUNCH, "bash", str(number), sys.executable]
        environ = settings.environ(NOTIFY_SOCKET=address)
        with ExitStack() as crowd, subprocess.Popen(argv, env=environ, cwd=REPOSITORY, pass_fds=[number]) as process:
            until(receiving, b"READY=1")
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            try:
                for _ in range(300):
                    client = crowd.enter_context(socket.socket(socket.AF_UNIX))
                    client.setblocking(False)
                    client.connect(settings.socket)  # BlockingIOError where the queue is full
            finally:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
            assert process.wait(UP_S) == 0


def test_it_says_ready_feeds_the_watchdog_and_says_stopping(settings: Daemon, tmp_path: Path) -> None:
    with notified(tmp_path) as (receiving, address):
        environ = settings.environ(NOTIFY_SOCKET=address, WATCHDOG_USEC="300000")
        with subprocess.Popen([sys.executable, "-m", "questlined"], env=environ, cwd=REPOSITORY) as process:
            until(receiving, b"READY=1")
            for _ in range(3):
                until(receiving, b"WATCHDOG=1")
            process.send_signal(signal.SIGTERM)
            until(receiving, b"STOPPING=1")
            assert process.wait(UP_S) == 0


def test_the_watchdog_is_not_fed_while_the_loop_hangs(settings: Daemon, tmp_path: Path) -> None:
    """Stopped, the daemon says nothing; continued, it goes on."""
    with notified(tmp_path) as (receiving, address):
        environ = settings.environ(NOTIFY_SOCKET=address, WATCHDOG_USEC="300000")
        with subprocess.Popen([sys.executable, "-m", "questlined"], env=environ, cwd=REPOSITORY) as process:
            until(receiving, b"WATCHDOG=1")
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            while select.select([receiving], [], [], 0)[0]:
                receiving.recv(65536)
            receiving.settimeout(1.0)
            with pytest.raises(TimeoutError):
                receiving.recv(65536)
            receiving.settimeout(UP_S)
            process.send_signal(signal.SIGCONT)
            until(receiving, b"WATCHDOG=1")
            process.send_signal(signal.SIGTERM)
            assert process.wait(UP_S) == 0
