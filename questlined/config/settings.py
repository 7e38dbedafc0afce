"""The settings table: every key of questlined.toml with its kind, default, bounds and meaning.

Defaults, validation and the manual page are all drawn from here. A key stands here once something obeys it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from questlined.config.kinds import (
    Setting,
    argv,
    choice,
    count,
    credentials,
    flag,
    mode,
    names,
    path,
    per_role,
    share,
    size,
    span,
    text,
    variables,
)
from questlined.config.properties import properties

KIB, MIB = 1024, 1024**2
_PAUSE = "to hold work back use `qlctl pause`, or `qlctl pause --all` for every project"

QUEUE: Final = (
    Setting("lease_ttl", "lease_ttl_ms", span, 120, "How long the daemon's own lease on an attempt lasts.",
            low=100, reload=False),
    Setting("heartbeat", "heartbeat_ms", span, 30, "How often the daemon renews its leases; below lease_ttl.",
            low=10, reload=False),
    Setting("claim_lease", "claim_lease_ms", span, 1800, "The lease of an outside claim that names none.", low=1000),
    Setting("max_attempts", "max_attempts", count, 1, "Charged attempts of a quest that names none; 0 is unbounded.",
            high=1_000_000),
    Setting("backoff_base", "backoff_base_ms", span, 30, "The wait before the second attempt; it doubles each time."),
    Setting("backoff_cap", "backoff_cap_ms", span, 3600, "The longest wait between attempts."),
    Setting("backoff_jitter", "backoff_jitter", share, 0.1, "Waits vary by up to this share, either way.", high=1),
    Setting("max_interruptions", "max_interruptions", count, 5, "Uncharged ends after which a quest fails.",
            high=1_000_000),
    Setting("on_lease_loss", "on_lease_loss", choice, "requeue", "What becomes of a quest whose holder is lost.",
            choices=("requeue", "fail")),
    Setting("store.path", "store_path", path, None, "The database; quests.sqlite in the state directory if unset.",
            reload=False),
    Setting("artifacts.dir", "artifacts_dir", path, None, "Attempts' files; artifacts/ in the state directory.",
            reload=False),
    Setting("scheduler.max_concurrent", "max_concurrent", count, 2, "The daemon's own attempts at one time.",
            low=1, high=10_000, hint=_PAUSE),
    Setting("scheduler.role_concurrency", "role_concurrency", per_role, {}, "The same for single roles.",
            low=1, high=10_000, hint=_PAUSE),
    Setting("scheduler.project_concurrency", "project_concurrency", count, None, "The same per project, or \"off\".",
            low=1, high=10_000, off=True, hint=_PAUSE),
    Setting("records.keep", "records_keep_ms", span, "7d", "How long after its end an attempt's output can be followed "
            "record by record; later its result is shown."),
    Setting("disk.min_free_bytes", "min_free_bytes", size, "512MiB", "With less free space than this, claims wait."),
    Setting("admin_group", "admin_group", text, None, "Members of this group may do all that the owner may."),
    Setting("socket_mode", "socket_mode", mode, None, "The socket's mode; 0600 if unset. A socket unit has its own.",
            high=0o777, reload=False),
)  # fmt: skip

# Keys below `executor`, and below `executors.ROLE`, where a missing one is inherited from `executor`.
_EXECUTOR = (
    Setting("command", "command", argv, ["claude", "-p", "{task}"], "The program and its arguments; no shell."),
    Setting("protocol", "protocol", choice, "text", "How its output is read. text: stdout is the result.",
            choices=("text",)),
    Setting("stdin", "stdin", choice, "null", "null: /dev/null. prompt: the prompt, as a file.",
            choices=("null", "prompt")),
    Setting("output", "output", choice, "pipe", "pipe: output is copied into its files. file: the files are stdout "
            "and stderr themselves, which a command that opens /dev/stderr truncates.", choices=("pipe", "file")),
    Setting("umask", "umask", mode, "022", "The umask of the program.", high=0o777),
    Setting("timeout", "timeout_ms", span, 900, "The longest an attempt may run.", low=1),
    Setting("first_output_timeout", "first_output_timeout_ms", span, None, "The longest wait for a first output, or "
            "\"off\".", low=1, off=True),
    Setting("idle_timeout", "idle_timeout_ms", span, None, "The longest silence after that, or \"off\".",
            low=1, off=True),
    Setting("terminate_grace", "terminate_grace_ms", span, 5, "The time between SIGTERM and SIGKILL."),
    Setting("max_inline_output_bytes", "max_inline_output_bytes", size, "256KiB", "Up to this, result and error are "
            "kept whole in the database.", high=MIB),
    Setting("output_preview_bytes", "output_preview_bytes", size, "16KiB", "Above it, this much of head and of tail.",
            high=MIB),
    Setting("output_limit", "output_limit", size, "1GiB", "An attempt that writes more is killed.", low=1),
    Setting("isolation", "isolation", choice, "process", "What holds an attempt together. process: a process group, "
            "and its cgroup where there can be one. unit: a transient unit of systemd, which outlives the daemon.",
            choices=("process", "unit")),
    Setting("properties", "properties", properties, {}, "Limits and sandbox of a unit, as systemd.exec(5) and "
            "systemd.resource-control(5) name them."),
    Setting("keep_children", "keep_children", flag, False, "Leave what the program started alive after its end."),
    Setting("external", "external", flag, False, "Quests of this role wait for a claim from outside."),
    Setting("env.set", "env_set", variables, {}, "Variables for the program; single ones override inherited ones."),
    Setting("env.pass", "env_pass", names, [], "Variables of the daemon that the program gets besides the usual ones."),
    Setting("env.credentials", "env_credentials", credentials, {}, "Variables whose values are credentials of the "
            "daemon's service, by name (LoadCredential=, SetCredential=)."),
    Setting("env.path", "env_path", text, None, "Its PATH, instead of the one where the quest was added."),
    Setting("passthrough_home", "passthrough_home", flag, True, "Whether the program gets the daemon's HOME."),
)  # fmt: skip

LANES: Final = (
    Setting("lanes.*.slots", "slots", count, 1, "How many quests of this lane run at once, in each project.",
            low=1, high=10_000, hint=_PAUSE),
)  # fmt: skip

BOUNDS: Final = (
    Setting("bounds.max_frame_bytes", "max_frame_bytes", size, "4MiB", "The largest request or reply.",
            low=4 * KIB, high=64 * MIB),
    Setting("bounds.max_connections", "max_connections", count, 256, "Connections at one time.", low=1, high=65_536),
    Setting("bounds.max_streams", "max_streams", count, 512, "Calls with `more` that follow something, at one time.",
            low=1, high=65_536),
    Setting("bounds.max_task_bytes", "max_task_bytes", size, "512KiB", "Task and context of a quest together.",
            low=1, high=16 * MIB),
    Setting("bounds.max_dependencies", "max_dependencies", count, 1000, "Dependencies that one quest may name.",
            high=100_000),
    Setting("bounds.max_waiting", "max_waiting", count, 5_000_000, "Quests that are not final.", low=1),
    Setting("bounds.max_recurrences", "max_recurrences", count, 1000, "Recurring quests, of all projects.",
            high=100_000),
    Setting("bounds.add_many", "add_many", count, 5000, "Quests added by one call.", low=1, high=100_000),
)  # fmt: skip


def _below(prefix: str, rows: tuple[Setting, ...]) -> tuple[Setting, ...]:
    return tuple(replace(row, key=f"{prefix}.{row.key}") for row in rows)


EXECUTOR: Final = _below("executor", _EXECUTOR)
ROLES: Final = _below("executors.*", _EXECUTOR)
SETTINGS: Final = (*QUEUE, *EXECUTOR, *ROLES, *LANES, *BOUNDS)

_BY_PATH: Final = {row.path: row for row in SETTINGS}
_TABLES: Final = {row.path[:length] for row in SETTINGS for length in range(len(row.path))}
NAMED: Final = {"executors": "role", "lanes": "lane"}  # tables whose keys are names that people choose


def pattern(key: tuple[str, ...]) -> tuple[str, ...]:
    """A key's path with `*` in place of a chosen name."""
    return (key[0], "*", *key[2:]) if len(key) > 1 and key[0] in NAMED else key


def setting(key: tuple[str, ...]) -> Setting | None:
    """The row for a key, None where there is none."""
    return _BY_PATH.get(pattern(key))


def is_table(key: tuple[str, ...]) -> bool:
    """Whether known keys lie below this one."""
    return pattern(key) in _TABLES


def siblings(table: tuple[str, ...]) -> set[str]:
    """The known names directly below a table; none below one whose names people choose."""
    above = pattern((*table, ""))[:-1]
    return {row.path[len(above)] for row in SETTINGS if row.path[: len(above)] == above} - {"*"}
