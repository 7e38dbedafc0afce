"""The configuration as the program sees it: typed, whole, frozen. Durations are milliseconds, sizes are bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from questlined.core.limits import Limits
from questlined.core.retry import Policy


class Variables(Mapping[str, str]):
    """Environment variables that print as `<2 variables>`, so that no repr, log or error shows a value."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<{len(self)} variable{'' if len(self) == 1 else 's'}>"


@dataclass(frozen=True, slots=True)
class Executor:
    """How the quests of a role are run. `None` means off; `env_path` None means the submitter's PATH."""

    command: tuple[str, ...]
    protocol: Literal["text"]
    stdin: Literal["null", "prompt"]
    output: Literal["file", "pipe"]
    umask: int
    timeout_ms: int
    first_output_timeout_ms: int | None
    idle_timeout_ms: int | None
    terminate_grace_ms: int
    max_inline_output_bytes: int
    output_preview_bytes: int
    output_limit: int
    keep_children: bool
    external: bool
    env_set: Mapping[str, str]
    env_pass: tuple[str, ...]
    env_credentials: Mapping[str, str]  # variable → credential
    env_path: str | None
    passthrough_home: bool
    isolation: Literal["process", "unit"] = "process"
    # Names as people write them → what each sets on the bus: a name, a D-Bus signature and its value.
    properties: Mapping[str, tuple[tuple[str, tuple[str, Any]], ...]] = field(default_factory=dict)

    @property
    def piped(self) -> bool:
        """Whether its output is copied from pipes. A unit writes into its files: it may outlive who would copy."""
        return self.output == "pipe" and self.isolation == "process"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on what clients may ask for; reaching one names `bounds.<field>`."""

    max_frame_bytes: int
    max_connections: int
    max_streams: int
    max_task_bytes: int
    max_dependencies: int
    max_waiting: int
    max_recurrences: int
    add_many: int


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, defaults filled in. Paths are None where the state directory decides."""

    lease_ttl_ms: int
    heartbeat_ms: int
    claim_lease_ms: int
    max_attempts: int  # 0 = unbounded
    backoff_base_ms: int
    backoff_cap_ms: int
    backoff_jitter: float  # a share, 0 to 1
    max_interruptions: int
    on_lease_loss: Literal["requeue", "fail"]
    store_path: str | None
    artifacts_dir: str | None
    max_concurrent: int
    role_concurrency: Mapping[str, int]
    project_concurrency: int | None
    executor: Executor
    executors: Mapping[str, Executor]
    lanes: Mapping[str, int]
    records_keep_ms: int
    min_free_bytes: int
    admin_group: str | None
    socket_mode: int | None  # None: 0600, or what the socket unit says
    bounds: Bounds

    def for_role(self, role: str) -> Executor:
        """The role's own executor, else the common one."""
        return self.executors.get(role, self.executor)

    @property
    def policy(self) -> Policy:
        """How attempts settle."""
        return Policy(self.backoff_cap_ms, self.backoff_jitter, self.max_interruptions)

    @property
    def limits(self) -> Limits:
        """Concurrency of the daemon's own attempts."""
        return Limits(self.role_concurrency, self.project_concurrency)
