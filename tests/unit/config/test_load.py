"""Files are laid over the defaults and over each other, key by key; roles inherit from the common executor."""

import os

import pytest

from questlined.config.load import from_text, load, load_from
from questlined.config.shape import Variables
from questlined.wire.errors import ConfigInvalid


def test_everything_that_can_be_set_arrives_typed():
    config = from_text("""
        lease_ttl = "2min"
        heartbeat = 0.5
        backoff_jitter = 0
        on_lease_loss = "fail"
        store.path = "~/q.sqlite"
        socket_mode = 0o660
        admin_group = "adm"
        scheduler = { max_concurrent = 7, role_concurrency = { build = 3 }, project_concurrency = 4 }
        disk.min_free_bytes = "1M"
        bounds.add_many = 10
        lanes.web.slots = 2
        lanes.db = {}
    """)
    assert (config.lease_ttl_ms, config.heartbeat_ms, config.backoff_jitter) == (120_000, 500, 0.0)
    assert (config.on_lease_loss, config.store_path) == ("fail", os.path.expanduser("~/q.sqlite"))
    assert (config.socket_mode, config.admin_group, config.min_free_bytes) == (0o660, "adm", 1024**2)
    assert (config.max_concurrent, config.role_concurrency, config.project_concurrency) == (7, {"build": 3}, 4)
    assert (config.bounds.add_many, config.lanes) == (10, {"web": 2, "db": 1})


def test_a_role_inherits_what_it_does_not_say():
    config = from_text("""
        [executor]
        command = ["sh", "-c", "{task}"]
        umask = "077"
        idle_timeout = "5min"
        env.set = { A = "1", B = "2" }
        env.pass = ["X"]
        [executors.build]
        timeout = "1h"
        idle_timeout = "off"
        env.set.B = "3"
        env.pass = ["Y"]
        [executors.review]
    """)
    build, review = config.for_role("build"), config.for_role("review")
    assert (build.command, build.umask, build.timeout_ms) == (("sh", "-c", "{task}"), 0o077, 3_600_000)
    assert (build.idle_timeout_ms, build.env_set, build.env_pass) == (None, {"A": "1", "B": "3"}, ("Y",))
    assert review == config.executor == config.for_role("another")
    assert review.idle_timeout_ms == 300_000
    assert sorted(config.executors) == ["build", "review"]


def test_braces_that_are_no_placeholder_are_text():
    command = ["jq", "{a: 1}", "{}", "{{task}}", "{TASK}", '{"x":{}}']
    assert from_text(f"executor.command = {command}").executor.command == tuple(command)


def test_later_files_win_key_by_key_and_the_origin_is_kept(tmp_path):
    first, second = tmp_path / "1.toml", tmp_path / "2.toml"
    first.write_text('max_attempts = 2\nbackoff_base = 1\nexecutor.env.set = { A = "1", B = "1" }\n'
                     "scheduler.role_concurrency = { a = 1, b = 1 }")  # fmt: skip
    second.write_text('max_attempts = 3\nexecutor.env.set.B = "2"\nscheduler.role_concurrency.b = 2')
    loaded = load([first, str(second)])
    config = loaded.config
    assert (config.max_attempts, config.backoff_base_ms, config.role_concurrency) == (3, 1000, {"a": 1, "b": 2})
    assert config.executor.env_set == {"A": "1", "B": "2"}
    assert loaded.origin["max_attempts"] == str(second)
    assert loaded.origin["backoff_base"] == str(first)
    assert "lease_ttl" not in loaded.origin
    assert loaded.files == (str(first), str(second))


def test_a_heartbeat_is_checked_against_a_lease_from_another_file(tmp_path):
    first, second = tmp_path / "1.toml", tmp_path / "2.toml"
    first.write_text("heartbeat = 20")
    second.write_text("lease_ttl = 10")
    with pytest.raises(ConfigInvalid, match="not below") as caught:
        load([first, second])
    assert caught.value.details["file"] == str(first)


def test_variables_print_as_their_number():
    config = from_text('executor.env.set = { A = "sesame", B = "sesame" }\nexecutors.x.env.set.C = "sesame"')
    shown = f"{config} {config!r} {config.executors} {config.executor.env_set}"
    assert "sesame" not in shown
    assert "<2 variables>" in shown
    assert "<3 variables>" in shown
    assert repr(Variables({"A": "x"})) == "<1 variable>"
    assert dict(config.executor.env_set) == {"A": "sesame", "B": "sesame"}


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read: No such file"), (b"a = 1\nb = '\xff'", ":2: it is not UTF-8")]
)
def test_a_chosen_file_has_to_be_there_and_to_be_text(tmp_path, content, message):
    file = tmp_path / "q.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigInvalid, match=message) as caught:
        load_from({"QUESTLINED_CONFIG": str(file), "HOME": str(tmp_path)})
    assert caught.value.details["file"] == str(file)


def test_a_directory_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_from({"HOME": str(tmp_path)}, explicit=str(tmp_path))


def test_the_usual_files_are_read_in_order_and_a_foreign_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    directory = tmp_path / "questlined"
    (directory / "questlined.toml.d").mkdir(parents=True)
    (directory / "questlined.toml").write_text("max_attempts = 2")
    (directory / "questlined.toml.d" / "20.toml").write_text("max_attempts = 4")
    (directory / "questlined.toml.d" / "10.toml").write_text("max_attempts = 3\nmax_interruptions = 1")
    (directory / "questlined.toml.d" / "30.conf").write_text("rubbish")
    (tmp_path / ".questline").mkdir()
    (tmp_path / ".questline" / "config.json").write_text("{}")
    loaded = load_from({"HOME": str(tmp_path)}, uid=1000)
    assert (loaded.config.max_attempts, loaded.config.max_interruptions, len(loaded.files)) == (4, 1, 3)
    (warning,) = loaded.warnings
    assert str(tmp_path / ".questline" / "config.json") in warning
    assert warning.endswith(", ignoring")


def test_without_any_file_the_defaults_hold(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    loaded = load_from({"HOME": str(tmp_path)}, uid=1000)
    assert (loaded.config, loaded.files, loaded.warnings, loaded.origin) == (from_text(""), (), (), {})
