"""`questlined install` from a copy that pip installed, on a real systemd: to a finished quest, and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import REPOSITORY, SHELL
from tests.systemd.lab import INSIDE, Lab

UNITS = ["questlined.socket", "questlined.service", "questlined-backup.timer"]
VENV = "/opt/pipped"  # not below /tmp, from where nothing is installed


@pytest.fixture(scope="module")
def installed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the programs of a copy that was installed from a wheel; what it depends on comes from the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(REPOSITORY)]
    made = subprocess.run(build, capture_output=True, text=True, timeout=120)
    if made.returncode:
        if os.environ.get("QUESTLINE_TEST_SYSTEMD") == "1":
            pytest.fail(f"no wheel: {made.stderr}", pytrace=False)
        pytest.skip(f"no wheel can be built here: {made.stderr.strip()[-300:]}")
    (wheel,) = folder.glob("*.whl")
    Path(f"{lab.root}/opt/{wheel.name}").write_bytes(wheel.read_bytes())
    lab.run(lab.python, "-m", "venv", "--without-pip", VENV)
    pip = [lab.python, "-m", "pip", "--python", f"{VENV}/bin/python"]
    lab.run(*pip, "install", "--quiet", "--no-index", "--no-deps", f"/opt/{wheel.name}")
    (packages,) = Path(f"{lab.root}{VENV}/lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{INSIDE}/site\n{INSIDE}/platform\n")
    return f"{VENV}/bin"


class Person:
    """An ordinary user who types commands of the installed copy."""

    def __init__(self, lab: Lab, name: str, programs: str) -> None:
        self.lab, self.name, self.programs = lab, lab.user(name), programs
        self.home = lab.home(name)
        self.config = f"{self.home}/.config/questlined/questlined.toml"
        self.types("sh", "-c", 'mkdir -p "$HOME/project" "$HOME/.config/questlined"')
        self.types("sh", "-c", 'cat >"$1"', "sh", self.config, input=SHELL)

    def types(self, *argv: str, **options: object) -> subprocess.CompletedProcess[str]:
        """Run a command in the project's directory, or at home before that is there."""
        path = {"PATH": f"{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin"}
        return self.lab.run(*argv, user=self.name, env=path, **options)  # type: ignore[arg-type]

    def adds(self, task: str, *options: str) -> str:
        """A quest of the project that has ended; its id."""
        quest = self.types(
            "qlctl", "add", "--print-id", *options, "--", task, cwd=f"{self.home}/project"
        ).stdout.strip()
        self.types("qlctl", "wait", quest)
        return quest

    def files(self) -> str:
        """Each unit file with its time and size."""
        find = 'find "$HOME/.config/systemd" -printf "%p %T@ %s %l\n" | sort'
        return self.types("sh", "-c", find).stdout


@pytest.fixture(scope="module")
def ines(lab: Lab, installed: str) -> Iterator[Person]:
    """She has installed it, for herself."""
    person = Person(lab, "ines", installed)
    first = person.types("questlined", "install", "--user")
    assert "questlined runs, and will at every boot" in first.stdout, first
    yield person
    person.types("questlined", "uninstall", "--user")


def test_a_quest_is_done_and_its_unit_is_the_one_that_was_installed(ines: Person) -> None:
    """By the program that pip installed, in a service that starts at boot, and told in the journal."""
    quest = ines.adds("echo done by $(id -un)")
    shown = json.loads(ines.types("qlctl", "show", quest, "--json").stdout)
    assert (shown["quest"]["state"], shown["quest"]["result"]) == ("done", "done by ines\n")
    ines.lab.until(lambda: ines.lab.journal(f"QUESTLINE_ID={quest}", user="ines"), "its story")  # after the end
    service = ines.lab.show("questlined.service", "FragmentPath", "ActiveState", "ExecStart", user="ines")
    assert service["FragmentPath"] == f"{ines.home}/.config/systemd/user/questlined.service"
    assert f"path={VENV}/bin/questlined " in service["ExecStart"]
    enabled = ines.lab.systemctl("is-enabled", *UNITS, user="ines").stdout.split()
    assert enabled == ["enabled"] * len(UNITS)


def test_a_second_install_changes_nothing_and_drop_ins_stay(ines: Person) -> None:
    """Neither a file nor the daemon that runs."""
    drop_in = "$HOME/.config/systemd/user/questlined.service.d"
    ines.types("sh", "-ec", f'mkdir -p "{drop_in}"; printf "[Service]\nNice=5\n" >"{drop_in}/nice.conf"')
    ines.lab.systemctl("daemon-reload", user="ines")
    before = (ines.files(), ines.lab.show("questlined.service", "MainPID", user="ines"))
    for program in ("questlined", "qlctl"):
        assert "nothing was changed" in ines.types(program, "install", "--user").stdout
    assert (ines.files(), ines.lab.show("questlined.service", "MainPID", user="ines")) == before


def test_an_edited_unit_is_not_overwritten(ines: Person) -> None:
    """The refusal names the file and the remedy, and the daemon goes on."""
    unit = f"{ines.home}/.config/systemd/user/questlined.service"
    original = ines.types("cat", unit).stdout
    ines.types("sh", "-c", 'echo "Nice=5" >>"$1"', "sh", unit)
    try:
        before = ines.files()
        refused = ines.types("questlined", "install", "--user", check=False)
        assert refused.returncode == 1
        assert f"{unit} was edited" in refused.stderr
        assert "drop-in" in refused.stderr
        assert ines.files() == before
        assert ines.types("qlctl", "health").returncode == 0
    finally:
        ines.types("sh", "-c", 'cat >"$1"', "sh", unit, input=original)


def test_the_backup_unit_makes_a_copy_with_the_quests_in_it(ines: Person) -> None:
    """As the timer starts it; the newest seven stay."""
    quest = ines.adds("true")
    ines.lab.systemctl("start", "questlined-backup.service", user="ines")
    copies = ines.types("sh", "-c", 'ls "$HOME"/.local/state/questlined/backups/*').stdout.split()
    look = (
        "import sqlite3, sys; print([row[0] for row in sqlite3.connect(sys.argv[1]).execute('SELECT id FROM quests')])"
    )
    assert quest in ines.types("python", "-c", look, copies[-1]).stdout


def test_uninstall_leaves_the_queue_and_the_configuration(lab: Lab, installed: str) -> None:
    """Units and links are gone, systemd knows none of them; the next install goes on with the same quests."""
    person = Person(lab, "jara", installed)
    person.types("questlined", "install", "--user")
    quest = person.adds("echo kept")
    told = person.types("questlined", "uninstall", "--user").stdout
    assert f"{person.home}/.local/state/questlined" in told
    assert "lingering stays" in told
    assert person.types("find", f"{person.home}/.config/systemd", "-not", "-type", "d").stdout == ""
    assert {lab.show(unit, "LoadState", user="jara")["LoadState"] for unit in UNITS} == {"not-found"}
    assert person.types("qlctl", "list", check=False).returncode == 69
    assert "nothing of an install" in person.types("questlined", "uninstall", "--user").stdout
    person.types("questlined", "install", "--user")
    assert json.loads(person.types("qlctl", "show", quest, "--json").stdout)["quest"]["result"] == "kept\n"
    person.types("questlined", "uninstall", "--user")


def test_an_install_without_a_user_manager_says_how_to_get_one(lab: Lab, installed: str) -> None:
    """`su` alone gives none; nothing is written."""
    lab.run("useradd", "--create-home", "kim")
    bare = ["runuser", "-u", "kim", "--", "env", "-i", "HOME=/home/kim", "PATH=/usr/bin:/bin"]
    refused = lab.run(*bare, f"{installed}/questlined", "install", "--user", "--no-linger", check=False)
    assert refused.returncode == 75
    assert "/run/user/" in refused.stderr
    assert "loginctl enable-linger kim" in refused.stderr
    assert not Path(f"{lab.root}/home/kim/.config").exists()


def test_the_system_service_runs_as_the_user_who_was_named(lab: Lab, installed: str) -> None:
    """Its quests are that user's; who is in the group may add some, and others may not."""
    lena, mona, nora = (Person(lab, name, installed) for name in ("lena", "mona", "nora"))
    config = Path(f"{lab.root}/etc/questlined/questlined.toml")
    config.parent.mkdir(exist_ok=True)
    config.write_text(SHELL)
    program = f"{installed}/questlined"
    asked = lab.run(program, "install", "--system", check=False, env={"SUDO_USER": "lena"})
    assert (asked.returncode, "--run-as lena" in asked.stderr) == (2, True)
    lab.run("mkdir", "/home/mona/.claude")
    told = lab.run(program, "install", "--system", "--run-as", "lena", env={"SUDO_USER": "mona"}).stdout
    try:
        assert "logged in as mona (~/.claude), and not as lena" in told
        assert "nothing was changed" in lab.run(program, "install", "--system", "--run-as", "lena").stdout
        lab.run("usermod", "--append", "--groups", "questline", "mona")
        lab.run("chmod", "0755", lena.home)
        quest = mona.types("qlctl", "add", "--print-id", "id -un", cwd=f"{lena.home}/project").stdout.strip()
        mona.types("qlctl", "wait", quest)
        assert json.loads(mona.types("qlctl", "show", quest, "--json").stdout)["quest"]["result"] == "lena\n"
        assert nora.types("qlctl", "list", check=False).returncode == 77
        lab.systemctl("start", "questlined-backup.service")
    finally:
        removed = lab.run(program, "uninstall", "--system").stdout
    assert "/var/lib/questlined, /etc/questlined, the user questline with its group" in removed
    assert lab.show("questlined.service", "LoadState") == {"LoadState": "not-found"}
    assert Path(f"{lab.root}/var/lib/questlined/quests.sqlite").exists()
