"""The settings table fits the typed configuration it fills."""

import dataclasses

import pytest

from questlined.config.kinds import per_role
from questlined.config.load import from_text
from questlined.config.settings import BOUNDS, EXECUTOR, LANES, QUEUE, ROLES, SETTINGS, is_table, setting, siblings
from questlined.config.shape import Bounds, Config, Executor
from questlined.core.prompts import PLACEHOLDERS


def fields(cls):
    return {field.name for field in dataclasses.fields(cls)}


def test_every_field_has_one_setting():
    assert {row.field for row in EXECUTOR} == {row.field for row in ROLES} == fields(Executor)
    assert {row.field for row in BOUNDS} == fields(Bounds)
    assert {row.field for row in QUEUE} == fields(Config) - {"executor", "executors", "lanes", "bounds"}
    assert len({row.path for row in SETTINGS}) == len(SETTINGS)


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.key)
def test_every_setting_takes_its_own_default_and_says_what_it_is(row):
    assert row.doc.endswith(".")
    assert len(row.doc) > 15
    if row.default is not None:
        typed = row.read(row.default)
        if isinstance(typed, int | float):
            assert row.low <= typed <= row.high
    if row.off:
        assert row.read("off") is None
    if row.kind is not per_role:
        assert row.kind.__doc__


def test_the_defaults():
    config = from_text("")
    assert (config.lease_ttl_ms, config.heartbeat_ms, config.claim_lease_ms) == (120_000, 30_000, 1_800_000)
    assert (config.max_attempts, config.backoff_base_ms, config.backoff_cap_ms) == (1, 30_000, 3_600_000)
    assert (config.backoff_jitter, config.max_interruptions, config.on_lease_loss) == (0.1, 5, "requeue")
    assert (config.store_path, config.artifacts_dir, config.admin_group, config.socket_mode) == (None,) * 4
    assert (config.max_concurrent, config.role_concurrency, config.project_concurrency) == (2, {}, None)
    assert (config.executors, config.lanes, config.min_free_bytes) == ({}, {}, 512 * 1024**2)
    assert config.records_keep_ms == 7 * 24 * 3600 * 1000
    assert config.executor == Executor(
        command=("claude", "-p", "{task}"), protocol="text", stdin="null", output="pipe", umask=0o022,
        timeout_ms=900_000, first_output_timeout_ms=None, idle_timeout_ms=None, terminate_grace_ms=5_000,
        max_inline_output_bytes=262_144, output_preview_bytes=16_384, output_limit=1024**3, keep_children=False,
        external=False, env_set={}, env_pass=(), env_credentials={}, env_path=None, passthrough_home=True,
        isolation="process",
    )  # fmt: skip
    assert config.bounds == Bounds(4 * 1024**2, 256, 512, 512 * 1024, 1000, 5_000_000, 1000, 5000)


def test_a_chosen_name_stands_for_the_star():
    assert setting(("executors", "build", "timeout")).key == "executors.*.timeout"
    assert setting(("lanes", "a.b", "slots")) is LANES[0]
    assert setting(("executors", "build", "slots")) is None
    assert is_table(("executors", "build", "env"))
    assert not is_table(("executor", "timeout"))
    assert "timeout" in siblings(("executors", "build"))
    assert siblings(("executors",)) == set()


def test_every_placeholder_is_accepted():
    command = [f"{{{word}}}" for word in sorted(PLACEHOLDERS)]
    assert from_text(f"executor.command = {['x', *command]}").executor.command == ("x", *command)
