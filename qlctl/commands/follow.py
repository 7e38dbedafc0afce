"""follow: what a quest writes, as it writes it, to its end; and what `add --follow` does after adding."""

from __future__ import annotations

import time

from qlctl.client import connect
from qlctl.options import Arguments, Command, Option
from qlctl.records import Records, to_end
from qlctl.values import integer, span_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qlctl.client import Client

TIMED_OUT = 124


def run(given: Arguments) -> int:
    """Show the quest's records until it has ended, is blocked, or the time is over."""
    span, attempt = given.text("--timeout"), given.text("--attempt")
    until = None if span is None else time.monotonic() + span_ms("--timeout", span) / 1000
    records = Records(
        given.words[0],
        attempt=None if attempt is None else integer("--attempt", attempt, 1),
        after=given.text("--after"),
        as_json=given.flag("--json"),
    )
    records.tell_waiting = True
    return shown(connect(given), records, until)


def follow_added(client: Client, given: Arguments, quest: str) -> int:
    """The end of `add --follow`."""
    return shown(client, Records(quest, as_json=given.flag("--json")))


def shown(client: Client, records: Records, until: float | None = None) -> int:
    """Follow to the end; the exit status."""
    client.on_absence = lambda: records.say("the connection to the daemon is lost; going on when it is back")
    try:
        return records.status(to_end(client, records, until))
    except TimeoutError:
        records.say(f"{records.name} has not ended yet" + (f": it is {records.state}" if records.state else ""))
        return TIMED_OUT


COMMANDS = {
    "follow": Command(
        run,
        "ID",
        least=1,
        most=1,
        options=(
            Option("--attempt", "N", "only this attempt, and only to its end"),
            Option("--after", "RECORD", "go on after this record, as --json names it: 2.17"),
            Option("--timeout", "SPAN", "give up after this long, with exit status 124"),
        ),
        about="Show what a quest writes, as it comes: its stdout on stdout, its stderr on stderr, verbatim, from the"
        " first attempt on, until it has ended or is blocked. A restart of the daemon is waited through. Ctrl-C"
        " leaves the quest alone. The exit status is 0 if it is done, else 1. With --json, a line of JSON for each"
        " record.",
    )
}
