"""The rules of the house, read from the source: each is a function that gives its violations as `file:line: what`."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]

# An arrow points from a higher number to a lower one; within a number, packages do not know each other.
LAYERS = {
    "wire": 0,
    "core": 1,
    **dict.fromkeys(("config", "store", "procs", "agents", "sysd"), 2),
    "attempts": 3,
    **dict.fromkeys(("operations", "services"), 4),
    "server": 5,
    **dict.fromkeys(
        ("app", "main", "arguments", "__main__", "detach", "demo", "installing", "life", "reexec", "signals"), 6
    ),
}
TOP = 6  # where objects meet: these may know each other
EVERYWHERE = {"clock", "probes"}  # to be had from any layer that is not pure

# Who may use what: a file, or every file below a directory.
SIGNALS = ("questlined/procs/", "questlined/sysd/install.py", "questlined/probes.py", "questlined/demo/")
CLOCKS = ("questlined/clock.py", "qlctl/values.py")  # the client may not import the daemon's
OWNERS = {
    "croniter": ("questlined/core/calendar.py",),
    "jeepney": ("questlined/procs/bus.py",),
    "platformdirs": ("questlined/config/paths.py",),
    "tomli_w": ("questlined/config/write.py",),
    "sdnotify": ("questlined/sysd/notify.py",),
    "daemon": ("questlined/detach.py",),
    "sqlite3": ("questlined/store/sqlite/",),
    "subprocess": ("questlined/procs/", "questlined/sysd/install.py", "questlined/demo/", "qlctl/systemctl.py"),
    "multiprocessing": (),
    "asyncio.subprocess": (),
    "asyncio.create_subprocess_exec": (),
    "asyncio.create_subprocess_shell": (),
    "asyncio.create_task": ("questlined/app.py",),
    "asyncio.ensure_future": ("questlined/app.py",),
    "os.system": (),
    "os.popen": (),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pidfd_send_signal"), SIGNALS),
    **dict.fromkeys(("os.forkpty", "os.posix_spawn", "os.posix_spawnp"), SIGNALS),
    "os.fork": (*SIGNALS, "questlined/detach.py"),
    **dict.fromkeys(("time.time", "time.time_ns", "datetime.datetime.now", "datetime.datetime.utcnow"), CLOCKS),
    **dict.fromkeys(("datetime.datetime.today", "datetime.date.today"), CLOCKS),
}
# core is a function of its arguments: nothing that reads the world, the clock or chance.
IMPURE = {"asyncio", "logging", "os", "pathlib", "random", "secrets", "shutil", "signal", "socket", "tempfile",
          "threading", "time"}  # fmt: skip
COSTLY = {"asyncio", "dataclasses"}  # what a client would pay for at every start

LINES_MAX = 400
VAGUE = re.compile(r"(util|common|helper|manager)s?")
TOP_NAMES = {"pyproject.toml", "README.md", "LICENSE", "questlined", "qlctl", "units", "tests", "man"}
ELSEWHERE = ("../" + "shared", "/" + "work/")  # in two pieces, or this file would break the rule
_STATEMENT = re.compile(r"\s*(?:(?:SELECT|INSERT|REPLACE|UPDATE|DELETE|CREATE|ALTER|DROP|WITH)\s+[\w*'\"(:]|--\s)")
_CONTROL = re.compile(r"\s*(?:PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|ATTACH|VACUUM)(?:\s+\w|;|$)")


@dataclass(frozen=True)
class Module:
    """One Python file: its path from the root, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def package(self) -> str:
        """`questlined`, `qlctl` or `tests`."""
        return self.path.split("/")[0]

    @property
    def place(self) -> str:
        """The package or module below the top one: `store`, `app`; "" for the top one itself."""
        parts = self.path.removesuffix(".py").split("/")
        return "" if parts[1:] == ["__init__"] else parts[1]

    def at(self, node: ast.AST, what: str) -> str:
        """A violation by a node."""
        return f"{self.path}:{getattr(node, 'lineno', 0)}: {what}"

    @cached_property
    def imports(self) -> list[tuple[ast.stmt, str]]:
        """Every import, lazy ones too, as a full dotted name: `from a.b import c` is `a.b.c`."""
        found: list[tuple[ast.stmt, str]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [(node, f"{'.' * node.level}{node.module or ''}.{alias.name}") for alias in node.names]
        return found

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What each imported local name stands for."""
        names = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names.update({alias.asname: alias.name for alias in node.names if alias.asname})
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        return names

    def dotted(self, node: ast.expr) -> str:
        """The full name that an expression such as `os.kill` stands for, "" if it is no plain name."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            left = self.dotted(node.value)
            return f"{left}.{node.attr}" if left else ""
        return ""


def tracked(root: Path = ROOT) -> list[str]:
    """The repository's files, those not yet added among them; without git, all that are not of some tool."""
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    if (root / ".git").exists():
        listed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()
        return sorted({name for name in listed.split("\0") if name and (root / name).is_file()})
    names = []
    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if not name.startswith(".") and name not in {"__pycache__", "build", "dist"}]
        names += [str(Path(directory, name).relative_to(root)) for name in files]
    return sorted(names)


def modules(root: Path = ROOT) -> list[Module]:
    """Every Python file of the product and its tests."""
    return [
        Module(name, (root / name).read_text(encoding="utf-8"))
        for name in tracked(root)
        if name.endswith(".py") and name.split("/")[0] in {"questlined", "qlctl", "tests"}
    ]


def arrows(module: Module) -> Iterator[str]:
    """Inside questlined, imports point one way."""
    if module.package != "questlined" or not module.place:
        return
    here = module.place
    if here not in LAYERS and here not in EVERYWHERE:
        yield f"{module.path}:1: {here} has no place in the house (LAYERS)"
        return
    for node, name in module.imports:
        parts = name.split(".")
        if parts[0] == "questlined" and len(parts) > 1 and not _may_know(here, parts[1]):
            yield module.at(node, f"{here} may not import questlined.{parts[1]}")


def _may_know(here: str, there: str) -> bool:
    if there == here or there not in LAYERS.keys() | EVERYWHERE:  # such as questlined.__version__
        return True
    if here in EVERYWHERE:
        return False
    if there in EVERYWHERE:
        return LAYERS[here] > LAYERS["core"]
    return LAYERS[there] < LAYERS[here] or LAYERS[there] == LAYERS[here] == TOP


def client(module: Module) -> Iterator[str]:
    """qlctl imports questlined.wire and the standard library; questlined never imports qlctl."""
    for node, name in module.imports:
        top, *rest = name.split(".")
        if module.package == "questlined" and top == "qlctl":
            yield module.at(node, "questlined may not import qlctl")
        if module.package == "qlctl" and top == "questlined" and rest[:1] != ["wire"]:
            yield module.at(node, f"qlctl may not import {name}")
        if module.package == "qlctl" and _third_party(top):
            yield module.at(node, f"qlctl may not import {top}")


def lean(module: Module) -> Iterator[str]:
    """wire and core import nothing but the standard library; wire nothing costly, core nothing impure."""
    if module.package != "questlined" or module.place not in {"wire", "core"}:
        return
    refused = COSTLY if module.place == "wire" else IMPURE
    for node, name in module.imports:
        top = name.split(".")[0]
        if top in refused or (_third_party(top) and not _owns(module, top)):
            yield module.at(node, f"{module.place} may not import {top}")


def owners(module: Module) -> Iterator[str]:
    """Every dependency and every dangerous call has one place where it is used."""
    if module.package == "tests":
        return
    for node, name in module.imports:
        for owned in OWNERS:
            if (name == owned or name.startswith(f"{owned}.")) and not _owns(module, owned):
                yield module.at(node, f"{owned} is not imported here")
    for reference in ast.walk(module.tree):
        if isinstance(reference, ast.Attribute):
            name = module.dotted(reference)
            if name in OWNERS and not _owns(module, name):
                yield module.at(reference, f"{name} is not used here")


def tasks(module: Module) -> Iterator[str]:
    """A task is started in a task group: a loop's own create_task would leave it to nobody."""
    for node in ast.walk(module.tree):
        if module.package == "tests" or not isinstance(node, ast.Attribute) or node.attr != "create_task":
            continue
        receiver = ast.unparse(node.value)
        if re.search(r"loop(\(\))?$", receiver) and module.path != "questlined/app.py":
            yield module.at(node, f"{receiver}.create_task: use a TaskGroup")


def statements(module: Module) -> Iterator[str]:
    """SQL stands in .sql files; the sqlite package itself may steer transactions and pragmas."""
    inside = module.path.startswith("questlined/store/sqlite/")
    if module.package == "tests":
        return
    prose = {id(docstring) for docstring in _docstrings(module.tree)}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
            continue
        if _STATEMENT.match(node.value) or (not inside and _CONTROL.match(node.value)):
            yield module.at(node, f"SQL in a string: {node.value.strip()[:40]!r}")


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def length(module: Module) -> Iterator[str]:
    """A module of more than LINES_MAX lines wants splitting."""
    lines = module.text.count("\n")
    if lines > LINES_MAX:
        yield f"{module.path}:{LINES_MAX}: {lines} lines"


def naming(module: Module) -> Iterator[str]:
    """A name says what is inside."""
    for part in module.path.removesuffix(".py").split("/"):
        if VAGUE.fullmatch(part):
            yield f"{module.path}:1: {part!r} says nothing"


def sleeps(module: Module) -> Iterator[str]:
    """A test waits for what happens, never for time to pass."""
    if module.package != "tests" or module.path.startswith("tests/bench/"):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "sleep":
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                if isinstance(argument, ast.Constant) and isinstance(argument.value, int | float) and argument.value:
                    yield module.at(node, f"{ast.unparse(node)} in a test")


def top_level(names: Iterable[str]) -> Iterator[str]:
    """The root of the repository holds what people look for there, and dot-files."""
    for name in sorted({name.split("/")[0] for name in names}):
        if name not in TOP_NAMES and not name.startswith("."):
            yield f"{name}: not at the top of the repository"


def references(name: str, content: bytes) -> Iterator[str]:
    """The repository stands alone: no file points at what lies around it on one machine."""
    for number, line in enumerate(content.split(b"\n"), 1):
        for place in ELSEWHERE:
            if place.encode() in line:
                yield f"{name}:{number}: refers to {place}"


def _third_party(top: str) -> bool:
    return top not in sys.stdlib_module_names and top not in {"questlined", "qlctl"}


def _owns(module: Module, name: str) -> bool:
    return any(
        module.path.startswith(owner) if owner.endswith("/") else module.path == owner for owner in OWNERS.get(name, ())
    )


RULES = (arrows, client, lean, owners, tasks, statements, length, naming, sleeps)
