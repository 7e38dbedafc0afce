"""What is known of an attempt's end, and what the store is told of it."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from questlined.agents import text
from questlined.attempts import output
from questlined.attempts.runtime import Runtime
from questlined.procs.child import Exit
from questlined.store.protocol import Fence, Finish, Sealed

# Why an attempt is stopped → the line in its error. The reason is its class, too, but for those in CLASS.
REASONS = {
    "cancelled": "cancelled",
    "interrupted": "the daemon was stopped",
    "client_gone": "the client that ran it went away",
    "timeout": "it ran longer than its timeout",
    "start_timeout": "it wrote nothing within first_output_timeout",
    "idle": "it wrote nothing for idle_timeout",
    "output_limit": "it wrote more than output_limit",
    "stale": "its lease was lost",
}
CLASS = {"client_gone": "interrupted"}


@dataclass(frozen=True, slots=True)
class End:
    """`klass` and the line that says why, None for a good one; the rest as far as it came to that."""

    klass: str
    reason: str | None = None
    exit: Exit | None = None
    seal: output.Seal | None = None
    path_missing: bool = False
    retry_at: int | None = None


def stopped(reason: str, ended: Exit | None = None, seal: output.Seal | None = None) -> End:
    """The end of an attempt that was stopped for a reason of REASONS."""
    return End(CLASS.get(reason, reason), REASONS[reason], ended, seal)


def judged(asked: str | None, unkept: OSError | None, output_limit: int, ended: Exit, seal: output.Seal) -> End:
    """The end of a program that ran. `asked`: why it was stopped; `unkept`: why its output is not whole."""
    if asked is not None:
        return stopped(asked, ended, seal)
    if unkept is not None:
        # The machine's fault and not the quest's: uncharged, and claims pause while the disk is full.
        return End("interrupted", f"its output could not be kept: {unkept}", ended, seal)
    if sum(file.bytes for file in seal.artifacts) > output_limit:  # it was faster than our notice
        return stopped("output_limit", ended, seal)
    klass, reason = _cut_short(ended) or astuple(text.judge(ended.code, ended.signal))
    return End(klass, reason, ended, seal)


def _cut_short(ended: Exit) -> tuple[str, str] | None:
    """The class of a program that kernel or systemd did not let come to its own end, and why."""
    if ended.not_executed:
        return "bad_config", "the kernel does not execute its program"
    if ended.oom and ended.code != 0:  # one that ends well has coped with it
        return "oom", "the kernel ended some of it for want of memory"
    if ended.timed_out:
        return "timeout", "it ran longer than RuntimeMaxSec"
    if ended.stopped:  # by a person, or the machine went down: what it then made of SIGTERM is no outcome
        return "interrupted", "its unit was stopped"
    return None


def outcome(runtime: Runtime, fence: Fence, end: End, asked: str | None, records: tuple[Sealed, ...]) -> Finish:
    """The request that writes it. `records` is the attempt's index, if it has one."""
    seal, ended = end.seal, end.exit
    stderr = seal.stderr if seal else ""
    return Finish(
        fence,
        runtime.clock.wall_ms(),
        end.klass,
        runtime.chance(),
        runtime.config.policy,
        runtime.config.limits,
        result=seal.stdout if seal else None,
        error=None if end.reason is None else "\n".join(part for part in (end.reason, stderr) if part),
        reason=end.reason,
        retry_at=end.retry_at,
        exit_code=ended.code if ended else None,
        exit_signal=ended.signal if ended else None,
        kill_reason=asked,
        last_output_at=seal.last_output_at if seal else None,
        peak_memory_bytes=ended.peak_memory_bytes if ended else None,
        cpu_ms=ended.cpu_ms if ended else None,
        artifacts=(*seal.artifacts, *records) if seal else (),
        path_missing=end.path_missing,
    )
