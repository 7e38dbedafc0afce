"""Records reach the journal whole, with their fields, and nothing in them is taken for another."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from questlined.sysd import journal
from questlined.sysd.journal import JournalHandler, Sender, connected, datagram, priority
from questlined.sysd.messages import MESSAGE_IDS


class Journal:
    """The journal's end of the socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(10)

    def next(self) -> dict[str, str]:
        """The next record's fields."""
        data, descriptors, _, _ = socket.recv_fds(self.socket, 1 << 20, 1)
        if descriptors:
            assert data == b""
            with open(descriptors[0], "rb") as memory:
                memory.seek(0)
                data = memory.read()
        return dict(read(data))


def read(data: bytes) -> Iterator[tuple[str, str]]:
    """What the journal makes of a datagram."""
    while data:
        head, _, rest = data.partition(b"\n")
        name, equals, value = head.partition(b"=")
        if equals:
            yield name.decode(), value.decode()
            data = rest
        else:
            size = int.from_bytes(rest[:8], "little")
            yield name.decode(), rest[8 : 8 + size].decode()
            assert rest[8 + size : 9 + size] == b"\n"
            data = rest[9 + size :]


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Journal]:
    end = Journal(tmp_path / "journal")
    yield end
    end.socket.close()


@pytest.fixture
def logger(tmp_path: Path) -> Iterator[logging.Logger]:
    """A logger that sends to the journal at tmp_path/journal."""
    sender = Sender(str(tmp_path / "journal"))
    logger = logging.Logger("test", logging.DEBUG)
    logger.addHandler(JournalHandler(sender))
    yield logger
    sender.close()


def test_a_record_has_its_message_priority_fields_and_the_id_of_its_event(
    there: Journal, logger: logging.Logger
) -> None:
    logger.info("%s: started", "q-1", extra={"fields": {"QUESTLINE_EVENT": "claimed", "QUESTLINE_RUN": 3, "X": None}})
    assert there.next() == {
        "MESSAGE": "q-1: started",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "questlined",
        "QUESTLINE_EVENT": "claimed",
        "QUESTLINE_RUN": "3",
        "MESSAGE_ID": MESSAGE_IDS["claimed"],
    }
    logger.warning("plain")
    assert there.next() == {"MESSAGE": "plain", "PRIORITY": "4", "SYSLOG_IDENTIFIER": "questlined"}


@pytest.mark.parametrize(
    ("level", "number"),
    [("DEBUG", 7), ("INFO", 6), ("WARNING", 4), ("ERROR", 3), ("CRITICAL", 2)],
)
def test_levels_become_the_priorities_of_syslog(level: str, number: int) -> None:
    assert priority(getattr(logging, level)) == number


@pytest.mark.parametrize(
    "value", ["a\nPRIORITY=0\nMESSAGE=b", "\n", "nul \0 bell \7", "caf\u00e9 \U0001f600", "", "=\t="]
)
def test_a_value_is_one_value_whatever_it_holds(value: str) -> None:
    assert list(read(datagram([("MESSAGE", value), ("PRIORITY", "6")]))) == [("MESSAGE", value), ("PRIORITY", "6")]


def test_what_is_no_unicode_is_shown_escaped() -> None:
    """A file's name may be any bytes, which Python keeps as half characters."""
    assert list(read(datagram([("MESSAGE", os.fsdecode(b"\xff.toml"))]))) == [("MESSAGE", "\\udcff.toml")]


def test_a_traceback_comes_with_its_message(there: Journal, logger: logging.Logger) -> None:
    try:
        raise ValueError("a fault")
    except ValueError as error:
        logger.error("failed", exc_info=error)
    message = there.next()["MESSAGE"]
    assert message.startswith("failed\nTraceback")
    assert message.endswith("ValueError: a fault")


def test_a_record_too_long_for_a_datagram_arrives_whole(there: Journal, logger: logging.Logger) -> None:
    """In sealed memory; above a bound its message is cut."""
    there.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
    long = "x" * (journal.MESSAGE_MAX + 1)
    huge = {"FIELD": "y" * (1 << 24)}
    logger.info(long, extra={"fields": huge})
    assert there.next() == {
        "MESSAGE": long[:-1],
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "questlined",
        **huge,
    }


def fill(logger: logging.Logger, there: Journal, until: Callable[[], bool]) -> int:
    """Log numbered records to a journal that takes none until something holds; how many there were."""
    number = 0
    while not until():
        logger.info("%d", number)
        number += 1
        assert number < 100_000
    return number


def waiting(logger: logging.Logger) -> Sender:
    (handler,) = logger.handlers
    assert isinstance(handler, JournalHandler)
    return handler._sender


def test_a_busy_journal_is_not_waited_for_and_gets_everything_in_order(there: Journal, logger: logging.Logger) -> None:
    sender = waiting(logger)
    number = fill(logger, there, lambda: len(sender._backlog) > 100)
    assert [there.next()["MESSAGE"] for _ in range(number)] == [str(each) for each in range(number)]
    sender.flush(10)
    logger.info("after")
    assert there.next()["MESSAGE"] == "after"


def test_above_a_bound_records_are_left_out_and_counted(
    there: Journal, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "BACKLOG_MAX", 5)
    sender = waiting(logger)
    number = fill(logger, there, lambda: sender._dropped == 7)
    messages = [there.next()["MESSAGE"] for _ in range(number - 7)]
    assert messages == [str(each) for each in range(number - 7)]
    assert there.next()["MESSAGE"].startswith("7 log records are left out")


def test_without_a_journal_records_are_lines_with_their_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And they find it again when it is back."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as lines, os.fdopen(write_end, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        sender = Sender(str(tmp_path / "journal"))
        logger = logging.Logger("test")
        logger.addHandler(JournalHandler(sender))
        logger.warning("one\ntwo")
        assert [lines.readline(), lines.readline()] == ["<4>WARNING one\n", "<4>two\n"]
        there = Journal(tmp_path / "journal")
        logger.warning("three")
        assert there.next()["MESSAGE"] == "three"
        there.socket.close()
        there.path.unlink()
        again = Journal(tmp_path / "journal")
        logger.warning("four")
        assert again.next()["MESSAGE"] == "four"
        sender.close()
        again.socket.close()


class Reentrant(Sender):
    """The garbage collector comes while a record is sent, and what it ends has something to log, as asyncio's tasks."""

    def _put_once(self, record: bytes) -> None:
        if record == b"MESSAGE=outer\n":
            self.send(b"MESSAGE=inner\n")
        super()._put_once(record)


def test_a_record_that_comes_while_another_is_sent_is_sent_too(there: Journal) -> None:
    """In the same thread, which would wait for itself."""
    sender = Reentrant(str(there.path))
    sending = threading.Thread(target=sender.send, args=(b"MESSAGE=outer\n",), daemon=True)
    sending.start()
    assert [there.next()["MESSAGE"] for _ in range(2)] == ["inner", "outer"]
    sending.join(10)
    sender.close()


def test_a_journal_that_goes_away_while_records_wait_ends_the_waiting(
    there: Journal, logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    sender = waiting(logger)
    fill(logger, there, lambda: bool(sender._backlog))
    there.path.unlink()
    there.socket.close()
    assert sender._drained.wait(10)
    logger.warning("to standard error")


def test_only_the_stream_that_systemd_gave_is_the_journals(tmp_path: Path) -> None:
    found = os.fstat(2)
    assert connected({"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"})
    assert not connected({"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"})
    assert not connected({"JOURNAL_STREAM": ""})
    assert not connected({})


@pytest.mark.parametrize("goes_there", [True, False])
def test_records_go_to_the_journal_or_are_lines_of_standard_error(
    there: Journal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], goes_there: bool
) -> None:
    """In the journal without their level, which is a field of its own."""
    monkeypatch.setattr(journal, "SOCKET", str(there.path))
    monkeypatch.setattr(logging, "root", logging.RootLogger(logging.WARNING))
    found = os.fstat(2)
    journal.set_up({"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"} if goes_there else {})
    logging.root.info("said")
    assert journal.in_use() is goes_there
    if goes_there:
        assert there.next()["MESSAGE"] == "said"
        logging.root.handlers[0].close()
    assert capsys.readouterr().err == ("" if goes_there else "INFO said\n")


def test_every_event_has_an_id_of_its_own() -> None:
    ids = list(MESSAGE_IDS.values())
    assert len(set(ids)) == len(ids)
    assert all(len(each) == 32 and int(each, 16) for each in ids)


def test_flushing_waits_no_longer_than_it_may(there: Journal, logger: logging.Logger) -> None:
    """A journal that hangs does not keep the daemon's end."""
    sender = waiting(logger)
    fill(logger, there, lambda: bool(sender._backlog))
    done = threading.Event()
    threading.Thread(target=lambda: (sender.flush(0.01), done.set())).start()
    assert done.wait(10)
