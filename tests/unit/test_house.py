"""The house is in order, and every rule of it bites."""

import pytest

from tests.support import house
from tests.support.house import Module


@pytest.fixture(scope="module")
def modules():
    return house.modules()


@pytest.mark.parametrize("rule", house.RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule, modules):
    violations = [violation for module in modules for violation in rule(module)]
    assert not violations, "\n".join(["", *violations])


def test_the_top_level_holds_the_known_names():
    assert not list(house.top_level(house.tracked()))


def test_no_file_points_outside_the_repository():
    violations = [
        violation for name in house.tracked() for violation in house.references(name, (house.ROOT / name).read_bytes())
    ]
    assert not violations, "\n".join(["", *violations])


def test_the_tree_is_read_at_all(modules):
    paths = {module.path for module in modules}
    assert {"questlined/wire/errors.py", "questlined/clock.py", "tests/unit/test_house.py"} <= paths
    assert any(path.startswith("qlctl/") for path in paths)


BAD = [
    ("arrows", "questlined/wire/x.py", "from questlined.core import ids"),
    ("arrows", "questlined/core/x.py", "import questlined.store.rows"),
    ("arrows", "questlined/core/x.py", "from questlined import clock"),
    ("arrows", "questlined/wire/x.py", "from questlined.probes import reached"),
    ("arrows", "questlined/clock.py", "from questlined.core import ids"),
    ("arrows", "questlined/store/x.py", "from questlined.config.shape import Config"),
    ("arrows", "questlined/procs/x.py", "def f():\n    from questlined.attempts import runner"),
    ("arrows", "questlined/services/x.py", "from questlined import operations"),
    ("arrows", "questlined/operations/x.py", "from questlined.server.peer import Peer"),
    ("arrows", "questlined/server/x.py", "from questlined.app import run"),
    ("arrows", "questlined/newcomer/x.py", ""),
    ("client", "questlined/app.py", "import qlctl.main"),
    ("client", "qlctl/commands/x.py", "from questlined import core"),
    ("client", "qlctl/commands/x.py", "import questlined"),
    ("client", "qlctl/commands/x.py", "def f():\n    import msgspec"),
    ("lean", "questlined/wire/x.py", "from dataclasses import dataclass"),
    ("lean", "questlined/wire/x.py", "import asyncio"),
    ("lean", "questlined/wire/x.py", "import msgspec"),
    ("lean", "questlined/core/x.py", "from msgspec import Struct"),
    ("lean", "questlined/core/x.py", "from os import path"),
    ("lean", "questlined/core/x.py", "import croniter"),
    ("owners", "questlined/core/x.py", "from croniter import croniter"),
    ("owners", "questlined/config/load.py", "import platformdirs"),
    ("owners", "questlined/config/load.py", "import tomli_w"),
    ("owners", "questlined/app.py", "import sdnotify"),
    ("owners", "questlined/app.py", "from daemon import DaemonContext"),
    ("owners", "questlined/store/rows.py", "import sqlite3"),
    ("owners", "questlined/attempts/x.py", "import subprocess"),
    ("owners", "qlctl/x.py", "from subprocess import run"),
    ("owners", "questlined/procs/x.py", "from asyncio import subprocess"),
    ("owners", "questlined/procs/x.py", "import asyncio\nasyncio.create_subprocess_exec('x')"),
    ("owners", "questlined/procs/x.py", "import asyncio.subprocess"),
    ("owners", "questlined/services/x.py", "import asyncio as a\na.create_task(x())"),
    ("owners", "questlined/services/x.py", "from asyncio import ensure_future"),
    ("owners", "questlined/attempts/x.py", "import os\nos.killpg(1, 9)"),
    ("owners", "questlined/attempts/x.py", "import signal as s\nf = s.pidfd_send_signal"),
    ("owners", "questlined/attempts/x.py", "from os import kill as k"),
    ("owners", "questlined/app.py", "import os\nos.fork()"),
    ("owners", "questlined/procs/x.py", "import os\nos.system('x')"),
    ("owners", "questlined/store/x.py", "import time\ntime.time()"),
    ("owners", "questlined/store/x.py", "from time import time_ns"),
    ("owners", "questlined/store/x.py", "from datetime import datetime\ndatetime.now()"),
    ("owners", "qlctl/commands/x.py", "import datetime as d\nd.datetime.now(d.UTC)"),
    ("tasks", "questlined/services/x.py", "loop.create_task(x())"),
    ("tasks", "questlined/services/x.py", "asyncio.get_running_loop().create_task(x())"),
    ("tasks", "questlined/services/x.py", "self._loop.create_task(x())"),
    ("statements", "questlined/operations/x.py", "q = 'SELECT 1'"),
    ("statements", "questlined/store/sqlite/x.py", "q = '''\n  UPDATE quests SET a = 1'''"),
    ("statements", "questlined/store/sqlite/x.py", "q = f'DELETE FROM {table}'"),
    ("statements", "questlined/store/sqlite/x.py", "q = 'CREATE TABLE x (y)'"),
    ("statements", "questlined/store/sqlite/x.py", "q = 'WITH x AS (SELECT 1) SELECT *'"),
    ("statements", "questlined/store/rows.py", "q = 'BEGIN IMMEDIATE'"),
    ("statements", "questlined/store/rows.py", "q = 'PRAGMA user_version'"),
    ("statements", "qlctl/x.py", "q = 'COMMIT'"),
    ("length", "questlined/app.py", "x = 1\n" * 401),
    ("naming", "questlined/store/utils.py", ""),
    ("naming", "qlctl/common/x.py", ""),
    ("naming", "tests/support/helpers.py", ""),
    ("naming", "questlined/services/manager.py", ""),
    ("sleeps", "tests/unit/test_x.py", "import time\ntime.sleep(0.1)"),
    ("sleeps", "tests/unit/test_x.py", "from asyncio import sleep\nasync def f():\n    await sleep(1)"),
    ("sleeps", "tests/support/x.py", "import anyio\nanyio.sleep(seconds=2)"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD, ids=lambda value: str(value)[:40])
def test_the_rule_bites(rule, path, text):
    violations = list(getattr(house, rule)(Module(path, text)))
    assert violations
    assert all(violation.startswith(f"{path}:") for violation in violations)


GOOD = [
    ("questlined/wire/x.py", "import json\nfrom questlined.wire.errors import NotFound"),
    ("questlined/core/calendar.py", "from croniter import croniter\nfrom questlined.wire.errors import NotFound"),
    ("questlined/store/sqlite/x.py", "import sqlite3\nfrom questlined import probes\nq = 'BEGIN IMMEDIATE'"),
    ("questlined/services/x.py", "from questlined import __version__\nfrom questlined.attempts.runner import run"),
    ("questlined/services/x.py", "async def f(group):\n    group.create_task(g())"),
    ("questlined/app.py", "import questlined.server.listen, questlined.main\nimport asyncio\nasyncio.create_task(f())"),
    ("questlined/procs/spawn.py", "import subprocess, os\nos.killpg(1, 9)"),
    ("questlined/clock.py", "import time\ntime.time_ns()"),
    ("questlined/operations/x.py", "def f():\n    'SELECT nothing.'\n    return 'UPDATE', 'Delete it', 'BEGINNING'"),
    ("qlctl/commands/x.py", "import json\nfrom questlined.wire import errors\nfrom qlctl.client import Client"),
    ("tests/unit/test_x.py", "import time, sqlite3\ntime.sleep(0)\nq = 'SELECT 1'"),
    ("tests/bench/x.py", "import time\ntime.sleep(1)"),
    ("questlined/store/x.py", "x = 1\n" * 400),
]


@pytest.mark.parametrize(("path", "text"), GOOD, ids=lambda value: str(value)[:40])
def test_what_is_in_order_is_let_through(path, text):
    assert [violation for rule in house.RULES for violation in rule(Module(path, text))] == []


def test_the_rules_about_files_bite():
    assert list(house.top_level(["README.md", ".ci/run", "tests/x.py", "notes/x", "setup.py"])) == [
        "notes: not at the top of the repository",
        "setup.py: not at the top of the repository",
    ]
    for place in house.ELSEWHERE:
        assert list(house.references("a.md", f"\nsee {place}x".encode())) == [f"a.md:2: refers to {place}"]
    assert list(house.references("a.md", b"see shared/x and work/y")) == []
