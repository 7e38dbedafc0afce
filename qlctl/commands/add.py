"""add: one quest from the command line. What comes from a file of many is in bulk."""

from __future__ import annotations

import os

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option, readable
from qlctl.place import place
from qlctl.values import integer, moment_ms, names, now_ms, span_ms
from questlined.wire.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from qlctl.client import Client

MOST_TEXT_BYTES = 64 * 1024 * 1024

TEXTS = (("--name", "name"), ("--context", "context"), ("--lane", "lane"))


def run(given: Arguments) -> int:
    """Add what was typed, say what became of it, and wait for it if asked to."""
    if given.flag("--from-file"):
        from qlctl.commands.bulk import run_bulk

        return run_bulk(given)
    if given.flag("--follow"):
        _check_follow(given)
    client = connect(given)
    reply = client.change("io.questline.Quests.Add", {**setting(given), **quest(given)})
    told = _announce(given, client, reply)
    if given.flag("--follow"):
        from qlctl.commands.follow import follow_added

        return follow_added(client, given, told["id"])
    if not given.flag("--wait"):
        return 0
    from qlctl.commands.wait import finish

    return finish(client, given, told)


def _check_follow(given: Arguments) -> None:
    """Refuse what also decides on stdout."""
    for other, hint in (
        ("--wait", "--follow waits, too, and shows the output as it comes"),
        ("--print-id", "--follow says the id on stderr; or add it with --print-id, and then qlctl follow ID"),
    ):
        if given.flag(other):
            raise InvalidInput(f"{other} and --follow do not go together", hint=hint, field="--follow")


def setting(given: Arguments) -> dict[str, object]:
    """Where the quest belongs, and the PATH its program is looked up in."""
    path = os.environ.get("PATH")
    return place(given) if path is None else {**place(given), "path": readable("the variable PATH", path)}


def quest(given: Arguments) -> dict[str, object]:
    """The parameters of NewQuest that were typed. Raises InvalidInput naming the option."""
    role, task = _role_and_task(given)
    wanted: dict[str, object] = {"task": task, "role": role}
    wanted.update((key, given.text(option)) for option, key in TEXTS)
    wanted["name"] = given.text("--name") or given.text("--title")
    for option, key, least in (("--priority", "priority", None), ("--max-attempts", "maxAttempts", 0)):
        text = given.text(option)
        if text is not None:
            wanted[key] = integer(option, text) if least is None else integer(option, text, least)
    if (moment := given.text("--not-before")) is not None:
        wanted["notBefore"] = moment_ms("--not-before", moment, now_ms())
    if (span := given.text("--timeout")) is not None:
        wanted["timeoutMs"] = span_ms("--timeout", span)
    if given.flag("--depends"):
        wanted["dependsOn"] = names("--depends", given.many("--depends"))
    if given.flag("--external"):
        wanted["external"] = True
    return {key: value for key, value in wanted.items() if value is not None}


def _role_and_task(given: Arguments) -> tuple[str | None, str]:
    """The role, if there is one, and the task from exactly one of argument, --body, --file, or --title alone."""
    words, file, body = given.words, given.text("--file"), given.text("--body")
    if file is not None and body is not None:
        raise InvalidInput("--file and --body both give the task", hint="use one of them", field="task")
    if file is not None or body is not None:
        if len(words) > 1:
            option = "--file" if file is not None else "--body"
            raise InvalidInput(f"{option} gives the task, and there is a TASK, too", hint="use one of them")
        task = body if file is None else from_file(file, "--file")
        return (words[0] if words else None), task or ""
    if not words:
        return None, _title_alone(given)
    return (words[0] if len(words) > 1 else None), (words[-1] if words[-1] != "-" else from_file("-", "TASK"))


def _title_alone(given: Arguments) -> str:
    title = given.text("--title")
    if title is None:
        hint = "qlctl add [ROLE] TASK; TASK `-` is standard input; --file FILE; --from-file FILE"
        raise InvalidInput("add: there is no task", hint=hint, field="task")
    return title


def from_file(path: str, where: str) -> str:
    """The text of a file, `-` for stdin, unchanged. Raises InvalidInput if it is no UTF-8 text or endless."""
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            data = file.read(MOST_TEXT_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{where}: cannot read {path!r}: {error.strerror}", hint="", field=where) from None
    if len(data) > MOST_TEXT_BYTES:
        raise InvalidInput(f"{where}: more than {MOST_TEXT_BYTES} bytes", hint="see bounds.max_task_bytes", field=where)
    try:
        return readable(where, data.decode())
    except UnicodeDecodeError as error:
        place = f"byte {error.start} of {'standard input' if path == '-' else repr(path)}"
        raise InvalidInput(f"{where}: {place} is not UTF-8", hint="convert the text to UTF-8", field=where) from None


def _announce(given: Arguments, client: Client, reply: dict[str, Any]) -> dict[str, Any]:
    """Say what was added and to which queue; gives the quest with `deduped`.

    With --wait and --follow stdout is for what comes of the quest, so that this goes to stderr.
    """
    from qlctl.output import print_json, say, warn

    added: dict[str, Any] = {**reply["quest"], "deduped": reply["deduped"]}
    warn(reply.get("warnings") or [])
    waiting = given.flag("--wait") or given.flag("--follow")
    if given.flag("--json") and not given.flag("--follow"):
        if not waiting:
            print_json(added)
    elif given.flag("--print-id"):
        print(added["id"], flush=True)
    elif waiting:
        say(_sentence(added, client.path))
    else:
        print(_sentence(added, client.path))
    if added["state"] == "failed" and not added["deduped"]:
        say(f"{added['id']} has failed at once: {added.get('error') or 'what it depends on had failed'}")
    return added


def _sentence(added: dict[str, Any], socket: str) -> str:
    from qlctl.render.text import clean

    project = str(added["project"]).removeprefix("name:")
    state = f"is there already, {added['state']}," if added["deduped"] else added["state"]
    return clean(f"{added['id']} {state} in {project} (questlined on {socket})")


COMMANDS = {
    "add": Command(
        run,
        "[ROLE] TASK",
        least=0,
        most=2,
        options=(
            Option("--name", "NAME", "a short name"),
            Option("--title", "NAME", "like --name; the task, too, if there is no other"),
            Option("--body", "TEXT", "the task, instead of the argument"),
            Option("--file", "FILE", "read the task from a file"),
            Option("--context", "TEXT", "what the agent should know besides"),
            Option("--priority", "N", "higher runs first (default 0); may be negative"),
            Option("--depends", "ID,ID", "run after these are done", also=("--depends-on",), many=True),
            Option("--max-attempts", "N", "give up after N failures; 0 for no limit"),
            Option("--not-before", "TIME|+SPAN", "do not start earlier"),
            Option("--timeout", "SPAN", "stop an attempt that takes longer"),
            Option("--lane", "LANE", "run one at a time with the others of this lane"),
            Option("--external", "", "leave it to a worker outside the daemon"),
            Option("--from-file", "FILE", "add many: one JSON object a line, `-` for standard input"),
            Option("--wait", "", "wait for its end and print the result"),
            Option("--follow", "", "follow its output to its end, as `qlctl follow` does"),
            Option("--print-id", "", "print the id and nothing else"),
        ),
        about="Add a quest to the queue. TASK `-` is standard input; without a ROLE it is `default`.",
    )
}
