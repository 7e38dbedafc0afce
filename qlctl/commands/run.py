"""run: one attempt in the foreground. It ends with the terminal it was started from, unless the daemon goes first."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

from qlctl.client import Client, connect
from qlctl.options import Arguments, Command
from qlctl.place import place
from qlctl.records import Records, to_end
from qlctl.render.quest import ending
from qlctl.render.record import ended
from qlctl.render.text import clean
from questlined.wire.errors import DaemonUnreachable, QuestlineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from qlctl.client import Call

METHOD = "io.questline.Quests.Run"
CANCELLED = "by the terminal that ran it"  # the reason of a second Ctrl-C


def run(given: Arguments) -> int:
    """Run the quest, or the project's next one, and show its output."""
    wanted: dict[str, object] = {"id": given.words[0]} if given.words else place(given)
    return Foreground(connect(given), wanted, as_json=given.flag("--json")).run()


class Foreground:
    """An attempt that lives as long as its connection: the daemon interrupts it when that is closed.

    Signals are counted: the first one hangs up and the attempt's end is awaited on another connection, the second
    one cancels the quest, the third one leaves. Their handler raises nothing before that, as what is shown
    and what was noted as shown must not part.
    """

    def __init__(self, client: Client, wanted: dict[str, object], *, as_json: bool) -> None:
        self._client = client
        # Repeated while it has not been answered: the same requestId is the same attempt.
        self._wanted = {**wanted, "requestId": os.urandom(16).hex()}
        self._records = Records("", as_json=as_json)
        self._signals = 0
        self._status = 0  # of an end by signals
        self._in_background = False
        self._away = False  # the connection is lost, and with it the hold on the attempt
        self._lost_once = False

    def run(self) -> int:
        """Run to the end of the attempt; where the daemon went first, to that of the quest. The exit status."""
        self._client.on_loss, self._client.on_absence = self._lost, self._absent
        before = {number: _signal.getsignal(number) for number in (_signal.SIGINT, _signal.SIGTERM)}
        self._client.woken_by, signalled = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _signal.set_wakeup_fd(signalled)
        try:
            for number, handler in before.items():
                if handler != _signal.SIG_IGN:
                    _signal.signal(number, self._signalled)
            return self._told(self._shown())
        finally:
            self._client.close()
            _signal.set_wakeup_fd(-1)
            for descriptor in (self._client.woken_by, signalled):
                os.close(descriptor)
            for number, handler in before.items():
                _signal.signal(number, handler)

    def _shown(self) -> dict[str, Any]:
        """Show the attempt, and where it was interrupted by somebody else those after it; the quest at the end."""
        while True:
            quest = self._followed()
            if not self._interrupted(quest) or self._signals or self._in_background:
                return quest
            self._let_go(f"{self._records.name} was interrupted; when its turn comes, it")

    def _interrupted(self, quest: dict[str, Any]) -> bool:
        """Whether the daemon has ended the attempt for its own reasons; the quest may have come further since."""
        end = self._records.end
        if end is not None and self._lost_once:
            return bool(end["data"].get("outcome") == "interrupted")
        return bool(quest["state"] == "interrupted")

    def _followed(self) -> dict[str, Any]:
        """Show the attempt, or in the background the quest, to its end."""
        try:
            for reply in self._client.stream(self._call):
                if reply.get("run") is not None:
                    self._have(reply["run"])
                self._records.take(reply)
                if reply.get("quest") is not None:
                    return dict(reply["quest"])
                if self._in_background and reply["state"] == "blocked":
                    break
        except DaemonUnreachable:
            raise
        except QuestlineError as error:
            if not self._away:
                raise
            self._away = False
            self._let_go(f"{clean(error.message)}: {self._records.name}")
            return self._followed()
        return to_end(self._client, self._records)

    def _call(self) -> Call:
        """What to call now: Run, which also finds the attempt again after a loss; in the background, and after the
        signal that hung up, what gives the records that were not shown."""
        if self._in_background or (self._signals and not self._away):
            return self._records.call()
        after = {} if self._records.last is None else {"after": self._records.last}
        return METHOD, {**self._wanted, **after}

    def _have(self, run: dict[str, Any]) -> None:
        """The attempt runs as long as this connection. A signal that came while there was none counts now."""
        self._away = False
        if not self._records.name:
            self._begun(run)
        elif self._signals:
            self._client.hang_up()

    def _begun(self, run: dict[str, Any]) -> None:
        self._records.name, self._records.attempt = run["quest"], run["attempt"]
        self._records.say(f"{run['quest']} runs (attempt {run['attempt']}, run #{run['number']})")

    def _lost(self) -> None:
        """The connection is gone: by a signal, or with the daemon. One that has replaced its program has the attempt
        still, and it is found again; after a restart it was interrupted, and will run again by itself."""
        if self._signals or self._in_background:
            return
        self._away = self._lost_once = bool(self._records.name)

    def _absent(self) -> None:
        """The loss lasts."""
        if not self._signals and not self._in_background:
            self._records.say("the connection to the daemon is lost; going on when it is back")

    def _let_go(self, why: str) -> None:
        """It is the daemon's from now on."""
        self._in_background, self._records.attempt = True, None
        self._records.say(f"{why} runs in the background", "its output follows here; Ctrl-C leaves it alone")

    def _told(self, quest: dict[str, Any]) -> int:
        """Say how it ended, where it is not done; the exit status."""
        if self._signals:
            self._records.say(_left(self._records, quest))
            return self._status
        if self._in_background or quest["state"] in ("done", "failed", "cancelled", "blocked"):
            self._records.attempt = None  # the end of the attempt is that of the quest
            return self._records.status(quest)
        self._records.say(_left(self._records, quest))
        return 1

    def _signalled(self, number: int, _frame: object) -> None:
        self._signals += 1
        self._status = self._status or 128 + number
        if self._in_background or self._signals > 2 or not self._records.name:
            raise SystemExit(self._status)  # what may have begun unseen is interrupted with the connection
        if self._signals == 1:
            _note("interrupting; Ctrl-C again cancels it")
            self._client.hang_up()
        else:
            _note("cancelling; Ctrl-C again leaves at once")
            self._cancel()

    def _cancel(self) -> None:
        """Cancel on a connection of its own: the other may be in the middle of a reply that stdout does not take."""
        try:
            wanted: dict[str, object] = {"id": self._records.name, "reason": CANCELLED}
            Client(self._client.path).change("io.questline.Quests.Cancel", wanted)
        except QuestlineError as error:
            _note(clean(error.message))


def _left(records: Records, quest: dict[str, Any]) -> str:
    """How the attempt ended, and what becomes of its quest."""
    if quest["state"] not in ("queued", "interrupted", "running"):
        return ending(quest)
    how = ended(records.end) if records.end is not None else f"attempt {records.attempt} has ended"
    if quest["state"] == "running":
        return f"{how}; {quest['id']} runs again, in the background"
    return f"{how}; {quest['id']} is {quest['state']} and will run again"


def _note(message: str) -> None:
    """A message out of a signal handler: past the buffer, which may be in use, and below the terminal's `^C`."""
    if sys.stderr is None:
        return
    try:
        os.write(sys.stderr.fileno(), b"\n" * sys.stderr.isatty() + f"qlctl: {message}\n".encode())
    except (OSError, ValueError):
        pass  # nobody can read it


COMMANDS = {
    "run": Command(
        run,
        "[ID]",
        most=1,
        about="Run a quest now, in the foreground, and show its output: that of ID, or the next one of this project,"
        " past priority, pause and the limits on how many run, not past dependencies and lanes. Ctrl-C interrupts"
        " it, so that it runs again later; a second one cancels it, a third one leaves at once. The exit status is 0"
        " if it is done, 3 if no quest can be run. With --json, a line of JSON for each record.",
    )
}
