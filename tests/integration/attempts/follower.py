"""A client that follows a quest's records."""

from __future__ import annotations

from typing import Any

from tests.integration.server.peer import QUESTS, Peer, Reply, frame

FOLLOW = QUESTS + "Follow"


class Follower(Peer):
    """One Follow call with `more`. What was read is in `records` and `states`, `quest` is there when it is over."""

    def __init__(self, path: str, quest: str, **parameters: Any) -> None:
        super().__init__(path)
        self.records: list[Reply] = []
        self.states: list[str] = []
        self.quest: Reply | None = None
        self.send(frame(FOLLOW, {"id": quest, **parameters}, more=True))

    def turn(self) -> Reply:
        """The next reply."""
        reply = self.reply()
        assert "error" not in reply, reply
        answer: Reply = reply["parameters"]
        self.records += answer["records"]
        if answer["state"] not in self.states[-1:]:
            self.states.append(answer["state"])
        assert ("quest" in answer) is not reply.get("continues", False)
        self.quest = answer.get("quest")
        return answer

    def until(self, text: str, stream: str = "stdout") -> Follower:
        """Read until a stream's text, as it is so far, ends so."""
        while not self.text(stream).endswith(text):
            self.turn()
        return self

    def until_state(self, state: str) -> Follower:
        """Read until the quest is in a state."""
        while self.states[-1:] != [state]:
            self.turn()
        return self

    def to_the_end(self) -> Follower:
        """Read to the last reply, and hang up."""
        while self.quest is None:
            self.turn()
        self.close()
        return self

    def text(self, stream: str = "stdout") -> str:
        """A stream's text."""
        return text(self.records, stream)

    @property
    def kinds(self) -> list[str]:
        return [record["kind"] for record in self.records]

    @property
    def last(self) -> str:
        """The id of the last stored record."""
        found: str = [record["id"] for record in self.records if "id" in record][-1]
        return found


def text(records: list[Reply], stream: str = "stdout") -> str:
    """A stream's text in some records."""
    return "".join(record["data"]["text"] for record in records if record["data"].get("stream") == stream)


def paged(peer: Peer, quest: str, **parameters: Any) -> list[Reply]:
    """Every record by calls without `more`, until nothing follows or nothing is there yet."""
    found: list[Reply] = []
    while True:
        page = peer.call(FOLLOW, id=quest, **parameters)
        found += page["records"]
        if "quest" in page or not page["records"]:
            return found
        parameters["after"] = page["records"][-1]["id"]
