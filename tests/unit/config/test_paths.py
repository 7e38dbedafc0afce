"""Where state, socket and configuration are, for a person, for root and for a system service."""

from pathlib import Path

import pytest

from questlined.config.paths import config_files, listen_path, state_directory, unread_files
from questlined.wire.errors import InvalidInput

SERVICE = {"STATE_DIRECTORY": "/var/lib/questlined:/var/lib/other", "RUNTIME_DIRECTORY": "/run/questlined"}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"QUESTLINED_STATE": "/srv/q/", **SERVICE}, "/srv/q"),
        (SERVICE, "/var/lib/questlined"),
        ({**SERVICE, "MANAGERPID": "812"}, None),
        ({"STATE_DIRECTORY": ""}, None),
        ({}, None),
    ],
)
def test_the_state_directory_is_the_chosen_one_the_services_or_the_users(environ, path, home):
    assert state_directory(environ) == (Path(path) if path else home / ".local/state/questlined")


def test_a_relative_state_directory_is_made_absolute(home, monkeypatch):
    monkeypatch.chdir(home)
    assert state_directory({"QUESTLINED_STATE": "here"}) == home / "here"


@pytest.mark.parametrize(
    ("environ", "explicit", "path"),
    [
        ({"QUESTLINED_SOCKET": "/b", **SERVICE}, "/a", "/a"),
        ({"QUESTLINED_SOCKET": "/b", "XDG_RUNTIME_DIR": "/run/user/1", **SERVICE}, None, "/b"),
        ({"XDG_RUNTIME_DIR": "/run/user/1", **SERVICE}, None, "/run/questlined/questlined.sock"),
        ({"XDG_RUNTIME_DIR": "/run/user/1", "MANAGERPID": "8", **SERVICE}, None,
         "/run/user/1/questlined/questlined.sock"),
        ({"XDG_RUNTIME_DIR": "/run/user/1"}, None, "/run/user/1/questlined/questlined.sock"),
        ({"XDG_RUNTIME_DIR": ""}, None, "/state/questlined.sock"),
        ({}, None, "/state/questlined.sock"),
    ],
)  # fmt: skip
def test_the_socket_is_the_chosen_one_the_services_the_users_or_in_the_state_directory(environ, explicit, path):
    assert listen_path(environ, "/state", explicit) == path


def test_a_path_that_no_socket_address_holds_is_refused():
    assert listen_path({}, "/s", "/" + "x" * 106) == "/" + "x" * 106
    for state, explicit in (("/s", "/" + "x" * 107), ("/" + "y" * 100, None), ("/s", "/\u20ac" * 30)):
        with pytest.raises(InvalidInput, match="holds 107") as caught:
            listen_path({}, state, explicit)
        assert caught.value.details["field"] == "socket"
        assert "--socket" in caught.value.hint


def test_a_chosen_configuration_is_read_alone_whether_it_exists_or_not(home):
    (home / ".config/questlined").mkdir(parents=True)
    (home / ".config/questlined/questlined.toml").touch()
    assert config_files({"QUESTLINED_CONFIG": "/no/b.toml"}, "/no/a.toml", 1000) == [Path("/no/a.toml")]
    assert config_files({"QUESTLINED_CONFIG": "/no/b.toml"}, None, 1000) == [Path("/no/b.toml")]
    assert config_files({}, None, 1000) == [home / ".config/questlined/questlined.toml"]


@pytest.mark.parametrize(("environ", "uid"), [({}, 0), (SERVICE, 990)])
def test_root_and_the_system_service_read_the_systems_configuration(environ, uid, home, monkeypatch):
    monkeypatch.setattr("questlined.config.paths.SYSTEM_CONFIG", home / "etc")
    (home / "etc/questlined.toml.d").mkdir(parents=True)
    (home / "etc/questlined.toml.d/a.toml").touch()
    own = home / ".config/questlined/questlined.toml"
    own.parent.mkdir(parents=True)
    own.touch()
    assert config_files(environ, None, uid) == [home / "etc/questlined.toml.d/a.toml"]
    (warning,) = unread_files({"HOME": str(home), **environ}, None, uid)
    assert str(own) in warning
    assert unread_files({"HOME": str(home), **environ}, str(own), uid) == []


def test_what_may_not_be_looked_at_is_left_to_the_reader_who_complains(home):
    config = home / ".config/questlined"
    config.parent.mkdir()
    config.symlink_to(config)  # a loop: neither absent nor readable, for root too
    assert config_files({}, None, 1000) == [config / "questlined.toml", config / "questlined.toml.d"]
