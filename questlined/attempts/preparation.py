"""From a claimed quest to a command that can be executed. Blocks: directories may be on slow disks."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from questlined.attempts import output
from questlined.attempts.environment import BadCredential, environment
from questlined.attempts.runtime import Runtime
from questlined.config.shape import Executor
from questlined.core import prompts
from questlined.core.ids import marker
from questlined.store.protocol import Claimed

# The kernel or the disk is short of something that comes back; the quest is not at fault.
TRANSIENT_ERRNOS = frozenset(
    {errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}
)


class PathGone(Exception):
    """The project's directory is not there: the quest waits for it."""


class BadConfig(Exception):
    """This can never run as it is: a missing program, too large. The message is the reason."""


class NoResources(Exception):
    """The machine is short of something; later it may work."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a spawn needs; the files are open."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    marker: str
    files: output.Files


def prepare(runtime: Runtime, claimed: Claimed, executor: Executor) -> Prepared:
    """Check the directory and the program, fill argv, open the files. Raises PathGone, BadConfig, NoResources."""
    quest = claimed.quest
    cwd = claimed.path or ""
    if not os.path.isdir(cwd):
        raise PathGone(cwd)
    directory = output.directory_of(runtime.artifacts, quest.id, quest.attempts)
    mark = marker(runtime.store_uuid, quest.id, quest.lease_gen)
    argv = prompts.fill(executor.command, _values(claimed, cwd, str(output.task_file(directory))))
    env = _environment(runtime, claimed, executor, _report(runtime, claimed, mark, cwd))
    argv[0] = _program(argv[0], cwd, env["PATH"])
    reason = prompts.oversized(argv, env)
    if reason is not None:
        raise BadConfig(f'{reason}; let the executor read it: stdin = "prompt", or {{task_file}}')
    try:
        files = _create(executor, claimed, directory)
    except OSError as error:
        raise NoResources(f"{directory}: {error.strerror}") from error
    return Prepared(tuple(argv), cwd, env, mark, files)


def _environment(runtime: Runtime, claimed: Claimed, executor: Executor, report: dict[str, str]) -> dict[str, str]:
    try:
        return environment(runtime.environ, executor, claimed.quest.submitter_path, report)
    except BadCredential as error:
        raise BadConfig(str(error)) from None
    except OSError as error:
        raise NoResources(f"a credential cannot be read: {error.strerror}") from error


def _create(executor: Executor, claimed: Claimed, directory: os.PathLike[str]) -> output.Files:
    wanted = executor.stdin == "prompt" or "task_file" in prompts.used_placeholders(executor.command)
    text = prompts.task_text(claimed.quest.task, claimed.quest.context)
    return output.create(
        Path(directory),
        prompt=text if wanted else None,
        stdin_prompt=executor.stdin == "prompt",
        append=not executor.piped,
    )


def _values(claimed: Claimed, project: str, task_file: str) -> dict[str, str]:
    quest = claimed.quest
    return prompts.values(
        task=quest.task,
        context=quest.context,
        project=project,
        role=quest.role,
        quest=quest.id,
        name=quest.name,
        lane=quest.lane,
        run=str(claimed.run.run_number),
        task_file=task_file,
    )


def _report(runtime: Runtime, claimed: Claimed, mark: str, project: str) -> dict[str, str]:
    return {
        "QUESTLINE_ID": claimed.quest.id,
        "QUESTLINE_ATTEMPT": mark,
        "QUESTLINE_RUN": str(claimed.run.run_number),
        "QUESTLINE_PROJECT": project,
        "QUESTLINED_SOCKET": runtime.socket,
    }


def _program(name: str, cwd: str, path: str) -> str:
    """The file to execute. A name with a slash is relative to the project. Raises BadConfig."""
    if "/" not in name:
        # An empty or relative entry of PATH is meant from the project's directory, as a shell there would take it.
        for entry in path.split(os.pathsep):
            found = os.path.join(cwd, entry, name)
            if _is_program(found):
                return found
        raise BadConfig(f"program {name} is not on the PATH of the quest (give its path, or set env.path): {path}")
    found = os.path.join(cwd, name)
    if not os.path.exists(found):
        raise BadConfig(f"program {found} is not there")
    if not _is_program(found):
        raise BadConfig(f"program {found} is not executable")
    return found


def _is_program(file: str) -> bool:
    # shutil.which asks the same in more words: twice as long for an attempt, most of it in directories without it.
    try:
        return stat.S_ISREG(os.stat(file).st_mode) and os.access(file, os.X_OK)
    except (OSError, ValueError):
        return False
