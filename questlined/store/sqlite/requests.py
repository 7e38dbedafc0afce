"""requestId: the store keeps what a call answered; a client that repeats it gets the same, and nothing doubles."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from questlined.store.effects import Effects
from questlined.store.protocol import Token
from questlined.store.sqlite.statements import Family, columns
from questlined.wire.errors import Conflict, QuestlineError, StoreFull, from_wire

T = TypeVar("T")
R = TypeVar("R")

_sql = Family("steering")
_find = _sql.one("request_find", columns)
_keep = _sql.count("request_keep")
_forget = _sql.count("requests_forget")


def _as_is(_db: sqlite3.Connection, kept: Any) -> Any:
    return kept


@dataclass(frozen=True, slots=True)
class Operation(Generic[R, T]):
    """A write: a function of (connection, request, effects), and how its answer is kept as JSON and made again.

    `empty` says of an answer that nothing was done: it is not kept, and the call may be repeated until something is.
    `together`, where it is given, does what `run` does for several requests in their order, at less cost; an error
    among its answers is that of its request alone, of which nothing was written."""

    name: str
    run: Callable[[sqlite3.Connection, R, Effects], T]
    keep: Callable[[T], Any] = lambda answer: answer
    again: Callable[[sqlite3.Connection, Any], T] = _as_is
    empty: Callable[[T], bool] = lambda answer: False
    together: Callable[[sqlite3.Connection, Sequence[R], Effects], Sequence[T | QuestlineError]] | None = None

    def perform(self, db: sqlite3.Connection, request: R, token: Token | None, effects: Effects, now: int) -> T:
        """Run it, or answer as the first call with this token did. Raises Conflict, and what the operation raises."""
        if token is None:
            return self.run(db, request, effects)
        kept = _find(db, uid=token.uid, id=token.request_id)
        if kept is not None:
            return self._repeat(db, token, *kept)
        answer = self.run(db, request, effects)
        if not self.empty(answer):
            keep(db, token, {"answer": self.keep(answer)}, now)
        return answer

    def perform_all(
        self, db: sqlite3.Connection, asked: Sequence[tuple[R, Token | None, int]], effects: Effects
    ) -> Sequence[T | QuestlineError]:
        """`perform` for neighbours (request, token, now) of one transaction. Raises where it must be undone."""
        tokens = {(token.uid, token.request_id) for _, token, _ in asked if token is not None}
        repeated = len(tokens) < sum(token is not None for _, token, _ in asked)
        if self.together is None or repeated or any(_find(db, uid=uid, id=name) for uid, name in tokens):
            return [self.perform(db, request, token, effects, now) for request, token, now in asked]
        answers = self.together(db, [request for request, _, _ in asked], effects)
        for (_, token, now), answer in zip(asked, answers, strict=True) if tokens else ():
            if token is None:
                continue
            if not isinstance(answer, QuestlineError):
                keep(db, token, {"answer": self.keep(answer)}, now)
            else:
                keep_error(db, token, answer, now)
        return answers

    def _repeat(self, db: sqlite3.Connection, token: Token, body: str, answer: str) -> T:
        if body != token.body:
            raise Conflict(
                f"requestId {token.request_id} was used for another call",
                hint="make a new requestId for each new call",
                id=token.request_id,
            )
        kept = json.loads(answer)
        if "error" in kept:
            raise from_wire(kept["error"], kept["parameters"])
        return self.again(db, kept["answer"])


def keep(db: sqlite3.Connection, token: Token, answer: dict[str, Any], now: int) -> None:
    """Write an answer down."""
    _keep(db, uid=token.uid, id=token.request_id, body=token.body, answer=json.dumps(answer), now=now)


def keep_error(db: sqlite3.Connection, token: Token, error: QuestlineError, now: int) -> None:
    """Write down that the call was refused, unless it was for its token, or for a while only."""
    if not isinstance(error, Conflict) and error.exit_status != StoreFull.exit_status:
        keep(db, token, {"error": error.name, "parameters": error.parameters()}, now)


def forget(db: sqlite3.Connection, before: int, _effects: Effects) -> int:
    """Drop a page of answers from before then."""
    return _forget(db, before=before)
