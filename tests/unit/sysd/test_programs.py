"""Which commands systemd is to start: those of this installation, tried, and such as stay."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

import questlined
from questlined.sysd import programs
from questlined.sysd.machine import Account, Done, Machine
from questlined.sysd.rendering import exec_word
from questlined.wire.errors import Unavailable

CAROL = Account("carol", 1000, 1000, Path("/home/carol"))


def machine(answers: dict[str, Done]) -> Machine:
    """One where a program answers `--version` as it is said."""

    def run(argv: object, **_options: object) -> Done:
        assert isinstance(argv, list)
        return answers.get(argv[0], Done(127, "", f"{argv[0]}: Permission denied"))

    return Machine(run, CAROL, {})


def found(monkeypatch: pytest.MonkeyPatch, *paths: str) -> None:
    monkeypatch.setattr(programs, "candidates", lambda name: iter([[path] for path in paths]))


def test_the_first_that_is_of_this_version_and_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version, or one that the user may not read, is passed by."""
    found(monkeypatch, "/root/bin/q", "/usr/bin/q", "/opt/q")
    this = Done(0, f"questlined {questlined.__version__}\n", "")
    answers = {"/usr/bin/q": Done(0, "questlined 0.0.1\n", ""), "/opt/q": this}
    assert programs.find(machine(answers), CAROL) == {"questlined": ["/opt/q"], "qlctl": ["/opt/q"]}


def test_none_that_the_user_can_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With who, what, why."""
    found(monkeypatch, "/root/bin/questlined")
    with pytest.raises(Unavailable, match=r"carol cannot run .*/root/bin/questlined: Permission denied") as refused:
        programs.find(machine({}), CAROL)
    assert "/opt/questlined" in refused.value.hint


VANISHING = ["/tmp/v/bin/questlined", "/var/tmp/q", "/run/q", "/dev/shm/q", "/home/carol/.cache/uv/x/bin/questlined"]


@pytest.mark.parametrize("path", VANISHING)
def test_a_place_that_vanishes_is_refused(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    found(monkeypatch, path)
    with pytest.raises(Unavailable, match="will vanish"):
        programs.find(machine({path: Done(0, f"questlined {questlined.__version__}", "")}), CAROL)


def test_the_interpreter_is_the_last_resort_and_takes_nothing_from_where_it_stands() -> None:
    assert list(programs.candidates("qlctl"))[-1] == [sys.executable, "-P", "-m", "qlctl"]


def test_scripts_of_another_copy_are_not_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The metadata that comes first on the path may be that of any; ours is the one whose code this is."""
    package = tmp_path / "lib/site-packages"
    for path in (
        package / "questlined/__init__.py",
        package / "questlined-1.dist-info/METADATA",
        tmp_path / "bin/qlctl",
    ):
        path.parent.mkdir(parents=True)
        path.write_text("Metadata-Version: 2.1\nName: questlined\nVersion: 1\n")
    (package / "questlined-1.dist-info/RECORD").write_text("../../bin/qlctl,,\nquestlined/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(package))
    script = [str(tmp_path / "bin/qlctl")]
    assert script not in list(programs.candidates("qlctl"))
    monkeypatch.setattr(questlined, "__file__", str(package / "questlined/__init__.py"))
    assert next(iter(programs.candidates("qlctl"))) == script


WORDS = ["/opt/q", "/home/a b/q", '/x"y', "/100%", "/a\\b", "/d$r"]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_a_unit_is_read_back_as_it_was(word: str) -> None:
    """systemd's quoting is like a shell's here, but for the percent sign."""
    assert shlex.split(exec_word(word).replace("%%", "%")) == [word]
