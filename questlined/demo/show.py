"""`questlined demo`: start a daemon, queue dependent quests in this directory, show them live, and leave nothing."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

from questlined.clock import SystemClock
from questlined.demo.calls import HungUp, call, watch
from questlined.demo.daemon import Daemon
from questlined.demo.plan import AGENTS, Plan, Step, request
from questlined.demo.screen import TICK_S, Screen
from questlined.demo.signals import Signals, Stopped
from questlined.wire.errors import InvalidInput, Unavailable

BOLD, DIM = "1", "2"


def demo(agent: str | None, *, as_json: bool = False) -> int:
    """Show the main job; 0 if every quest ended as it should, 1 if not. With `as_json` stdout gets the quests only.

    Raises QuestlineError where it cannot begin.
    """
    plan, here, path = _plan(agent), _here(), os.environ.get("PATH", os.defpath)
    screen = Screen(plan, _stream(sys.stderr if as_json else sys.stdout))
    try:
        with Signals() as signals:
            quests = _run(plan, signals, screen, request(plan, here, path))
            if as_json:
                print(json.dumps({"quests": quests}), flush=True)
            return int(not all(_as_expected(step, quest) for step, quest in zip(plan.steps, quests, strict=True)))
    except Stopped as stopped:
        screen.restore()
        screen.say("\nStopped; the demo's daemon and its children have ended, and its files are gone.")
        return 128 + stopped.number
    except OSError as error:
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at exit
        if isinstance(error, BrokenPipeError):
            return 141
        raise Unavailable(f"the demo cannot go on: {error}", hint="it needs a writable temporary directory") from error


def _stream(wanted: TextIO | None) -> TextIO:
    """The stream, or one to nowhere if it was closed; what its encoding lacks comes as an escape."""
    stream = wanted or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _plan(agent: str | None) -> Plan:
    if agent not in AGENTS:
        raise InvalidInput(f"--agent: {agent!r} is unknown", hint="the demo knows claude", field="--agent")
    plan = AGENTS[agent]
    if shutil.which(plan.command[0]) is None:
        raise InvalidInput(
            f"--agent: the program {plan.command[0]} is not on the PATH",
            hint="install and log in to it first, or run the demo without --agent: it takes a shell then",
            field="--agent",
        )
    return plan


def _here() -> str:
    try:
        here = os.getcwd()
        here.encode()
    except FileNotFoundError:
        raise InvalidInput("the working directory is gone", hint="cd to one that is there", field="directory") from None
    except UnicodeEncodeError:
        raise InvalidInput(
            "the working directory's name is not UTF-8", hint="cd elsewhere", field="directory"
        ) from None
    return here


def _run(plan: Plan, signals: Signals, screen: Screen, wanted: dict[str, object]) -> list[dict[str, Any]]:
    """The quests as they ended, in the plan's order; all that happens while the daemon lives."""
    clock = SystemClock()
    begun = clock.monotonic_ms()
    with Daemon(plan, signals) as daemon:
        screen.say(f"A questlined of its own is up; {len(plan.steps)} quests, done by {plan.what}, two at a time, in")
        screen.say(f"{wanted['project']}\n")
        try:
            added = call(daemon.socket, signals, "Quests.AddMany", wanted)["added"]
            ids = [each["id"] for each in added]
            for quest in watch(daemon.socket, signals, ids, TICK_S if screen.live else None):
                if quest is None:
                    screen.draw(clock.wall_ms())
                else:
                    screen.change(quest, clock.wall_ms())
            quests = [call(daemon.socket, signals, "Quests.Get", {"id": name})["quest"] for name in ids]
        except HungUp:
            raise daemon.gone("went away") from None
        _close(plan, screen, quests, clock.monotonic_ms() - begun, clock.wall_ms())
    return quests


def _close(plan: Plan, screen: Screen, quests: list[dict[str, Any]], took_ms: int, now: int) -> None:
    """The final table, one result in full, and where to go from here."""
    if not screen.live:
        screen.say("")
        screen.draw(now)
    well = sum(_as_expected(step, quest) for step, quest in zip(plan.steps, quests, strict=True))
    screen.say(f"\n{well} of {len(quests)} ended as they should, in {took_ms / 1000:.1f} s.", BOLD)
    shown = next(quest for quest in quests if quest["name"] == plan.shown)
    what = "result" if shown.get("result") else "error"
    screen.say(f"\nThe {what} of {plan.shown}, in full:\n", BOLD)
    screen.say("\n".join(f"    {line}".rstrip() for line in (shown.get(what) or "(none)").splitlines()))
    screen.say("\nNext:\n", BOLD)
    for why, command in _following():
        screen.say(f"    # {why}", DIM)
        screen.say(f"    {command}")
    screen.say("")


def _following() -> list[tuple[str, str]]:
    """The next commands to type, each behind what it is for."""
    daemon, client = _typed("questlined"), _typed("qlctl")
    return [
        ("a daemon of your own, in this terminal; its agent is claude -p", daemon),
        ("in a second terminal: queue a task, wait for its result", f'{client} add --wait "say hello"'),
        ("the rest: list, show, why, cancel, retry, pause, ...", f"{client} --help"),
    ]


def _as_expected(step: Step, quest: dict[str, Any]) -> bool:
    return quest["state"] == "done" and step.tries in (None, quest["attempts"] - quest["refunds"])


def _typed(program: str) -> str:
    """How to call a program from here: by its name if the PATH has ours, else by a path."""
    ours = Path(sys.executable).parent / program
    found = shutil.which(program)
    if not ours.exists() or (found and Path(found).resolve() == ours.resolve()):
        return program
    return str(ours.relative_to(Path.cwd())) if ours.is_relative_to(Path.cwd()) else str(ours)
