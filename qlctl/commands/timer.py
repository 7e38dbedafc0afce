"""timer: alarm clocks of systemd for recurring quests."""

from __future__ import annotations

import os

from qlctl import alarms
from qlctl.alarms import Alarm
from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.output import on_terminal, print_json, say
from qlctl.pages import collect
from qlctl.place import place
from qlctl.render.moments import relative
from qlctl.render.rule import next_time
from qlctl.render.table import show
from qlctl.render.text import clean
from qlctl.subverbs import family
from qlctl.systemctl import Manager, SystemdRefused
from qlctl.values import now_ms, span_ms
from questlined.wire.errors import InvalidInput, QuestlineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

METHOD = "io.questline.Recurrences."


def install(given: Arguments) -> int:
    """Write the rule's timer and start it; a second time it is written anew."""
    manager = _manager(given)
    asked: dict[str, object] = {**place(given), "id": given.words[0]}
    if (span := given.text("--randomized-delay")) is not None:
        asked["randomizedDelayMs"] = span_ms("--randomized-delay", span)
    client = connect(given)
    reply = client.call(f"{METHOD}Timer", asked)
    if not manager.knows(alarms.SERVICE):
        raise SystemdRefused(
            f"the unit {alarms.SERVICE} is not installed: the timer would start nothing",
            hint=f"questlined install {manager.option}",
        )
    alarm, rule = _set_up(manager, reply["unit"], reply["text"]), reply["recurrence"]
    if manager.socket and os.path.realpath(client.path) != os.path.realpath(manager.socket):
        say(
            f"warning: {rule['name']} is a rule of the daemon on {client.path}, and the timer's service asks the one on"
            f" {manager.socket}",
            f"unless you have changed that: {manager.command} edit {alarms.SERVICE}",
        )
    if given.flag("--json"):
        print_json({"unit": alarm.unit, "path": alarm.path, "text": reply["text"], "recurrence": rule})
    else:
        print(clean(f"{alarm.unit} wakes for {rule['name']}, next {next_time(rule, now_ms())} ({alarm.path})"))
    return 0


def _set_up(manager: Manager, unit: str, text: str) -> Alarm:
    """Write and start it. Where systemd does not take it, nothing new is left behind."""
    new = not os.path.lexists(os.path.join(manager.folder, unit))
    alarm = alarms.write(manager, unit, text)
    try:
        manager.call("daemon-reload")
        manager.call("enable", "--now", unit)
    except SystemdRefused:
        if new:
            manager.tries("disable", unit)
            os.unlink(alarm.path)
            manager.tries("daemon-reload")
        raise
    return alarm


def show_list(given: Arguments) -> int:
    """Print the timers, with what systemd and the daemon know of them."""
    manager = _manager(given)
    found = alarms.installed(manager)
    times = manager.timers(f"{alarms.PREFIX}*") if found else {}
    rules = _rules(given) if found else None
    shown = [_described(alarm, times.get(alarm.unit, {}), rules) for alarm in found]
    if given.flag("--json"):
        print_json(shown)
    elif shown:
        heads = ["NAME", "NEXT", "WAKES", "WOKE", "ID", "PROJECT", "NOTE"]
        show(heads, [_cells(each, now_ms(), manager.command) for each in shown])
    elif on_terminal():
        say("no timers")
    return 0


def _rules(given: Arguments) -> dict[str, dict[str, Any]] | None:
    """Every rule by id, None where the daemon does not tell."""
    try:
        rules, _ = collect(connect(given), f"{METHOD}List", {"allProjects": True}, "recurrences", given, None)
    except QuestlineError as error:
        say(f"{error.message}, so that only systemd's side is shown", error.hint)
        return None
    return {rule["id"]: rule for rule in rules}


def _described(alarm: Alarm, times: dict[str, Any], rules: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    rule = rules.get(alarm.id) if rules is not None else None
    return {
        "id": alarm.id,
        "name": alarm.name,
        "project": alarm.project,
        "unit": alarm.unit,
        "path": alarm.path,
        "active": bool(times.get("next")),  # one that was stopped is listed, too
        "wakesAt": _ms(times.get("next")),
        "wokeAt": _ms(times.get("last")),
        "gone": rules is not None and rule is None,
        "recurrence": rule,
    }


def _ms(microseconds: object) -> int | None:
    return microseconds // 1000 if isinstance(microseconds, int) and microseconds else None


def _cells(timer: dict[str, Any], now: int, systemctl: str) -> list[str]:
    rule, moments = timer["recurrence"], [timer["wakesAt"], timer["wokeAt"]]
    wakes, woke = ("-" if moment is None else relative(moment, now) for moment in moments)
    note = ""
    if timer["gone"]:
        note = f"its recurring quest is gone: qlctl timer remove {timer['id']}"
    elif not timer["active"]:
        note = f"not started: {systemctl} start {timer['unit']}"
    following = next_time(rule, now) if rule else "-"
    cells = [timer["name"], following, wakes, woke, timer["id"], timer["project"].removeprefix("name:"), note]
    return [clean(cell) for cell in cells]


def remove(given: Arguments) -> int:
    """Stop timers and take their files away; one that is refused does not keep the others from it. The rules stay."""
    manager, removed, status = _manager(given), [], 0
    for word in given.words:
        try:
            removed.append(_taken_down(manager, word))
        except QuestlineError as error:
            say(error.message, error.hint)
            status = status or error.exit_status
            continue
        if not given.flag("--json"):
            print(clean(f"{removed[-1].unit} removed; the recurring quest {removed[-1].name} stays"))
    shown = [{"unit": alarm.unit, "id": alarm.id, "name": alarm.name} for alarm in removed]
    if given.flag("--json") and (len(given.words) > 1 or shown):
        print_json(shown if len(given.words) > 1 else shown[0])
    return status


def _taken_down(manager: Manager, word: str) -> Alarm:
    alarm = alarms.chosen(manager, word)
    manager.call("disable", "--now", alarm.unit)
    manager.tries("clean", "--what=state", alarm.unit)  # when it last woke, or a new one would make up for it
    os.unlink(alarm.path)
    manager.call("daemon-reload")
    return alarm


def _manager(given: Arguments) -> Manager:
    if given.flag("--user") and given.flag("--system"):
        raise InvalidInput("--user and --system do not go together", hint="use one of them", field="--system")
    return Manager(system=given.flag("--system"))


WHOSE = (
    Option("--user", "", "timers of your own manager (default)"),
    Option("--system", "", "timers of the system's manager, for a system service"),
)
FORMS = {
    "install": Command(
        install,
        "NAME|ID",
        1,
        1,
        (*WHOSE, Option("--randomized-delay", "SPAN", "wake later, by up to SPAN at random")),
    ),
    "list": Command(show_list, options=WHOSE),
    "remove": Command(remove, "NAME|ID...", 1, None, WHOSE),
}

COMMANDS = {
    "timer": family(
        "timer",
        FORMS,
        "Timer units of systemd for recurring quests. A timer is an alarm clock: it wakes questlined, or the machine's"
        " systemd starts it, at each time of the rule, and at some besides; what is due then is added once.",
    )
}
