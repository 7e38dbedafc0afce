"""Placeholders in an executor's argv, and the texts that fill them. Text that came in is never expanded again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

PLACEHOLDERS = frozenset({"task", "context", "prompt", "project", "role", "id", "name", "lane", "run", "task_file"})
ARGUMENT_MAX = 131_071  # Linux: MAX_ARG_STRLEN is 32 pages with the final NUL; one more byte is E2BIG
TOTAL_MAX = 2 * 1024 * 1024  # argv and environment together, from a stack of 8 MiB
_HOLE = re.compile(r"\{([a-z_]+)\}")


def unknown_placeholders(argv: Iterable[str]) -> list[str]:
    """Placeholders that mean nothing, in order of appearance: `{word}` only; other braces are text."""
    return [hole for argument in argv for hole in _HOLE.findall(argument) if hole not in PLACEHOLDERS]


def fill(argv: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """argv with every placeholder replaced, in one pass."""
    return [_HOLE.sub(lambda hole: values[hole[1]], argument) for argument in argv]


def used_placeholders(argv: Iterable[str]) -> set[str]:
    """Which placeholders a command has."""
    return {hole for argument in argv for hole in _HOLE.findall(argument)}


def task_text(task: str, context: str | None) -> str:
    """`{task}`: the task and, where there is context, an empty line, `Context:` and the context."""
    return f"{task}\n\nContext:\n{context}" if context else task


def values(
    *,
    task: str,
    context: str | None,
    project: str,
    role: str,
    quest: str,
    name: str,
    lane: str | None,
    run: str,
    task_file: str,
) -> dict[str, str]:
    """What each placeholder holds. Without a project's own prompt, `{prompt}` is `{task}`."""
    text = task_text(task, context)
    return {
        "task": text,
        "context": context or "",
        "prompt": text,
        "project": project,
        "role": role,
        "id": quest,
        "name": name,
        "lane": lane or "",
        "run": run,
        "task_file": task_file,
    }


def oversized(argv: Iterable[str], environment: Mapping[str, str]) -> str | None:
    """Why the kernel would refuse this command, or None."""
    sizes = [len(argument.encode("utf-8", "surrogateescape")) for argument in argv]
    largest = max(sizes, default=0)
    if largest > ARGUMENT_MAX:
        return f"one argument has {largest} bytes, the kernel takes {ARGUMENT_MAX}"
    names = sum(
        len(key.encode("utf-8", "surrogateescape")) + len(value.encode("utf-8", "surrogateescape")) + 2
        for key, value in environment.items()
    )
    total = sum(sizes) + len(sizes) + names + 8 * (len(sizes) + len(environment) + 2)
    if total > TOTAL_MAX:
        return f"argv and environment have {total} bytes, the kernel takes about {TOTAL_MAX}"
    return None
