"""cancel, retry and block: change the course of quests, one call each."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import print_json, say
from qlctl.render.quest import attempts, ending
from qlctl.render.text import clean
from qlctl.values import names
from questlined.wire.errors import DaemonUnreachable, InvalidInput, QuestlineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(given: Arguments) -> int:
    """Call the verb's method for every id; an id that is refused does not keep the others from being tried."""
    client = connect(given)
    method = f"io.questline.Quests.{given.verb.capitalize()}"
    more = _more(given)
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


def _more(given: Arguments) -> dict[str, object]:
    """The parameters besides the id."""
    more: dict[str, object] = {"reason": given.text("--reason"), "question": given.text("--ask")}
    if given.flag("--choices"):
        if not given.flag("--ask"):
            raise InvalidInput("--choices without --ask", hint="--ask QUESTION --choices A,B", field="--choices")
        more["choices"] = names("--choices", given.many("--choices"))
    return {key: value for key, value in more.items() if value is not None}


def _tell(given: Arguments, quests: list[dict[str, Any]]) -> None:
    if not given.flag("--json"):
        for quest in quests:
            print(_outcome(given.verb, quest))
    elif len(given.words) > 1:
        print_json(quests)
    elif quests:
        print_json(quests[0])


def _outcome(verb: str, quest: dict[str, Any]) -> str:
    """What became of the quest, in a few words on a cleaned line."""
    state, runs = quest["state"], quest["state"] == "running"
    if verb == "block":
        return clean(f"{quest['id']} runs, and is blocked when its process ends") if runs else ending(quest)
    if verb == "cancel":
        return clean(f"{quest['id']} {'is being stopped' if runs else state}")
    return clean(f"{quest['id']} {state} again, attempts so far: {attempts(quest)}")


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
    "block": Command(
        run,
        "ID...",
        least=1,
        most=None,
        options=(
            Option("--reason", "TEXT", "why, shown by show, wait and why", also=("--summary",)),
            Option("--ask", "QUESTION", "what a person has to answer"),
            Option("--choices", "A,B", "the answers to choose from", many=True),
        ),
        about="Keep quests out of the queue until `qlctl retry`: at once if they wait, else when their process has"
        " ended. What depends on them waits.",
    ),
}
