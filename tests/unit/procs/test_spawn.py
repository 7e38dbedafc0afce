"""Commands keep what they carry to themselves."""

from __future__ import annotations

from questlined.procs.spawn import Command


def test_a_command_shows_neither_arguments_nor_variables() -> None:
    command = Command(("agent", "-p", "S3CRET"), "/srv", {"API_KEY": "S3CRET", "HOME": "/"}, 0, 1, 2)
    shown = f"{command} {command!r}"
    assert "S3CRET" not in shown
    assert "API_KEY" not in shown
    assert "<2 variables>" in shown
    assert "'agent'" in shown
