"""README's way on a machine with systemd, pasted as it is by an ordinary user: from nothing to a finished quest, its
journal and a nightly timer, and the queue brought back from a copy as questline(7) tells.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import page, plain, section
from tests.support.readme import README, marked
from tests.systemd.lab import Lab


@pytest.fixture(scope="module")
def paul(lab: Lab) -> str:
    """A user who has followed README to the end of its chapter on services."""
    name = lab.user("paul")
    lab.write(f"{lab.home(name)}/.config/questlined/questlined.toml", marked("config"), user=name)
    pasted(lab, name, marked("service"))
    return name


def pasted(lab: Lab, user: str, script: str) -> str:
    """What the commands say that a user pastes into a shell, each of which succeeds."""
    return lab.run("bash", "-euo", "pipefail", "-c", script, user=user).stdout


def quests(lab: Lab, user: str) -> list[Any]:
    """The user's quests, newest first."""
    listed: list[Any] = json.loads(lab.run(lab.qlctl, "list", "--all-projects", "--json", user=user).stdout)
    return listed


def units_of(lab: Lab, user: str) -> set[str]:
    """Names of the unit files in the user's own directory."""
    return {path.name for path in Path(f"{lab.root}{lab.home(user)}/.config/systemd/user").rglob("questline*")}


def test_a_quest_is_done_and_the_journal_has_its_story(lab: Lab, paul: str) -> None:
    (quest,) = quests(lab, paul)
    assert (quest["task"], quest["state"]) == ("date", "done")

    def story() -> list[str]:
        told = [record["QUESTLINE_EVENT"] for record in lab.journal(f"QUESTLINE_ID={quest['id']}", user=paul)]
        return told if told[-1:] == ["completed"] else []

    assert lab.until(story, "its story")[0] == "claimed"


def test_the_nightly_timer_waits_for_half_past_three_in_berlin(lab: Lab, paul: str) -> None:
    (timer,) = [name for name in units_of(lab, paul) if re.fullmatch(r"questline-recurring@r-\w+\.timer", name)]
    shown = lab.show(timer, "ActiveState", "NextElapseUSecRealtime", "UnitFileState", user=paul)
    assert (shown["ActiveState"], shown["UnitFileState"]) == ("active", "enabled")
    assert shown["NextElapseUSecRealtime"] != ""
    lab.systemctl("start", timer.replace(".timer", ".service"), user=paul)
    assert len(quests(lab, paul)) == 1  # it woke before it was due


def test_installing_again_changes_nothing(lab: Lab, paul: str) -> None:
    def written() -> dict[str, tuple[int, str]]:
        folder = Path(f"{lab.root}{lab.home(paul)}/.config/systemd/user")
        return {path.name: (path.stat().st_mtime_ns, path.read_text()) for path in folder.glob("questline*")}

    before = written()
    pasted(lab, paul, "questlined install --user")
    assert written() == before


def test_attempts_as_units_are_had_by_what_is_shown(lab: Lab, paul: str) -> None:
    """A file beside the others, read by a reload: the next attempt is in the slice, and in its sandbox."""
    lab.write(f"{lab.home(paul)}/.config/questlined/questlined.toml.d/unit.toml", marked("unit"), user=paul)
    look = "cat /proc/self/cgroup; findmnt --noheadings --output OPTIONS --target /usr"
    said = pasted(lab, paul, f"cd questline-trial && qlctl reload && qlctl add shell '{look}' --wait")
    assert "reloaded: " in said
    assert re.search(r"/questline\.slice/questline-attempt-q-\w+-1\.service$", said, re.MULTILINE)
    assert re.search(r"^ro\b", said, re.MULTILINE)


def test_a_copy_brings_the_queue_back_as_the_manual_says(lab: Lab, paul: str) -> None:
    """What came after the copy is gone, what was before is there."""
    before = quests(lab, paul)
    copy = json.loads(lab.run(lab.qlctl, "backup", "--json", user=paul).stdout)["path"]
    pasted(lab, paul, "cd questline-trial && qlctl add shell date --wait")
    recipe = plain(section(page("questline.7"), "BACKUP").split(".Bd -literal -offset indent\n")[1].split("\n.Ed")[0])
    steps = re.sub(r"backups/\S+", f"backups/{Path(copy).name}", recipe)
    assert steps != recipe
    pasted(lab, paul, f"set -x; {steps}")
    assert quests(lab, paul) == before


def test_what_was_installed_goes_and_the_queue_stays_for_a_daemon_without_systemd(lab: Lab, paul: str) -> None:
    """Last, as it ends the service: both ways out of README's table, and the one back in."""
    had = quests(lab, paul)
    pasted(lab, paul, "qlctl timer remove nightly && qlctl uninstall --user")
    assert units_of(lab, paul) == set()
    start, end = re.findall(r"^\| no systemd \| `(.*?)`, and `(.*?)` \|$", README, re.MULTILINE)[0]
    said = pasted(lab, paul, f"{start} >&2; qlctl list --all-projects --json; {end}")
    assert json.loads(said) == had
    state = f"{lab.root}{lab.home(paul)}/.local/state/questlined"
    lab.until(lambda: Path(f"{state}/questlined.pid").read_text() == "", "the end of the daemon")
