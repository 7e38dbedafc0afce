"""A throw-away systemd with the code under test inside, and a daemon in it as people would have one."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.support.daemon import SHELL
from tests.systemd import machine
from tests.systemd.furnishing import INSIDE, PATH, PYTHON, QLCTL, QUESTLINED, compile_once, furnish, mounts, packaged
from tests.systemd.machine import LabError

T = TypeVar("T")
LOOK_EVERY_S = 0.05
UP_S = 30.0


class Lab:
    """A lab that is up until `close`, or until this process ends, however it does.

    The code under test and the packages of the interpreter that runs the tests are mounted read-only below INSIDE,
    with a Python environment of their own: `python`, `questlined` and `qlctl` are paths in there.
    """

    questlined, qlctl, python = QUESTLINED, QLCTL, PYTHON

    def __init__(self) -> None:
        machine.check()
        self.name = f"questline-{secrets.token_hex(4)}"
        compile_once()
        holder = [sys.executable, "-P", str(Path(__file__).with_name("systemd-lab")), "hold", "--name", self.name]
        self._holder = subprocess.Popen(
            [*holder, *(f"--bind-ro={host}:{lab}" for host, lab in mounts().items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the tests
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "up\n":
            raise LabError(self._holder.communicate()[1].strip())
        self.traces = machine.traces(machine.leader_of(self.name))
        self._users: dict[str, int] = {}
        self._prepare()

    @property
    def root(self) -> Path:
        """The lab's root directory seen from here: follow no absolute link in it."""
        return Path(f"/proc/{machine.leader_of(self.name)}/root")

    def close(self) -> None:
        """Power off. What of it is left on this machine after that is a fault: `left` tells."""
        self._holder.communicate()

    def left(self) -> list[str]:
        """Mounts, processes and cgroups of this lab."""
        return machine.left(self.name, self.traces)

    def run(
        self,
        *argv: str,
        user: str | None = None,
        check: bool = True,
        input: str | None = None,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
        timeout_s: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the lab and give what it said; as `user` like in a login of theirs, else as root.

        Fails on a status other than 0 with `check`, and after `timeout_s`, when the program is killed.
        """
        with self.start(*argv, user=user, env=env, cwd=cwd, stdin=input is not None) as process:
            try:
                out, err = process.communicate(input, timeout_s)
            except subprocess.TimeoutExpired as late:
                os.killpg(process.pid, signal.SIGKILL)
                raise AssertionError(f"{shlex.join(argv)}: not over after {timeout_s} s\n{late.output!r}") from late
        done = subprocess.CompletedProcess(argv, process.returncode, out, err)
        assert not check or done.returncode == 0, f"{shlex.join(argv)}: {done.returncode}\n{out}\n{err}"
        return done

    def start(
        self,
        *argv: str,
        user: str | None = None,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
        stdin: bool = True,
    ) -> subprocess.Popen[str]:
        """A program in the lab that is not waited for: a context manager, with pipes to and from it."""
        as_user = ["runuser", "-u", user, "--"] if user else []
        return subprocess.Popen(
            machine.inside(self.name, [*as_user, "env", "-C", cwd or self.home(user), *argv]),
            env={**self.environ(user), **env},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def reboot(self) -> None:
        """Reboot the lab: what is enabled runs again, and users are there without a login."""
        before = machine.leader_of(self.name)
        self.run("systemctl", "reboot", check=False)
        self.until(lambda: self._leader_other_than(before), "the lab boots again")
        self.until(lambda: self._state() in {"running", "degraded"}, "it is up")

    def _state(self) -> str:
        return self.run("systemctl", "is-system-running", "--wait", check=False).stdout.strip()

    def _leader_other_than(self, before: int) -> bool:
        try:
            return machine.leader_of(self.name) != before
        except LabError:
            return False

    def environ(self, user: str | None) -> dict[str, str]:
        """What a program finds in its environment, nothing of the caller's."""
        name = user or "root"
        base = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": self.home(user), "USER": name, "LOGNAME": name, "TERM": "dumb"}
        if user is None:
            return base
        runtime = f"/run/user/{self._users[user]}"
        return base | {"XDG_RUNTIME_DIR": runtime, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}

    def home(self, user: str | None) -> str:
        """A user's home directory."""
        return f"/home/{user}" if user else "/root"

    def user(self, name: str) -> str:
        """Make an ordinary user with lingering, once; the name. Their manager is up."""
        if name not in self._users:
            self.run("useradd", "--create-home", "--shell", "/bin/bash", name)
            uid = int(self.run("id", "-u", name).stdout)
            self.run("loginctl", "enable-linger", name)
            self.run("systemctl", "start", f"user@{uid}.service")
            self._users[name] = uid
        return name

    def uid(self, user: str) -> int:
        """The number of a user that `user` made."""
        return self._users[user]

    def systemctl(
        self, *arguments: str, user: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Speak to the system's manager, or to the user's."""
        return self.run("systemctl", *(["--user"] if user else []), *arguments, user=user, check=check)

    def show(self, unit: str, *properties: str, user: str | None = None) -> dict[str, str]:
        """Properties of a unit, all of them without names."""
        wanted = [f"--property={','.join(properties)}"] if properties else []
        lines = self.systemctl("show", *wanted, unit, user=user).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def journal(self, *matches: str, user: str | None = None) -> list[dict[str, str]]:
        """The journal's records for `FIELD=value` matches or options of journalctl, with all their fields."""
        self.run("journalctl", "--sync")
        whose = ["--user"] if user else []
        said = self.run("journalctl", *whose, "--output=json", "--all", "--no-pager", "--quiet", *matches, user=user)
        return [json.loads(line) for line in said.stdout.splitlines()]

    def until(self, probe: Callable[[], T | None], what: str, timeout_s: float = 20) -> T:
        """What `probe` gives once it gives something true. Fails naming `what` was waited for.

        No event crosses the border of a lab, so this looks again and again.
        """
        pause = threading.Event()
        for _ in range(int(timeout_s / LOOK_EVERY_S)):
            found = probe()
            if found:
                return found
            pause.wait(LOOK_EVERY_S)
        raise AssertionError(f"{what}: not within {timeout_s} s")

    def write(self, path: str, text: str, *, user: str | None = None, mode: int = 0o644) -> str:
        """Make a file of the user's, with its directories; its path."""
        script = 'mkdir -p "${1%/*}" && cat >"$1" && chmod "$2" "$1"'
        self.run("sh", "-c", script, "sh", path, f"{mode:o}", user=user, input=text)
        return path

    def daemon(self, user: str, config: str = SHELL, *, unit: str = "") -> LabDaemon:
        """The packaged user units, started for that user on an empty state; `unit` is a drop-in for the service."""
        return LabDaemon(self, self.user(user), config, unit)

    def pytest(
        self,
        *arguments: str,
        user: str | None = None,
        delegate: bool = False,
        check: bool = True,
        env: Mapping[str, str] = {},
    ) -> subprocess.CompletedProcess[str]:
        """Run the checkout's pytest in a transient unit, of the user's manager where one is named."""
        unit = ["systemd-run", *(["--user"] if user else []), "--quiet", "--wait", "--pipe", "--collect"]
        unit += [f"--property=Delegate={'yes' if delegate else 'no'}", f"--working-directory={INSIDE}/checkout"]
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_STORAGE_DIRECTORY": f"/tmp/hypothesis-{user}"}
        unit += [f"--setenv={name}={value}" for name, value in {"PATH": PATH, **quiet, **env}.items()]
        # systemd-run exits 0 when its command dies of SIGTERM; sh tells of it. It expands $ in what it is given.
        command = ["sh", "-c", '"$@"; exit $?', "sh", self.python, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return self.run(
            *unit, "--", *(word.replace("$", "$$") for word in command), user=user, check=check, timeout_s=200
        )

    def _prepare(self) -> None:
        """Python's environment and programs, and a journal on the disk, which alone has parts that users may read."""
        furnish(self.root)
        journal = (
            "mkdir -p /var/log/journal && systemd-tmpfiles --create --prefix=/var/log/journal && journalctl --flush"
        )
        self.run("sh", "-ec", f"ldconfig -X; {journal}")


class LabDaemon:
    """A daemon of a lab's user: questlined.service and questlined.socket of their manager."""

    def __init__(self, lab: Lab, user: str, config: str, unit: str) -> None:
        self.lab, self.user = lab, user
        home = lab.home(user)
        self.project, self.state = f"{home}/project", f"{home}/.local/state/questlined"
        self.socket = f"/run/user/{lab.uid(user)}/questlined/questlined.sock"
        self.config = f"{home}/.config/questlined/questlined.toml"
        units = f"{home}/.config/systemd/user"
        self.drop_ins = f"{units}/questlined.service.d"
        lab.systemctl("stop", "questlined.service", "questlined.socket", user=user, check=False)
        lab.systemctl("reset-failed", user=user)
        lab.run("rm", "-rf", self.state, self.project, self.drop_ins, user=user)
        lab.run("mkdir", self.project, user=user)
        lab.write(self.config, config, user=user)
        for name, text in packaged("user").items():
            lab.write(f"{units}/{name}", text, user=user)
        if unit:
            lab.write(f"{self.drop_ins}/lab.conf", unit, user=user)
        lab.systemctl("daemon-reload", user=user)
        self.start()

    def start(self) -> None:
        """systemctl start: it is READY. Fails with what it said."""
        done = self.systemctl("start", "questlined.socket", "questlined.service", check=False)
        assert done.returncode == 0, f"{done.stderr}\n{self.log()}"

    def log(self) -> str:
        """What the daemon and systemd said of it, for people."""
        records = self.lab.journal("_SYSTEMD_USER_UNIT=questlined.service", "+", "USER_UNIT=questlined.service")
        return "\n".join(record["MESSAGE"] for record in records if record["_UID"] == str(self.lab.uid(self.user)))

    @property
    def pid(self) -> int:
        """The daemon's pid in the lab, 0 where it does not run."""
        return int(self.show("MainPID")["MainPID"])

    def systemctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Speak to the user's manager."""
        return self.lab.systemctl(*arguments, user=self.user, check=check)

    def show(self, *properties: str) -> dict[str, str]:
        """Properties of questlined.service."""
        return self.lab.show("questlined.service", *properties, user=self.user)

    def restart(self) -> None:
        """systemctl restart: it is READY again."""
        self.systemctl("restart", "questlined.service")

    def stop(self) -> None:
        """systemctl stop: the next client starts it again."""
        self.systemctl("stop", "questlined.service")

    def kill(self) -> None:
        """kill -9 of the daemon alone; it returns at once."""
        self.systemctl("kill", "--kill-who=main", "--signal=KILL", "questlined.service")

    def qlctl(
        self, *arguments: str, check: bool = True, stdin: str | None = None, cwd: str | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run qlctl as the user, in the project's directory."""
        there = cwd or self.project
        return self.lab.run(self.lab.qlctl, *arguments, user=self.user, check=check, input=stdin, cwd=there, env=env)

    def json(self, *arguments: str, **options: Any) -> Any:
        """Run qlctl --json and give what it printed."""
        return json.loads(self.qlctl(*arguments, "--json", **options).stdout)

    def add(self, task: str, *options: str) -> str:
        """Add a quest; its id."""
        return self.qlctl("add", "--print-id", *options, "--", task).stdout.strip()
