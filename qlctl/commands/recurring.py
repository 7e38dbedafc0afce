"""recurring: rules by which quests are added at the times of a clock."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.commands.add import from_file
from qlctl.options import Arguments, Command, Option
from qlctl.output import on_terminal, print_json, say, warn
from qlctl.pages import collect
from qlctl.place import place
from qlctl.render import rule
from qlctl.render.table import show as show_table
from qlctl.render.text import clean
from qlctl.subverbs import family
from qlctl.values import integer, now_ms, span_ms
from questlined.wire.errors import DaemonUnreachable, InvalidInput, QuestlineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

METHOD = "io.questline.Recurrences."
TEXTS = (
    ("--zone", "timezone"),
    ("--role", "role"),
    ("--context", "context"),
    ("--lane", "lane"),
    ("--catch-up", "catchUp"),
)
ADD_USAGE = 'qlctl recurring add NAME "MINUTE HOUR DAY MONTH WEEKDAY" TASK'


def add(given: Arguments) -> int:
    """Make a rule, and show its next times."""
    reply = connect(given).change(f"{METHOD}Add", {**place(given), **_wanted(given)})
    warn(reply["warnings"])
    if given.flag("--json"):
        print_json({**reply["recurrence"], "upcoming": reply["upcoming"]})
    else:
        print(rule.sentence(reply["recurrence"]))
        show_table(*rule.times(reply["recurrence"], reply["upcoming"], now_ms()))
    return 0


def _wanted(given: Arguments) -> dict[str, object]:
    """The parameters of Add that were typed. Raises InvalidInput naming the option."""
    name, cron, task = _words(given)
    wanted: dict[str, object] = {"name": name, "cron": cron, "task": task}
    wanted.update((key, given.text(option)) for option, key in TEXTS)
    for option, key, least in (("--priority", "priority", None), ("--max-attempts", "maxAttempts", 0)):
        if (text := given.text(option)) is not None:
            wanted[key] = integer(option, text) if least is None else integer(option, text, least)
    if (span := given.text("--timeout")) is not None:
        wanted["timeoutMs"] = span_ms("--timeout", span)
    if given.flag("--external"):
        wanted["external"] = True
    return {key: value for key, value in wanted.items() if value is not None}


def _words(given: Arguments) -> tuple[str, str, str]:
    """Name, rule and task: words in this order, but for those that an option gives."""
    name, *words = given.words
    cron, task, file = given.text("--cron"), given.text("--task"), given.text("--file")
    if task is not None and file is not None:
        raise InvalidInput("--file and --task both give the task", hint="use one of them", field="task")
    wanted = (cron is None) + (task is None and file is None)
    if len(words) != wanted:
        what = (
            "an argument is missing" if len(words) < wanted else f"too many arguments, from {words[wanted][:40]!r} on"
        )
        quoting = " (the rule wants quotes, as a task of several words does)" if len(words) > wanted else ""
        raise InvalidInput(f"recurring add: {what}{quoting}", hint=ADD_USAGE)
    if cron is None:
        cron = words.pop(0)
    if file is not None:
        return name, cron, from_file(file, "--file")
    if task is None:
        task = words[0] if words[0] != "-" else from_file("-", "TASK")
    return name, cron, task


def show_list(given: Arguments) -> int:
    """Print the rules of this project, or of all."""
    everywhere = given.flag("--all-projects")
    wanted: dict[str, object] = {"allProjects": True} if everywhere else place(given)
    rules, following = collect(connect(given), f"{METHOD}List", wanted, "recurrences", given, None)
    if given.flag("--json"):
        print_json(rules)
    elif rules:
        show_table(*rule.table(rules, now_ms(), projects=everywhere))
    elif on_terminal():
        say("no recurring quests")
    if following and not given.flag("--json"):
        say(f"there are more: --cursor {following}")
    return 0


def show(given: Arguments) -> int:
    """Print one rule and its next times."""
    reply = connect(given).call(f"{METHOD}Get", {**place(given), "id": given.words[0]})
    if given.flag("--json"):
        problem = {"problem": reply["problem"]} if reply.get("problem") else {}
        print_json({**reply["recurrence"], "upcoming": reply["upcoming"], **problem})
        return 0
    print(rule.detail(reply["recurrence"], now_ms()))
    if reply.get("problem"):
        say(f"it never comes due: {reply['problem']}")
    else:
        print()
        show_table(*rule.times(reply["recurrence"], reply["upcoming"], now_ms()))
    return 0


def each(method: str, told: Callable[[dict[str, Any]], str]) -> Callable[[Arguments], int]:
    """A command that calls the method for every rule; one that is refused does not keep the others from it."""

    def run(given: Arguments) -> int:
        client, where, status = connect(given), place(given), 0
        replies: list[dict[str, Any]] = []
        for name in given.words:
            try:
                replies.append(client.change(METHOD + method, {**where, "id": name}))
            except DaemonUnreachable:
                raise
            except QuestlineError as error:
                say(error.message, error.hint)
                status = status or error.exit_status
                continue
            if not given.flag("--json"):
                print(clean(told(replies[-1]), lines=True))
        if given.flag("--json"):
            shown = [reply if method == "Fire" else reply["recurrence"] for reply in replies]
            if len(given.words) > 1 or shown:
                print_json(shown if len(given.words) > 1 else shown[0])
        return status

    return run


def _switched(what: str) -> Callable[[dict[str, Any]], str]:
    return lambda reply: f"{reply['recurrence']['name']}: {what}"


def _removed(reply: dict[str, Any]) -> str:
    """A timer that is left behind would fail at each of its times."""
    from qlctl import alarms

    gone = reply["recurrence"]
    for path, option in alarms.left_of(gone["id"]):
        say(f"the timer of {gone['name']} is still there: {path}", f"qlctl timer remove {gone['id']}{option}")
    return f"{gone['name']}: removed; its quests stay"


def _fired(reply: dict[str, Any]) -> str:
    """The ids of what was added, or why there is none."""
    if reply["quests"]:
        return "\n".join(reply["quests"])
    if reply.get("held"):
        return f"nothing was added: {reply['held']}"
    return f"nothing is due: {reply['recurrence']['name']} comes {rule.next_time(reply['recurrence'], now_ms())}"


FORMS = {
    "add": Command(
        add,
        "NAME CRON TASK",
        1,
        None,
        (
            Option("--zone", "ZONE", "the time zone of the rule (default UTC)", also=("--timezone",)),
            Option("--catch-up", "HOW", "of times that were missed: one (default), all, or skip"),
            Option("--role", "ROLE", "the role of its quests"),
            Option("--context", "TEXT", "what the agent should know besides"),
            Option("--priority", "N", "higher runs first (default 0); may be negative"),
            Option("--lane", "LANE", "run one at a time with the others of this lane"),
            Option("--max-attempts", "N", "give up after N failures; 0 for no limit"),
            Option("--timeout", "SPAN", "stop an attempt that takes longer"),
            Option("--external", "", "leave them to a worker outside the daemon"),
            Option("--file", "FILE", "read the task from a file"),
            Option("--cron", "CRON", "the rule, instead of the argument"),
            Option("--task", "TEXT", "the task, instead of the argument"),
        ),
    ),
    "list": Command(
        show_list,
        options=(
            Option("--all-projects", "", "those of all projects"),
            Option("--limit", "N", "at most N (default: all)"),
            Option("--cursor", "ID", "go on after this one"),
        ),
    ),
    "show": Command(show, "NAME|ID", 1, 1),
    "pause": Command(each("Pause", _switched("paused; its quests go on")), "NAME|ID...", 1, None),
    "resume": Command(each("Resume", _switched("resumed")), "NAME|ID...", 1, None),
    "remove": Command(each("Remove", _removed), "NAME|ID...", 1, None),
    "fire": Command(each("Fire", _fired), "NAME|ID...", 1, None),
}

COMMANDS = {
    "recurring": family(
        "recurring",
        FORMS,
        "Recurring quests of this project. CRON has five fields, minute, hour, day of month, month and day of week,"
        " in one pair of quotes; add shows the next five times. fire adds what is due, once, whoever else does it.",
    )
}
