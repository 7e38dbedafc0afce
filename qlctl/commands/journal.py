"""events and runs: what has happened, to a quest or in a project."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import print_json, say
from qlctl.pages import collect
from qlctl.place import place
from qlctl.render.quest import event_cells, run_table
from qlctl.render.table import show
from qlctl.values import now_ms
from questlined.wire.errors import InvalidInput


def run_events(given: Arguments) -> int:
    """Print state changes, newest first; with --follow what happens from now on, or after a known one."""
    _check_follow(given)
    if given.flag("--follow"):
        from qlctl.commands.watch import watch

        return watch(given)
    if given.words:
        wanted: dict[str, object] = {"id": given.words[0]}
    else:
        wanted = {"allProjects": True} if given.flag("--all-projects") else place(given)
    events, following = collect(connect(given), "io.questline.Quests.Events", wanted, "events", given)
    if given.flag("--json"):
        print_json(events)
        return 0
    if events:
        show(["SEQ", "TIME", "QUEST", "EVENT", "DATA"], [event_cells(event) for event in events])
    if following:
        say(f"there are more: --cursor {following}")
    return 0


def _check_follow(given: Arguments) -> None:
    """Refuse what pages with what follows. Raises InvalidInput."""
    strays = ("--limit", "--cursor") if given.flag("--follow") else ("--after",)
    for stray in strays:
        if given.flag(stray):
            going = "does not go with" if given.flag("--follow") else "goes with"
            hint = "--after SEQ is where --follow begins; --cursor SEQ where a list goes on"
            raise InvalidInput(f"{stray} {going} --follow", hint=hint, field=stray)


def run_runs(given: Arguments) -> int:
    """Print the attempts of a quest, oldest first."""
    wanted: dict[str, object] = {"id": given.words[0]}
    runs, following = collect(connect(given), "io.questline.Quests.Runs", wanted, "runs", given, usual=None)
    if given.flag("--json"):
        print_json(runs)
        return 0
    if runs:
        show(*run_table(runs, now_ms()))
    if following:
        say(f"there are more: --cursor {following}")
    return 0


COMMANDS = {
    "events": Command(
        run_events,
        "[ID]",
        most=1,
        options=(
            Option("--all-projects", "", "events of all projects"),
            Option("--limit", "N", "at most N (default 30)"),
            Option("--cursor", "SEQ", "go on after this event"),
            Option("--follow", "", "show what happens from now on, oldest first, until Ctrl-C"),
            Option("--after", "SEQ", "with --follow: what happened after this event, too"),
        ),
        about="Show state changes of a quest, or without ID of this project, newest first. With --follow and --json,"
        " a line of JSON for each.",
    ),
    "runs": Command(
        run_runs,
        "ID",
        least=1,
        most=1,
        options=(
            Option("--limit", "N", "at most N (default: all)"),
            Option("--cursor", "ID/N", "go on after this attempt"),
        ),
        about="Show the attempts of a quest, oldest first.",
    ),
}
