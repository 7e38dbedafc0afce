"""How a unit ended, as written down by its own ExecStopPost=: true also where the daemon was away, or the unit is gone.

One file beside the attempt's others: at first the script that systemd is to run, then, in its place, the record. Beside
it there is for a moment a mark that the unit was asked to stop while its program ran: by a person, or by a shutdown.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from questlined.procs.child import Exit

NAME = "unit"
STOP = "stop"
_HEAD = "ended"
_MAX_BYTES = 4096

# Run as `sh FILE DEADLINE`, DEADLINE being the uptime in seconds at which RuntimeMaxSec= strikes, 0 for never. Before
# that as ExecStop=, with STOP: systemd tells it MAINPID only while that runs, and "success" where somebody asked.
# A file and no `sh -c`: systemd 252 breaks `$` and `;` in a transient unit's commands at its next daemon-reload.
# The PATH that the attempt had is not to be trusted with our privileges. Nothing may reach the attempt's output.
_SCRIPT = """\
PATH=/usr/bin:/bin
umask 077
exec 2>/dev/null
if [ "$1" = stop ]; then
    [ -n "$MAINPID" ] && [ "$SERVICE_RESULT" = success ] && : >"$0.stop"
    exit 0
fi
asked=-
[ -e "$0.stop" ] && asked=asked && rm -f -- "$0.stop"
read -r up rest </proc/uptime
while IFS=: read -r number kind path; do [ "$number" = 0 ] && break; done </proc/self/cgroup
group=/sys/fs/cgroup$path
[ -r "$group/memory.peak" ] && read -r peak <"$group/memory.peak"
[ -r "$group/cpu.stat" ] && read -r key usage rest <"$group/cpu.stat"
echo "ended ${SERVICE_RESULT:--} ${EXIT_CODE:--} ${EXIT_STATUS:--} $up $1 ${peak:--} ${usage:--} $asked" >"$0.new" &&
    mv -f -- "$0.new" "$0"
exit 0
"""


@dataclass(frozen=True, slots=True)
class Record:
    """What systemd says of an end. `code` is exited, killed or dumped; `status` a number or a signal's name; `asked`:
    the unit was asked to stop while its program ran."""

    result: str
    code: str
    status: str
    up_s: float = 0
    deadline_s: float = 0
    peak_bytes: int | None = None
    cpu_ms: int = 0
    asked: bool = False

    def exit(self) -> Exit:
        """The same in the terms of any program's end."""
        exited = int(self.status) if self.code == "exited" and self.status.isdecimal() else None
        by_signal = _signal(self.status) if self.code in {"killed", "dumped"} else None
        # A leftover that outlives its grace makes the result "timeout", too, long before the unit's own time is up.
        late = self.result == "timeout" and 0 < self.deadline_s <= self.up_s
        oom = self.result == "oom-kill"
        return Exit(exited, by_signal, self.peak_bytes, self.cpu_ms, oom=oom, timed_out=late, stopped=self.asked)


def prepare(directory: Path) -> Path:
    """Put the script in its place, before the unit is started. Raises OSError."""
    path = directory / NAME
    for stale in (path, directory / f"{NAME}.{STOP}"):
        stale.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(_SCRIPT)
    return path


def tried(directory: Path) -> bool:
    """Whether this attempt was to be a unit, started or not."""
    return (directory / NAME).exists()


def read(directory: Path) -> Record | None:
    """The record of the attempt's end, None where there is none."""
    try:
        descriptor = os.open(directory / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        written = os.read(descriptor, _MAX_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return parse(written.decode("ascii", "replace"))


def parse(line: str) -> Record | None:
    """The record in a line of the script's, None if it is none."""
    words = line.split()
    if len(words) != 9 or words[0] != _HEAD or not line.endswith("\n"):
        return None
    _, result, code, status, up, deadline, peak, usage, asked = words
    try:
        figures = float(up), float(deadline), None if peak == "-" else int(peak), 0 if usage == "-" else int(usage)
    except ValueError:
        return None
    return Record(result, code, status, *figures[:3], round(figures[3] / 1000), asked == "asked")


def _signal(name: str) -> int | None:
    """The number of a signal that systemd names TERM or RTMIN+3."""
    base, _, more = name.partition("+")
    try:
        return int(signal.Signals[f"SIG{base}"]) + int(more or 0)
    except (KeyError, ValueError):
        return int(name) if name.isdecimal() else None
