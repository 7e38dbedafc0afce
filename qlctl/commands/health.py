"""health: whether all is well."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import print_json
from qlctl.place import place
from qlctl.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(given: Arguments) -> int:
    """Print problems and counts; 1 if there is a problem."""
    wanted: dict[str, object] = {"allProjects": True} if given.flag("--all-projects") else place(given)
    reply = connect(given).call("io.questline.Manager.Health", wanted)
    if given.flag("--json"):
        print_json(reply)
    else:
        print("\n".join(lines(reply)))
    return 0 if reply["ok"] else 1


def lines(reply: dict[str, Any]) -> list[str]:
    """The verdict, every problem with its hint, the counts of all states."""
    verdict = "all is well" if reply["ok"] else f"problems: {len(reply['problems'])}"
    told = [clean(f"questlined {reply['version']}: {verdict}")]
    for problem in reply["problems"]:
        told += [clean(f"  {problem['what']}"), clean(f"    {problem['hint']}")]
    told += [clean(f"  {paused}") for paused in reply["paused"]]
    told.append("  ".join(clean(f"{state} {count}") for state, count in reply["counts"].items()))
    return told


COMMANDS = {
    "health": Command(
        run,
        options=(Option("--all-projects", "", "count the quests of all projects"),),
        about="Show whether the daemon, its store and the queue are well. The exit status is 1 if there is a problem.",
    )
}
