"""What is wrong with a configuration is refused with file, line, key and a suggestion."""

import pytest

from questlined.config.load import from_text
from questlined.wire.errors import ConfigInvalid


def refused(text):
    with pytest.raises(ConfigInvalid) as caught:
        from_text(text, "q.toml")
    error = caught.value
    assert error.details["file"] == "q.toml"
    assert error.message.startswith(f"q.toml:{error.details['line']}: ")
    assert error.hint
    return error


@pytest.mark.parametrize(
    ("text", "line", "key", "suggestion"),
    [
        ("\nheartbeet = 3", 2, "heartbeet", "heartbeat"),
        ("timeout = 3", 1, "timeout", "executor.timeout"),
        ("zzzzzz = 3", 1, "zzzzzz", None),
        ("[executor]\n\ntimout = 3", 3, "executor.timout", "executor.timeout"),
        ("[executors.build]\nenv.sets.X = '1'", 2, "executors.build.env.sets", "executors.build.env.set"),
        ("[executor.build]\ntimeout = 3", 1, "executor.build", "executors.build"),
        ("[lane.web]\nslots = 2", 1, "lane", "lanes"),
        ("[lanes.web]\nslot = 2", 2, "lanes.web.slot", "lanes.web.slots"),
        ("bounds = { add_mny = 3 }", 1, "bounds.add_mny", "bounds.add_many"),
        ("[pipelines.x]", 1, "pipelines", None),
        ('executor.command = ["x", "{tsk}"]', 1, "executor.command", "{task}"),
        ('on_lease_loss = "requeu"', 1, "on_lease_loss", "requeue"),
        ('executor.isolation = "unt"', 1, "executor.isolation", "unit"),
        ('executor.protocol = "questline-jsonl"', 1, "executor.protocol", None),
    ],
)
def test_a_stranger_is_named_with_its_place_and_what_was_meant(text, line, key, suggestion):
    error = refused(text)
    assert (error.details["line"], error.details["key"], error.details["suggestion"]) == (line, key, suggestion)
    assert f": {key}: " in error.message
    assert suggestion is None or suggestion in error.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('lease_ttl = "soon"', "is no duration"),
        ("lease_ttl = true", "it is no duration"),
        ("lease_ttl = 0", "0 ms is below 100 ms"),
        ("executor.timeout = -1", "out of range"),
        ('max_attempts = "3"', "it is text, not a whole number"),
        ("max_attempts = 1.5", "it is a number, not a whole number"),
        ("max_attempts = true", "it is true or false, not a whole number"),
        ("max_attempts = -1", "-1 is below 0"),
        ("backoff_jitter = 1.5", "1.5 is above 1"),
        ("backoff_jitter = '1'", "it is text, not a number"),
        ("backoff_jitter = nan", "nan is no number"),
        ("executor = 3", "it is a whole number, not a table"),
        ("[[executor]]", "it is an array, not a table"),
        ("executors.build = 'x'", "it is text, not a table"),
        ("lanes.web.slots = {}", "it is a table, not a whole number"),
        ("executor.command = []", "it is empty"),
        ("executor.command = ['']", "it is empty"),
        ("executor.command = 'claude -p'", "it is text, not an array"),
        ("executor.command = ['x', 1]", "item 2 is a whole number, not text"),
        ('executor.command = ["x", "a\\u0000b"]', "item 2 holds a NUL"),
        ("executor.command = ['x', '{zzz}']", "unknown placeholder {zzz}"),
        ("executor.umask = 'rwx'", "no octal mode"),
        ("executor.umask = '0o7777'", "no octal mode"),
        ("executor.umask = 22", "decimal"),
        ("executor.keep_children = 'yes'", "it is text, not true or false"),
        ("executor.env.set = 'A=1'", "it is text, not a table"),
        ("executor.env.set.A = 1", "A is a whole number, not text"),
        ("executor.env.set.'A=' = '1'", "no name of a variable"),
        ("executor.env.pass = ['1A']", "no name of a variable"),
        ("executor.env.pass = 'A'", "it is text, not an array"),
        ("executor.env.credentials = 'key'", "it is text, not a table of variable = credential"),
        ("executor.env.credentials.A = 1", "A is a whole number, not text"),
        ("executor.env.credentials.'1A' = 'key'", "no name of a variable"),
        ("executor.env.credentials.A = '../key'", "A is no name of a credential"),
        ("executor.env.credentials.A = '..'", "A is no name of a credential"),
        ("executor.env.path = ''", "it is empty"),
        ("store.path = 'quests.sqlite'", "no absolute path"),
        ("disk.min_free_bytes = '1 apple'", "is no size"),
        ("disk.min_free_bytes = -1", "-1 bytes is below 0"),
        ("admin_group = 1979-05-27", "it is a date or time, not text"),
        ("executors.'a b'.external = true", "no well-formed role"),
        ("executors.'' = {}", "no well-formed role"),
        ("lanes.'-x'.slots = 2", "no well-formed lane"),
        ("scheduler.role_concurrency.'a/b' = 1", "no well-formed role"),
        ("scheduler.role_concurrency.build = '1'", "build: it is text"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(text, message):
    error = refused(text)
    assert message in error.message
    assert error.details["line"] == 1


@pytest.mark.parametrize(
    "text",
    ["executor.env.pass = ['API_KEY=s3cret']", "executor.env.set.'API_KEY=s3cret' = 'x'",
     "executor.env.credentials.'API_KEY=s3cret' = 'x'"],
)  # fmt: skip
def test_a_value_written_behind_a_variables_name_is_not_shown(text):
    """What is refused goes to the log."""
    error = refused(text)
    assert "'API_KEY=…' is no name of a variable" in error.message
    assert "env.set" in error.hint
    assert "s3cret" not in f"{error} {error.hint} {error.details}"


@pytest.mark.parametrize(
    "text",
    ["scheduler.max_concurrent = 0", "scheduler.project_concurrency = 0", "scheduler.role_concurrency = {build = 0}",
     "lanes.web.slots = 0"],
)  # fmt: skip
def test_a_concurrency_of_zero_names_pause(text):
    error = refused(text)
    assert "0 is below 1" in error.message
    assert "qlctl pause" in error.hint


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("heartbeat = 120", 1, "heartbeat"),
        ("lease_ttl = 120\nheartbeat = '2min'", 2, "heartbeat"),
        ("max_attempts = 1\nlease_ttl = 30", 2, "lease_ttl"),
    ],
)
def test_a_heartbeat_not_below_the_lease_is_refused(text, line, key):
    error = refused(text)
    assert (error.details["line"], error.details["key"]) == (line, key)
    assert "not below the lease_ttl" in error.message


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb = ", 2), ("a = 1\n\na = 2", 3), ("[executor\n", 1), ("umask = 022", 1), ('x = """\n\n', 2)],
)
def test_what_is_no_toml_is_refused_with_its_line(text, line):
    error = refused(text)
    assert "not TOML" in error.message
    assert error.details["line"] == line


@pytest.mark.parametrize(
    "value",
    [
        "9" * 5000,
        "-" + "9" * 5000,
        "0x" + "f" * 5000,
        "[" * 5000,
        "[" * 5000 + "]" * 5000,
        "{a=" * 5000 + "1" + "}" * 5000,
    ],
    ids=["digits", "minus", "hexadecimal", "open", "nested", "tables"],
)
@pytest.mark.parametrize(
    "key", ["max_attempts", "lease_ttl", "backoff_jitter", "disk.min_free_bytes", "executor.umask"]
)
def test_a_number_or_nesting_without_end_is_refused_with_its_line(key, value):
    error = refused(f"# one\n\n{key} = {value}\nmax_interruptions = 5\n")
    assert error.details["line"] == 3
    assert len(error.message) < 300
    assert error.message.rpartition(": ")[2]


def test_no_value_of_a_variable_is_in_any_error():
    for text in ("executor.env.set = { A = 'sesame', B = 1 }", 'executor.env.set = { A = "sesame\\u0000" }'):
        error = refused(text)
        assert "sesame" not in repr(error) + str(error.parameters())
