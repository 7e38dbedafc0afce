"""What an agent says of its own attempt from inside it, and how that weighs against how its process ended."""

from __future__ import annotations

import json
from dataclasses import dataclass

# Ends that speak for a person, the daemon or the machine; what the agent said before does not change them.
_STANDS = frozenset({"cancelled", "output_limit", "oom", "bad_config", "released"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """`klass` is ok, failed or blocked. `choices` is a JSON array."""

    klass: str
    result: str | None = None
    summary: str | None = None
    commit: str | None = None
    reason: str | None = None
    question: str | None = None
    choices: str | None = None

    def dump(self) -> str:
        """JSON, for the store."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None})

    @classmethod
    def parse(cls, text: str) -> Verdict:
        """What `dump` wrote."""
        return cls(**json.loads(text))


def judged(klass: str, verdict: Verdict | None) -> Verdict:
    """The verdict that counts for an attempt whose process ended as `klass`."""
    return Verdict(klass) if verdict is None or klass in _STANDS else verdict
