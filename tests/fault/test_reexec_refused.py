"""`qlctl reexec` where the new program cannot go on: the old one does, as if nothing had been asked."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import pytest

from tests.fault.replacing import ASKED, ATTEMPTS, Running
from tests.support.evidence import PATIENCE_S


def refused(running: Running, status: int, *says: str) -> None:
    """The call is refused with this, and the daemon goes on as if nothing had been asked."""
    before = running.call("Manager.Status")
    done = running.qlctl("reexec", check=False)
    assert done.returncode == status, done.stderr
    for words in (*says, "nothing was changed"):
        assert words in done.stderr
    assert running.call("Manager.Status")["startedAt"] == before["startedAt"]
    assert running.run("echo fine")["quest"]["result"] == "fine\n"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("sys.modules['msgspec'] = None", "ModuleNotFoundError: import of msgspec halted"),
        ("os._exit(3)", "it ended with 3, and said nothing"),
        ("print('{'); os._exit(0)", "said nothing"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "it ended by a signal"),
    ],
)
def test_a_new_program_that_cannot_start_is_refused(running: Running, code: str, says: str) -> None:
    """And what runs is not touched."""
    quest = running.add(running.held())
    running.started.next()
    running.every_python(ASKED + code)
    refused(running, 75, "the new program is refused", says)
    running.every_python("")
    running.reexec()
    running.hold.put()
    assert running.ended(quest)["quest"]["attempts"] == 1


def test_a_configuration_that_is_wrong_by_now_is_refused_with_its_place(running: Running) -> None:
    """As it is for a reload; one that moves the queue is for a restart."""
    good = running.config.read_text()
    running.config.write_text(good + "heartbeet = 3\n")
    refused(running, 78, f"{running.config}:", "heartbeet")
    running.config.write_text(good + f'admin_group = "no-such-group-{os.getpid()}"\n')
    refused(running, 78, "admin_group")
    running.config.write_text(good + f'store.path = "{running.folder}/elsewhere.sqlite"\n')
    refused(running, 75, "elsewhere.sqlite")
    running.config.write_text(good.replace(f"max_concurrent = {2 * ATTEMPTS}", "max_concurrent = 3"))
    running.reexec()
    assert running.call("Manager.Status")["maxConcurrent"] == 3


def test_a_program_that_cannot_be_executed_leaves_the_running_one_with_all_it_has(tmp_path: Path) -> None:
    """It was there when it was asked, and is gone when it is wanted: the same process goes on, and nobody is lost."""
    running = Running(tmp_path)
    interpreter = tmp_path / "bin" / "python"
    interpreter.parent.mkdir()
    interpreter.symlink_to(sys.executable)
    running.interpreter = str(interpreter)
    libraries = os.pathsep.join([str(running.site), *(path for path in sys.path if path)])
    try:
        running.start(PYTHONPATH=libraries)
        quest = running.add(running.held("echo one", "echo two"))
        running.started.next()
        before = running.call("Manager.Status")
        running.every_python(ASKED + f"os.unlink({str(interpreter)!r})")
        done = running.qlctl("reexec", check=False)
        assert (done.returncode, "could not be executed" in done.stderr) == (75, True), done.stderr
        assert running.call("Manager.Status")["startedAt"] == before["startedAt"]
        assert "No such file or directory; the running one goes on" in running.log.read_text()
        running.every_python("")
        interpreter.symlink_to(sys.executable)
        running.reexec()
        running.hold.put()
        shown = running.ended(quest)
        assert (shown["quest"]["result"], shown["quest"]["attempts"]) == ("one\ntwo\n", 1)
        assert running.stop() == 0
        running.in_order()
    finally:
        running.close()


def test_a_stop_while_the_new_program_is_asked_is_a_stop(running: Running) -> None:
    """Of both."""
    fifo = running.folder / "asked"
    os.mkfifo(fifo)
    running.every_python(ASKED + f"open({str(fifo)!r}, 'w').write(str(os.getpid())); signal.pause()")
    client = running.type("reexec")
    asked = os.pidfd_open(int(fifo.read_text()))
    running.signal(signal.SIGTERM)
    assert running.wait() == 0
    assert select.select([asked], [], [], PATIENCE_S)[0]
    os.close(asked)
    client.close()
    assert "Traceback" not in running.log.read_text()


def test_two_at_once_are_one(running: Running) -> None:
    """The second is told so, and may ask again."""
    up, go = running.folder / "up", running.folder / "go"
    for fifo in (up, go):
        os.mkfifo(fifo)
    running.every_python(ASKED + f"open({str(up)!r}, 'w').write('up'); open({str(go)!r}).read()")
    client = running.type("reexec")
    assert up.read_text() == "up"
    done = running.qlctl("reexec", check=False)
    assert (done.returncode, "being replaced already" in done.stderr) == (75, True)
    running.every_python("")
    go.write_text("go")
    assert client.end()[0] == 0
    running.reexec()
