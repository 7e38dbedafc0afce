"""Which variables a child gets, from what there is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from questlined.attempts.environment import DEFAULT_PATH, BadCredential, environment
from questlined.config.load import from_text

BASE = from_text("").executor
REPORT = {"QUESTLINE_ID": "q-1"}


def child(daemon: dict[str, str], path: str | None = None, **executor: Any) -> dict[str, str]:
    """What is inherited: without what every child gets."""
    always = {"PATH", "TERM", "NO_COLOR", "QUESTLINE_ID"}
    return {k: v for k, v in environment(daemon, replace(BASE, **executor), path, REPORT).items() if k not in always}


ALLOWED = ["USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_TIME", "TZ", "XDG_DATA_HOME", "SSH_AUTH_SOCK", "HOME"]
PROXIES = ["http_proxy", "HTTPS_PROXY", "no_proxy", "ALL_PROXY"]
SECRETS = ["LC_API_KEY", "XDG_TOKEN", "XDG_ACCESS_TOKEN", "LC_MY_SECRETS", "XDG_PASSWORD_FILE", "LC_CREDENTIALS"]
OTHERS = ["CI", "PWD", "EDITOR", "PYTHONPATH", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "TERM_PROGRAM", "DBUS_SESSION_BUS"]
NEVER = [
    *("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID"),
    *("INVOCATION_ID", "JOURNAL_STREAM", "MAINPID", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CREDENTIALS_DIRECTORY"),
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT"),
    *("CLAUDE_CODE_EXECPATH", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "QUESTLINED_STATE"),
]


def test_the_allow_list_is_inherited_and_nothing_else() -> None:
    """What looks secret is no exception to that."""
    daemon = dict.fromkeys([*ALLOWED, *PROXIES, *SECRETS, *OTHERS, *NEVER], "x")
    assert sorted(child(daemon)) == sorted([*ALLOWED, *PROXIES])


@pytest.mark.parametrize("name", [*SECRETS, *OTHERS])
def test_a_variable_may_be_passed_by_name(name: str) -> None:
    """Even a secret one; not one that is not there."""
    assert child({name: "x"}, env_pass=(name, "NOT_THERE")) == {name: "x"}


@pytest.mark.parametrize("name", NEVER)
def test_the_daemons_own_dealings_are_never_passed(name: str) -> None:
    """Not even by name: the child would speak for the daemon, or refuse to start."""
    assert child({name: "x"}, env_pass=(name,)) == {}


def test_what_is_set_wins() -> None:
    assert child({"LANG": "C"}, env_set={"LANG": "de", "NEW": "1"}) == {"LANG": "de", "NEW": "1"}


def test_home_may_be_kept_back() -> None:
    assert child({"HOME": "/home/x", "USER": "x"}, passthrough_home=False) == {"USER": "x"}


@pytest.mark.parametrize(
    ("own", "submitter", "daemon", "found"),
    [
        ("/own", "/submitter", "/daemon", "/own"),
        (None, "/submitter", "/daemon", "/submitter"),
        (None, None, "/daemon", "/daemon"),
        (None, None, None, DEFAULT_PATH),
    ],
)
def test_the_path_is_the_executors_or_the_submitters(
    own: str | None, submitter: str | None, daemon: str | None, found: str
) -> None:
    inherited = {} if daemon is None else {"PATH": daemon}
    assert environment(inherited, replace(BASE, env_path=own), submitter, REPORT)["PATH"] == found


def test_a_child_is_told_of_itself_last() -> None:
    """What an executor sets cannot forge it."""
    env = environment({}, replace(BASE, env_set={"QUESTLINE_ID": "q-2", "TERM": "xterm"}), None, REPORT)
    assert (env["QUESTLINE_ID"], env["TERM"], env["NO_COLOR"]) == ("q-1", "xterm", "1")


def given(folder: Path, **files: bytes) -> dict[str, str]:
    """The environment of a daemon whose service has these credentials."""
    for name, value in files.items():
        (folder / name.replace("_", "-")).write_bytes(value)
    return {"CREDENTIALS_DIRECTORY": str(folder), "ANTHROPIC_API_KEY": "of the daemon"}


def test_a_credential_is_a_variables_value(tmp_path: Path) -> None:
    """Without the newline at its end, before one that is set, and read anew each time; its directory is not passed."""
    daemon = given(tmp_path, the_key=b"s3cret\n\n", raw=b"\xff")
    wanted = {"ANTHROPIC_API_KEY": "the-key", "RAW": "raw"}
    found = child(daemon, env_credentials=wanted, env_set={"RAW": "set", "OTHER": "x"}, env_pass=("ANTHROPIC_API_KEY",))
    assert found == {"ANTHROPIC_API_KEY": "s3cret\n", "RAW": os.fsdecode(b"\xff"), "OTHER": "x"}
    given(tmp_path, the_key=b"another")
    assert child(daemon, env_credentials=wanted)["ANTHROPIC_API_KEY"] == "another"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "cannot be read: No such file or directory; add LoadCredential=the-key:FILE"),
        (b"s3cret" * 20_000, "has more than 65536 bytes"),
        (b"s3cret\0", "holds a NUL character"),
    ],
    ids=["missing", "long", "nul"],
)
def test_a_credential_that_cannot_be_had_is_named_and_not_shown(tmp_path: Path, value: bytes | None, said: str) -> None:
    daemon = given(tmp_path, **({} if value is None else {"the_key": value}))
    with pytest.raises(BadCredential, match=said) as caught:
        child(daemon, env_credentials={"KEY": "the-key"})
    assert str(caught.value).startswith("env.credentials.KEY: the credential the-key ")
    assert "s3cret" not in str(caught.value)


def test_a_service_without_credentials_says_so() -> None:
    with pytest.raises(BadCredential, match="the daemon's service has none; add LoadCredential=the-key:FILE"):
        child({}, env_credentials={"KEY": "the-key"})
