"""The packaged units as texts: complete, alike where they can be, and such that systemd takes them without a word."""

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[3] / "units"
KINDS = ("user", "system")
PROGRAMS = {"/usr/bin/questlined", "/usr/bin/qlctl"}
NAMES = {
    "questlined.service",
    "questlined.socket",
    "questline.slice",
    "questline-recurring@.service",
    "questlined-backup.service",
    "questlined-backup.timer",
}


def settings(kind, name):
    """{(section, key): value}; of a key that comes more than once, the values in a row."""
    unit = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=False)
    unit.optionxform = str
    text = re.sub(r"(?m)^(\w+)=(.*)\n((?:\1=.*\n)+)", _joined, (UNITS / kind / name).read_text())
    unit.read_string(text)
    return {(section, key): value for section in unit.sections() for key, value in unit[section].items()}


def _joined(found):
    more = re.sub(rf"(?m)^{found[1]}=", "", found[3]).replace("\n", " ")
    return f"{found[1]}={found[2]} {more.strip()}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_every_unit_is_there_and_names_no_program_but_ours(kind):
    """Those two names, once a line, are what install replaces."""
    assert {path.name for path in (UNITS / kind).iterdir()} == NAMES
    for name in NAMES:
        lines = [value for (_, key), value in settings(kind, name).items() if key.startswith("Exec")]
        assert {line.split()[0] for line in lines} <= PROGRAMS
        assert all(line.count("/usr/bin/") == 1 for line in lines)


def test_the_system_service_differs_from_the_users_where_it_must():
    user, system = settings("user", "questlined.service"), settings("system", "questlined.service")
    differing = {key for key in user | system if user.get(key) != system.get(key)}
    assert differing == {
        ("Unit", "After"),
        ("Service", "User"),
        ("Service", "RuntimeDirectory"),  # it would take the socket from its group
        ("Service", "RuntimeDirectoryMode"),
        ("Service", "RuntimeDirectoryPreserve"),
        ("Service", "StateDirectory"),  # a user's is elsewhere than where a daemon in a terminal looks
        ("Service", "StateDirectoryMode"),
        ("Service", "CapabilityBoundingSet"),
        ("Service", "LogRateLimitBurst"),  # a user's service has no limit of its own
        ("Install", "WantedBy"),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_daemon_has_time_to_end_its_children(kind):
    service = settings(kind, "questlined.service")
    assert int(service["Service", "TimeoutStopSec"]) > 5 + 10  # the ladder's grace, and what comes after it
    assert service["Service", "RestartPreventExitStatus"] == "78"  # ConfigInvalid


@pytest.mark.parametrize("kind", KINDS)
def test_clients_in_units_speak_to_the_socket_that_the_socket_unit_makes(kind):
    path = settings(kind, "questlined.socket")["Socket", "ListenStream"]
    for name, key in [
        ("questlined.service", "ExecReload"),
        ("questline-recurring@.service", "ExecStart"),
        ("questlined-backup.service", "ExecStart"),
    ]:
        assert settings(kind, name)["Service", key].startswith(f"/usr/bin/qlctl --socket={path} ")


def complaints(kind, texts, folder):
    """What systemd-analyze says about the units. It exits 0 on unknown keys, so only silence is good."""
    program = shutil.which("true")
    files = []
    for name, text in texts.items():
        file = folder / name.replace("@.", "@r-0123456789ab.")
        file.write_text(re.sub("/usr/bin/(questlined|qlctl)", program, text))
        files.append(str(file))
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "SYSTEMD_LOG_LEVEL": "warning"}
    command = ["systemd-analyze", "verify", "--man=no", f"--{kind}", *files]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    return done.stderr if done.returncode == 0 else done.stderr or f"exit {done.returncode}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("kind", KINDS)
def test_systemd_has_nothing_to_say_about_them(kind, tmp_path):
    """It has about a word that it does not know."""
    texts = {name: (UNITS / kind / name).read_text() for name in NAMES}
    assert complaints(kind, texts, tmp_path) == ""
    bad = texts | {"questlined.service": texts["questlined.service"].replace("OOMPolicy", "OOMPolizy")}
    assert "OOMPolizy" in complaints(kind, bad, tmp_path)
