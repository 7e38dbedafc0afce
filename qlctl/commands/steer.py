"""cancel and retry: change the course of quests, one call each."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import print_json, say
from qlctl.render.quest import attempts
from qlctl.render.text import clean
from questlined.wire.errors import DaemonUnreachable, QuestlineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(given: Arguments) -> int:
    """Call the verb's method for every id; an id that is refused does not keep the others from being tried."""
    client = connect(given)
    method = f"io.questline.Quests.{given.verb.capitalize()}"
    reason = given.text("--reason")
    more: dict[str, object] = {} if reason is None else {"reason": reason}
    quests: list[dict[str, Any]] = []
    status = 0
    for name in given.words:
        try:
            quests.append(client.change(method, {"id": name, **more})["quest"])
        except DaemonUnreachable:
            raise
        except QuestlineError as error:
            say(error.message, error.hint)
            status = status or error.exit_status
    _tell(given, quests)
    return status


def _tell(given: Arguments, quests: list[dict[str, Any]]) -> None:
    if not given.flag("--json"):
        for quest in quests:
            print(clean(f"{quest['id']} {_outcome(given.verb, quest)}"))
    elif len(given.words) > 1:
        print_json(quests)
    elif quests:
        print_json(quests[0])


def _outcome(verb: str, quest: dict[str, Any]) -> str:
    """What became of the quest, in a few words."""
    if verb == "cancel":
        return "is being stopped" if quest["state"] == "running" else str(quest["state"])
    return f"{quest['state']} again, attempts so far: {attempts(quest)}"


COMMANDS = {
    "cancel": Command(
        run,
        "ID...",
        least=1,
        most=None,
        options=(Option("--reason", "TEXT", "why, for the journal", also=("--summary",)),),
        about="Stop quests: at once if they wait, else as soon as the last of their processes is dead."
        " What depends on them fails.",
    ),
    "retry": Command(
        run,
        "ID...",
        least=1,
        most=None,
        about="Queue failed, cancelled, interrupted or blocked quests again, with one more attempt."
        " What failed only through them comes back, too.",
    ),
}
