"""The records of a quest on their way to the screen: each is shown once, however often the connection is lost."""

from __future__ import annotations

from qlctl.flow import Flow
from qlctl.render.quest import ending
from qlctl.render.record import ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from qlctl.client import Call, Client

FOLLOW = "io.questline.Quests.Follow"
CLAIMABLE = ("queued", "interrupted")


class Records:
    """What has been shown of a quest, or of one `attempt` of it, after the record `after`: text, or JSON Lines."""

    def __init__(self, name: str, *, attempt: int | None = None, after: str | None = None, as_json: bool) -> None:
        self.name, self.attempt, self.as_json = name, attempt, as_json
        self.flow = Flow()
        self.state = ""  # of the quest, as the last reply had it
        self.last = after
        self.tell_waiting = False  # say at the first reply that the quest has not begun
        self.end: dict[str, Any] | None = None  # how the attempt before ended, until that was told
        self.ended = 0  # the highest attempt whose end was shown
        self._stand_ins: set[tuple[object, ...]] = set()  # entries without an id that came after `last`

    def call(self) -> Call:
        """The call for what has not been shown yet."""
        wanted: dict[str, object] = {"id": self.name, "attempt": self.attempt, "after": self.last}
        return FOLLOW, {key: value for key, value in wanted.items() if value is not None}

    def take(self, reply: dict[str, Any]) -> None:
        """Show what is new in a reply of Follow or Run."""
        self.state = reply["state"]
        if self.tell_waiting and not reply["records"] and self.state in CLAIMABLE:
            self.say(f"{self.name} is {self.state}", f"qlctl why {self.name} tells what it waits for")
        self.tell_waiting = False
        for record in reply["records"]:
            if not self._repeated(record):
                self._take(record)
        if self.end is not None and self.state in CLAIMABLE:
            self._tell_end(f"attempt {self.ended + 1} follows")

    def status(self, quest: dict[str, Any]) -> int:
        """The exit status once all was shown: 0 if the quest, or the one attempt, is done, else 1 and why is said."""
        done = quest["state"] == "done" and self.attempt in (None, quest["attempts"])
        if not done and (self.attempt is None or self.end is None):
            self.say(ending(quest) if self.attempt is None else f"{quest['id']}: attempt {self.attempt} has ended")
        elif not done and self.end is not None:
            self.say(f"{quest['id']}: {ended(self.end)}")
        return int(not done)

    def say(self, message: str, hint: str = "") -> None:
        """Say something on stderr, on a line of its own."""
        self.flow.say(message, hint)

    def _repeated(self, record: dict[str, Any]) -> bool:
        """Whether it was shown before a loss. Entries without an id come again after the record before them."""
        if record["attempt"] <= self.ended:
            return True
        if record.get("id") is not None:
            self._stand_ins.clear()
            return False
        mark = (record["attempt"], record["kind"], record["data"].get("reason"))
        if mark in self._stand_ins:
            return True
        self._stand_ins.add(mark)
        return False

    def _take(self, record: dict[str, Any]) -> None:
        if self.as_json:
            self.flow.put_json(record)
        else:
            self._show(record)
        self.last = record.get("id") or self.last
        if record["kind"] == "end":
            self.end, self.ended = record, record["attempt"]

    def _show(self, record: dict[str, Any]) -> None:
        """An entry for people; kinds of later versions are left out."""
        kind, data = record["kind"], record["data"]
        if kind == "output":
            self.flow.put(data["stream"], data["text"])
        elif kind == "text":
            self.flow.put("stdout", data["text"])
        elif kind == "gap":
            self.say(f"attempt {record['attempt']}: {missing(data)}")
        elif kind == "state" and data.get("state") == "cancelling":
            self.say(f"attempt {record['attempt']} is being stopped")
        elif kind == "state" and self.end is not None:
            self._tell_end(f"attempt {record['attempt']} begins")

    def _tell_end(self, then: str) -> None:
        """Between two attempts, one line, and only while all of them are followed."""
        if self.end is not None and self.attempt is None:
            if not self.as_json:
                self.say(f"{ended(self.end)}; {then}")
            self.end = None


def missing(data: dict[str, Any]) -> str:
    """What a gap says: something is not there, and why."""
    reason = data.get("reason")
    return f"something is missing here: {reason}" if reason else "something is missing here"


def to_end(client: Client, records: Records, until: float | None = None) -> dict[str, Any]:
    """Show all records until nothing will follow: the quest, which is final, or blocked; or the attempt's end.

    Raises TimeoutError at `until`, a moment of the monotonic clock.
    """
    blocked = None
    while True:
        quest = _stream(client, records, until, blocked)
        if quest is not None:
            return quest
        blocked = client.call("io.questline.Quests.Wait", {"id": records.name, "timeoutMs": 0})["quest"]
        if blocked["state"] != "blocked":
            blocked = None  # it has gone on since
        elif records.ended >= blocked["attempts"]:
            return dict(blocked)


def _stream(
    client: Client, records: Records, until: float | None, blocked: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Follow to the last reply, which has the quest; for one that is blocked the stream would stay open.

    So where a reply tells that it is blocked, None asks for the quest; with it as `blocked`, what there is of its
    attempts is shown, and that is the end.
    """
    for reply in client.stream(records.call, until, grace_s=0.0):
        records.take(reply)
        if reply.get("quest") is not None:
            return dict(reply["quest"])
        if records.attempt is not None:
            continue
        if reply["state"] != "blocked":
            blocked = None
        elif blocked is None:
            break
        elif records.ended >= blocked["attempts"] or not reply["records"]:
            return blocked
    return None
