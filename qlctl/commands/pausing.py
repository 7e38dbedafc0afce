"""pause and resume: whether quests are started, of one project or of the whole daemon."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import print_json
from qlctl.place import place
from qlctl.render.text import clean
from questlined.wire.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(given: Arguments) -> int:
    """Pause or resume what was named."""
    everything = given.flag("--all")
    if everything and given.flag("--project"):
        raise InvalidInput("--all and --project do not go together", hint="use one of them", field="--all")
    where: dict[str, object] = {"all": True} if everything else place(given)
    reason = given.text("--reason")
    if reason is not None:
        where["reason"] = reason
    reply = connect(given).change(f"io.questline.Projects.{given.verb.capitalize()}", where)
    project: dict[str, Any] | None = reply.get("project")
    if given.flag("--json"):
        print_json(project if project is not None else {"all": True, "paused": given.verb == "pause"})
    else:
        name = (project.get("name") or project["key"]) if project else "the whole daemon"
        print(clean(f"{name}: {'paused; running quests go on' if given.verb == 'pause' else 'resumed'}"))
    return 0


ALL = Option("--all", "", "the whole daemon, all projects")

COMMANDS = {
    "pause": Command(
        run,
        options=(ALL, Option("--reason", "TEXT", "why, shown by health and why", also=("--summary",))),
        about="Start no more quests of this project until `qlctl resume`, through restarts, too. Running ones go on.",
    ),
    "resume": Command(
        run,
        options=(ALL,),
        about="Start quests of this project again. A pause of the whole daemon is lifted by --all only.",
    ),
}
