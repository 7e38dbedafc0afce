"""What systemd is told arrives as it expects it, and nothing from outside becomes a field."""

import contextlib
import os
import socket
import threading

import pytest

from questlined.sysd import notify
from questlined.sysd.notify import STATUS_MAX, Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """The manager's end of NOTIFY_SOCKET, and its address."""
    address = str(tmp_path / "n") if request.param == "path" else f"@questlined-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(address.replace("@", "\0", 1))
        end.setblocking(False)
        yield end, address


def told(end):
    return end.recv(4096)


def test_every_message_is_one_datagram_with_its_fields(manager):
    end, address = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    for call, datagram in (
        (notifier.ready, b"READY=1"),
        (notifier.stopping, b"STOPPING=1"),
        (notifier.watchdog, b"WATCHDOG=1"),
        (lambda: notifier.extend_timeout(1500), b"EXTEND_TIMEOUT_USEC=1500000"),
        (lambda: notifier.reloading(77), b"RELOADING=1\nMONOTONIC_USEC=77"),
        (lambda: notifier.status("2 running"), b"STATUS=2 running"),
    ):
        call()
        assert told(end) == datagram
    assert notifier.problem is None
    notifier.close()
    notifier.ready()
    with pytest.raises(BlockingIOError):
        told(end)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("a\nREADY=1\nMAINPID=1", "a READY=1 MAINPID=1"),
        ("tab\tnul\0cr\rline\u2028end", "tab nul cr line end"),
        ("caf\u00e9 \u20ac \U0001f600", "caf\u00e9 \u20ac \U0001f600"),
        ("half \ud83d", "half ?"),
    ],
)
def test_a_status_is_one_line_of_utf8_and_no_field(manager, text, status):
    end, address = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.status(text)
    assert told(end).decode() == f"STATUS={status}"
    notifier.close()


def test_a_status_of_any_length_fits_the_managers_buffer(manager):
    end, address = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.status("\U0001f600" * 10_000)
    received = end.recv(100_000)
    assert len(received) <= 4096
    assert received.decode() == "STATUS=" + "\U0001f600" * STATUS_MAX
    notifier.close()


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}])
def test_without_a_manager_nothing_is_sent_and_nothing_is_wrong(environ, monkeypatch, manager):
    end, address = manager
    monkeypatch.setenv("NOTIFY_SOCKET", address)  # only the environment that is given counts
    notifier = Notifier(environ)
    notifier.ready()
    notifier.status("x")
    assert notifier.problem is None
    with pytest.raises(BlockingIOError):
        told(end)


def test_a_manager_that_is_not_there_is_a_problem_and_no_exception(tmp_path):
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "absent")})
    notifier.ready()
    assert "No such file" in notifier.problem


def test_a_manager_that_goes_away_is_a_problem_until_it_is_back(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "n"))
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "n")})
        notifier.ready()
        assert notifier.problem is None
    notifier.watchdog()
    assert "refused" in notifier.problem
    notifier.close()


def fill(address):
    """Leave no room for a further message."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                other.sendto(b"x", address.replace("@", "\0", 1))


def test_a_manager_that_hangs_is_not_waited_for(manager):
    """What is said again and again is left out meanwhile."""
    _, address = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    fill(address)
    for call in (notifier.watchdog, lambda: notifier.status("x"), lambda: notifier.extend_timeout(1)):
        notifier.problem = None
        sending = threading.Thread(target=call, daemon=True)
        sending.start()
        sending.join(5)
        assert not sending.is_alive()
        assert "unavailable" in notifier.problem
    notifier.close()


def test_what_is_said_once_waits_a_while_for_a_manager_that_hangs(manager, monkeypatch):
    """It arrives where the manager comes back within that time, and is given up after it."""
    end, address = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    fill(address)
    sending = threading.Thread(target=notifier.ready, daemon=True)
    sending.start()
    end.settimeout(5)
    while (message := told(end)) == b"x":
        pass
    assert message == b"READY=1"
    sending.join(5)
    assert notifier.problem is None
    monkeypatch.setattr(notify, "ONCE_S", 0.01)
    fill(address)
    notifier.stopping()
    assert "timed out" in notifier.problem
    notifier.close()


@pytest.mark.parametrize(
    ("environ", "ms"),
    [
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 60_000),
        ({"WATCHDOG_USEC": "60000000"}, 60_000),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "500", "WATCHDOG_PID": "7"}, 1),
        ({"WATCHDOG_USEC": "0", "WATCHDOG_PID": "7"}, None),
        ({"WATCHDOG_USEC": "-5", "WATCHDOG_PID": "7"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_counts_only_for_the_process_it_is_meant_for(environ, ms):
    assert Notifier(environ, pid=7).watchdog_ms == ms
