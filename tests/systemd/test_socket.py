"""The socket unit: clients wait over a restart, none is refused, and a stopped daemon comes back for the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.systemd.lab import Lab, LabDaemon

USER = "sophie"
RESTARTS, ADDS = 10, 1000

# For each line of stdin a round: clients of the product's own add their share one by one, and a file of some more comes
# in bulk. Prints every id that was acknowledged.
ADDER = """
import json, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from qlctl.client import Client
CLIENTS, BULK = 6, 28
share = (int(sys.argv[2]) - BULK) // CLIENTS
clients = [Client(sys.argv[1]) for _ in range(CLIENTS)]
def one_by_one(client):
    add = "io.questline.Quests.Add", {"task": "x", "directory": os.getcwd()}
    return [client.change(*add)["quest"]["id"] for _ in range(share)]
def bulk():
    argv = [sys.executable, "-m", "qlctl", "add", "--from-file", "-", "--print-id"]
    lines = (json.dumps({"task": "x"}) + "\\n") * BULK
    return subprocess.run(argv, input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
with ThreadPoolExecutor() as threads:
    for _ in sys.stdin:
        begun = [threads.submit(bulk), *(threads.submit(one_by_one, client) for client in clients)]
        print("begun", flush=True)
        for each in begun:
            print(*each.result())
"""

# Connects at once as often as asked for, says so, and counts who was answered.
CROWD = """
import socket, sys
crowd = [socket.socket(socket.AF_UNIX) for _ in range(int(sys.argv[2]))]
for client in crowd:
    client.connect(sys.argv[1])
    client.sendall(b'{"method":"org.varlink.service.GetInfo"}\\0')
print(sum(b"questlined" in client.recv(65536) for client in crowd))
"""


@pytest.fixture
def daemon(lab: Lab) -> Iterator[LabDaemon]:
    """A daemon that starts no quest: what is added is what is there."""
    running = lab.daemon(USER)
    running.qlctl("pause")
    yield running
    running.systemctl("stop", "questlined.socket", "questlined.service")


def test_a_thousand_adds_through_ten_restarts_lose_none_and_double_none(daemon: LabDaemon) -> None:
    """In threads, in bulk, and with every restart in the middle of a hundred of them."""
    argv = [daemon.lab.python, "-c", ADDER, daemon.socket, str(ADDS // RESTARTS)]
    with daemon.lab.start(*argv, user=USER, cwd=daemon.project) as adder:
        assert adder.stdin is not None
        assert adder.stdout is not None
        said = ""
        for _ in range(RESTARTS):
            adder.stdin.write("\n")
            adder.stdin.flush()
            while (line := adder.stdout.readline()) != "begun\n":
                assert line, adder.communicate()[1]
                said += line
            daemon.restart()
        rest, errors = adder.communicate(timeout=60)
    assert adder.returncode == 0, errors
    acknowledged = (said + rest).split()
    listed = [quest["id"] for quest in daemon.json("list", "--limit", str(2 * ADDS))]
    assert len(acknowledged) == ADDS
    assert sorted(acknowledged) == sorted(listed)
    assert daemon.show("NRestarts")["NRestarts"] == "0"  # each ended and began in order


def test_clients_that_come_while_it_is_down_wait_and_are_served(daemon: LabDaemon) -> None:
    """More of them than any backlog of our own; the daemon is away for as long as they need to come."""
    daemon.stop()
    said = daemon.lab.run(daemon.lab.python, "-c", CROWD, daemon.socket, "200", user=USER).stdout
    assert said == "200\n"


def test_the_next_client_starts_a_daemon_that_was_stopped(daemon: LabDaemon) -> None:
    """Without the socket unit it is told how to start it, at once."""
    before = daemon.pid
    daemon.stop()
    assert daemon.show("ActiveState", "Result") == {"ActiveState": "inactive", "Result": "success"}
    assert daemon.json("list") == []
    assert daemon.pid not in (0, before)
    daemon.systemctl("stop", "questlined.socket")
    assert daemon.pid == 0
    refused = daemon.qlctl("list", check=False)
    assert refused.returncode == 69
    assert "systemctl --user start questlined" in refused.stderr


def test_the_socket_stays_the_same_file_for_its_user_alone(daemon: LabDaemon) -> None:
    """Over restart and stop; the directory lets nobody else in."""

    def seen() -> str:
        folder = daemon.socket.rpartition("/")[0]
        return daemon.lab.run("stat", "--format=%n %i %A %U", folder, daemon.socket).stdout

    first = seen()
    assert [line.split()[2:] for line in first.splitlines()] == [["drwx------", USER], ["srw-------", USER]]
    daemon.restart()
    assert seen() == first
    daemon.stop()
    assert seen() == first


def test_the_daemon_serves_the_socket_that_systemd_gave_it(lab: Lab) -> None:
    """And not the one that its own settings name; a quest learns of that one alone."""
    running = lab.daemon(USER, unit="[Service]\nEnvironment=QUESTLINED_SOCKET=%h/other.sock\n")
    assert running.json("version")["daemon"]["socket"] == running.socket
    told = running.qlctl("add", "--wait", "--", "env | grep -E 'SOCKET|LISTEN|NOTIFY'").stdout
    assert told == f"QUESTLINED_SOCKET={running.socket}\n"
    running.systemctl("stop", "questlined.socket", "questlined.service")
