"""What a configuration that is read again changes at once, and what it would after a restart."""

from dataclasses import replace

from questlined.config.compare import reloaded
from questlined.config.load import load, load_from
from questlined.config.settings import QUEUE, SETTINGS


def read(folder, text):
    file = folder / "questlined.toml"
    file.write_text(text)
    return load([file])


def compared(folder, before, after):
    running, outcome = reloaded(read(folder, before), read(folder, after))
    return running.config, outcome


def test_what_differs_is_named_as_a_file_names_it_and_counts(tmp_path):
    config, outcome = compared(
        tmp_path,
        'executor.timeout = 60\nlanes.web.slots = 2\nexecutors."a.b".umask = "077"\nbounds.add_many = 7\nheartbeat = 3',
        'executor.timeout = 90\nlanes.web.slots = 3\nexecutors."a.b".umask = "027"\nbounds.add_many = 8\nheartbeat = 3',
    )
    assert outcome.changed == ("bounds.add_many", "executor.timeout", 'executors."a.b".umask', "lanes.web.slots")
    assert outcome.restart == ()
    assert outcome.files == (str(tmp_path / "questlined.toml"),)
    assert (config.executor.timeout_ms, config.lanes, config.bounds.add_many) == (90_000, {"web": 3}, 8)


def test_what_is_left_out_now_has_its_default_again(tmp_path):
    config, outcome = compared(tmp_path, 'admin_group = "adm"\nexecutors.build.timeout = 1\nlanes.web.slots = 2', "")
    assert outcome.changed == ("admin_group", "executors.build.timeout", "lanes.web.slots")
    assert config.admin_group is None


def test_a_file_that_is_gone_is_named_once(tmp_path):
    """Its settings count no more, and perhaps nobody meant that."""
    running, gone = read(tmp_path, "max_attempts = 2"), str(tmp_path / "questlined.toml")
    running, outcome = reloaded(running, replace(load([]), warnings=("another",)))
    assert outcome.changed == ("max_attempts",)
    assert outcome.warnings == (f"{gone} is not there any more: what it said counts no longer", "another")
    assert reloaded(running, load([]))[1].warnings == ()


def test_another_way_to_write_the_same_is_no_change(tmp_path):
    """Nor is a role that says what it inherits."""
    before = 'executor.timeout = "1min"\nexecutor.env.set = { A = "1", B = "2" }'
    after = "executor.timeout = 60\nexecutors.build.timeout = 60\nbackoff_base = 30\nlanes.web = {}\n"
    after += 'executor.env.set.B = "2"\nexecutor.env.set.A = "1"\nexecutor.env.pass = []'
    assert compared(tmp_path, before, after)[1].changed == ()


def test_what_only_a_restart_changes_keeps_its_value_and_is_named_until_then(tmp_path):
    running = read(tmp_path, 'store.path = "/a.sqlite"\nheartbeat = 5\nlease_ttl = 10')
    running, outcome = reloaded(running, read(tmp_path, 'store.path = "/b.sqlite"\nheartbeat = 20\nmax_attempts = 2'))
    assert (outcome.changed, outcome.restart) == (("max_attempts",), ("heartbeat", "lease_ttl", "store.path"))
    config = running.config
    assert (config.store_path, config.heartbeat_ms, config.lease_ttl_ms) == ("/a.sqlite", 5000, 10_000)
    running, outcome = reloaded(running, read(tmp_path, ""))
    assert (outcome.changed, outcome.restart) == (("max_attempts",), ("heartbeat", "lease_ttl", "store.path"))
    running, outcome = reloaded(running, read(tmp_path, 'store.path = "/a.sqlite"\nheartbeat = 5\nlease_ttl = 10'))
    assert (outcome.changed, outcome.restart) == ((), ())


def test_only_settings_of_the_whole_daemon_need_a_restart():
    """For what an executor or a lane has a reload is enough, else it would have to be kept by role."""
    assert {row.key for row in SETTINGS if not row.reload} <= {row.key for row in QUEUE}


def test_the_same_files_are_read_again_from_wherever_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.toml").write_text("max_attempts = 2")
    loaded = load_from({"QUESTLINED_CONFIG": "q.toml"})
    monkeypatch.chdir("/")
    (tmp_path / "q.toml").write_text("max_attempts = 3")
    again = loaded.again()
    assert (loaded.config.max_attempts, again.config.max_attempts) == (2, 3)
    assert again.again().config.max_attempts == 3
