"""qlctl version"""

from __future__ import annotations

import json
from pathlib import Path

from questlined import __version__
from tests.acceptance.desk import Desk
from tests.support.daemon import Daemon


def test_it_names_client_daemon_socket_and_state(desk: Desk) -> None:
    """For people and as JSON."""
    told = desk.json("version")
    assert (told["version"], told["socket"]) == (__version__, desk.daemon.socket)
    daemon = told["daemon"]
    assert (daemon["version"], daemon["pid"]) == (__version__, desk.daemon.pid)
    assert daemon["stateDirectory"] == str(desk.daemon.state)
    assert daemon["isolation"] == "group"
    out = desk.ok("version")
    for words in (
        f"qlctl {__version__}",
        f"pid {desk.daemon.pid}",
        desk.daemon.socket,
        str(desk.daemon.state),
        "by group",
    ):
        assert words in out


def test_without_a_daemon_it_says_what_it_knows(tmp_path: Path) -> None:
    """And ends with 69."""
    daemon = Daemon(tmp_path)
    done = daemon.qlctl("version", "--json", check=False)
    assert (done.returncode, json.loads(done.stdout)) == (
        69,
        {"version": __version__, "socket": daemon.socket, "daemon": None},
    )
    assert "start it" in done.stderr


def test_the_option_asks_no_daemon(tmp_path: Path) -> None:
    """--version is the client's own."""
    daemon = Daemon(tmp_path)
    assert daemon.qlctl("--version").stdout == daemon.qlctl("list", "--version").stdout == f"qlctl {__version__}\n"


def test_daemon_is_another_name_of_questlined(tmp_path: Path) -> None:
    """With the options that follow."""
    assert Daemon(tmp_path).qlctl("daemon", "--version").stdout == f"questlined {__version__}\n"
