"""What a quest's program finds in its environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.attempts.scene import Scene, scene

CONFIG = """
executors.more.env.set = {FLAVOUR = "sweet", LANG = "de_DE.UTF-8"}
executors.more.env.pass = ["PASSED_TOKEN", "CI", "NOT_THERE", "CLAUDECODE", "NOTIFY_SOCKET"]
executors.homeless.passthrough_home = false
executors.tool.command = ["the-tool"]
executors.own.command = ["the-tool"]
executors.own.env.path = "{folder}/own:/usr/bin:/bin"
executors.keyed.env.credentials = { ANTHROPIC_API_KEY = "the-key" }
executors.locked.env.credentials = { ANTHROPIC_API_KEY = "no-such" }
"""
SECRET = "a-value-that-nobody-shows"
SECRETS = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "XDG_SESSION_TOKEN", "LC_SECRET"), SECRET)
MARKS = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SSE_PORT": "1",
    "CODEX_SANDBOX_NETWORK_DISABLED": "1",
    "LISTEN_FDS": "1",
    "LISTEN_PID": "1",
    "WATCHDOG_USEC": "1000000",
    "WATCHDOG_PID": "1",
    "INVOCATION_ID": "0",
    "JOURNAL_STREAM": "8:1",
    "STATE_DIRECTORY": "/nowhere",
}
OTHERS = {"CI": "true", "PASSED_TOKEN": SECRET, "SOMETHING": "else", "QUESTLINE_ID": "q-of-another", "TERM": "xterm"}
KEPT = {"LC_TIME": "C", "TZ": "UTC", "https_proxy": "http://p:1", "XDG_CONFIG_HOME": "/cfg", "HOME": "/home/x"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("environment")
    for place, word in (("own", "own"), ("submitter", "submitter"), ("daemon", "daemon")):
        tool = folder / place / "the-tool"
        tool.parent.mkdir()
        tool.write_text(f"#!/bin/sh\necho {word}\n")
        tool.chmod(0o755)
    (folder / "credentials").mkdir()
    (folder / "credentials/the-key").write_text("of-the-service\n")
    given = {"CREDENTIALS_DIRECTORY": str(folder / "credentials")}
    config = CONFIG.replace("{folder}", str(folder))
    path = f"{folder}/daemon:/usr/bin:/bin"
    with scene(folder, config, PATH=path, **SECRETS, **MARKS, **OTHERS, **KEPT, **given) as playing:
        yield playing


def seen(stage: Scene, role: str = "default") -> dict[str, str]:
    """The variables of an attempt of that role."""
    text = stage.run("env -0", role=role)["files"]["stdout"].decode()
    return dict(entry.split("=", 1) for entry in text.split("\0")[:-1])


def test_a_program_inherits_an_allow_list(stage: Scene) -> None:
    """No secret, no mark of an agent around the daemon, nothing of the daemon's dealings with systemd, and no CI."""
    env = seen(stage)
    assert not {*SECRETS, *MARKS, "NOTIFY_SOCKET", "CI", "SOMETHING", "PASSED_TOKEN"} & set(env)
    assert {name: env.get(name) for name in KEPT} == KEPT
    assert (env["TERM"], env["NO_COLOR"]) == ("dumb", "1")


def test_a_program_can_report_on_its_own_attempt(stage: Scene) -> None:
    """And is not told where the daemon keeps its state."""
    quest = stage.add("env -0")
    text = stage.ended(quest)["files"]["stdout"].decode()
    env = dict(entry.split("=", 1) for entry in text.split("\0")[:-1])
    ours = {name: value for name, value in env.items() if name.startswith("QUESTLINE")}
    assert ours.pop("QUESTLINE_ATTEMPT").endswith(f":{quest}:1")
    assert ours.pop("QUESTLINE_RUN").isdigit()
    assert ours == {
        "QUESTLINE_ID": quest,
        "QUESTLINE_PROJECT": str(stage.project),
        "QUESTLINED_SOCKET": stage.socket,
    }


def test_an_executor_may_set_and_pass_variables(stage: Scene) -> None:
    """By name; but never the marks that make a child refuse to start or speak for the daemon."""
    env = seen(stage, "more")
    assert (env["FLAVOUR"], env["LANG"], env["PASSED_TOKEN"], env["CI"]) == ("sweet", "de_DE.UTF-8", SECRET, "true")
    assert not {"NOT_THERE", "CLAUDECODE", "NOTIFY_SOCKET"} & set(env)
    assert "HOME" not in seen(stage, "homeless")


def test_a_credential_of_the_service_is_a_variables_value(stage: Scene) -> None:
    """Where the executor names it; one that is not there fails the quest at once, and where they are is not told."""
    env = seen(stage, "keyed")
    assert env["ANTHROPIC_API_KEY"] == "of-the-service"
    assert "CREDENTIALS_DIRECTORY" not in env
    quest = stage.run("true", "--max-attempts", "3", role="locked")["quest"]
    assert (quest["state"], quest["class"], quest["attempts"]) == ("failed", "bad_config", 1)
    assert quest["error"].startswith("env.credentials.ANTHROPIC_API_KEY: the credential no-such cannot be read")


@pytest.mark.parametrize(("role", "found"), [("tool", "submitter"), ("own", "own")])
def test_the_program_is_looked_up_where_the_quest_was_added(stage: Scene, role: str, found: str) -> None:
    """On the submitter's PATH and not on the daemon's, unless the executor has its own."""
    quest = stage.add_as(role, "x", PATH=f"{stage.folder}/submitter:/usr/bin:/bin")
    assert stage.ended(quest)["quest"]["result"] == f"{found}\n"


def test_no_value_of_a_variable_is_shown_or_logged(stage: Scene, tmp_path: Path) -> None:
    """Not even where a program is not found."""
    quest = stage.add_as("tool", "x", PATH=str(tmp_path))
    shown = stage.ended(quest)
    assert "the-tool is not on the PATH" in shown["quest"]["error"]
    assert SECRET not in str(shown) + stage.log.read_text()
