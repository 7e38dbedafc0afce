"""A daemon that runs the real Claude Code by the default executor, as a user would have set it up."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.agents.api.server import StandIn, serving
from tests.integration.attempts.scene import Scene
from tests.support.evidence import alive

KEY = "sk-ant-the-key-of-nobody"
QUIET = (
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
)
GRACE_S = 2
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# Of the agent's own doing: its permission to use the shell, which nobody is there to give.
SETTINGS = {"permissions": {"allow": ["Bash"]}}
ROLES = """
[executors.shell]
command = ["sh", "-c", "{task}"]
"""


def config(url: str) -> str:
    """No command: the default is `claude -p`. The agent's address is set, its key is passed on by name."""
    told = {"ANTHROPIC_BASE_URL": url} | dict.fromkeys(QUIET, "1")
    variables = ", ".join(f'{name} = "{value}"' for name, value in told.items())
    return f"""
backoff_base = "100ms"
scheduler.max_concurrent = 1
[executor]
terminate_grace = "{GRACE_S}s"
env.set = {{ {variables} }}
env.pass = ["ANTHROPIC_API_KEY"]
{ROLES}"""


class Agents(Scene):
    """A scene whose daemon has a HOME of its own and no agent on its PATH; those who add quests have one on theirs."""

    def __init__(self, folder: Path, programs: Path, api: StandIn) -> None:
        super().__init__(folder)
        self.config.write_text(config(api.url))
        self.api = api
        self.home = folder / "home"
        (self.home / ".claude").mkdir(parents=True)
        (self.home / ".claude" / "settings.json").write_text(json.dumps(SETTINGS))
        self.path = f"{programs}:{SYSTEM_PATH}"

    def start(self, **options: Any) -> None:
        """The daemon, with the user's HOME and key."""
        super().start(**{"HOME": str(self.home), "PATH": SYSTEM_PATH, "ANTHROPIC_API_KEY": KEY} | options)

    def ask(self, prompt: str, *options: str) -> str:
        """Add a quest for the agent from where it is on the PATH; its id."""
        done = self.qlctl("add", "--print-id", *options, "--", prompt, PATH=self.path)
        return done.stdout.strip()

    def tool(self, name: str, command: str) -> str:
        """A marker by which the agent runs a shell script of ours with its own tool."""
        script = self.project / name
        script.write_text(command)
        return f"[[mock sh sh ./{name}]]"

    def endless(self) -> str:
        """A tool that never ends, as does what it puts into a session of its own; `at_work` waits for both."""
        told = f'>"{self.started.path}"'
        away = f"setsid nohup sh -c 'echo away {told}; exec tail -f /dev/null' </dev/null >/dev/null 2>&1 &"
        return self.tool("endless", self.evidence.task(f"{away}\necho here {told}\nexec tail -f /dev/null"))

    def at_work(self) -> int:
        """When both processes of an endless tool run: in how many sessions this store's attempts have any."""
        assert {self.started.next(), self.started.next()} == {"here", "away"}
        return len({os.getsid(pid) for pid in alive(self.database)})


@contextmanager
def agents(folder: Path, programs: Path) -> Iterator[Agents]:
    """A started one."""
    with serving() as api:
        stage = Agents(folder, programs, api)
        try:
            stage.start()
            yield stage
        finally:
            stage.stop()
            stage.started.close()
            stage.hold.close()
