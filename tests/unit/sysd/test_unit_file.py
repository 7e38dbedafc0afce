"""The user unit is one that systemd takes without a word, and says what the daemon relies on."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[3] / "units/user/questlined.service"
PROGRAM = "%h/.local/bin/questlined"


def complaints(text, tmp_path):
    """What systemd-analyze says about a unit's text. It exits 0 on unknown keys, so only silence is good."""
    rendered = tmp_path / UNIT.name
    rendered.write_text(text)
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_LOG_LEVEL": "warning"}
    command = ["systemd-analyze", "verify", "--man=no", "--user", str(rendered)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    return done.stderr if done.returncode == 0 else done.stderr or f"exit {done.returncode}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_has_nothing_to_say_about_it(tmp_path):
    text = UNIT.read_text()
    assert text.count(f"ExecStart={PROGRAM}\n") == 1
    good = text.replace(PROGRAM, shutil.which("true"))
    assert complaints(good, tmp_path) == ""
    assert "OOMPolizy" in complaints(good.replace("OOMPolicy", "OOMPolizy"), tmp_path)


def test_it_says_what_the_daemon_relies_on():
    unit = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None)
    unit.optionxform = str
    unit.read_string(UNIT.read_text())
    service = dict(unit["Service"])
    assert service["Type"] == "notify"
    assert service["KillMode"] == "mixed"  # else SIGTERM hits agents before the daemon's own ladder
    assert service["OOMPolicy"] == "continue"
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == "78"  # ConfigInvalid
    assert int(service["TimeoutStopSec"]) > 5 + 10
    assert int(service["WatchdogSec"]) == 60
    assert not [key for key in service if key.endswith("Directory")]
    assert unit["Install"]["WantedBy"] == "default.target"
