"""A reload is whole or nothing, whatever it meets on its way."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from questlined.config.load import Loaded, load
from questlined.core.limits import Limits
from questlined.operations import reloading
from questlined.operations.context import Caller, Context
from questlined.operations.reloading import Reload, Reloader, reload
from questlined.signals import Signals
from questlined.sysd.notify import Notifier
from questlined.wire.errors import ConfigInvalid, PermissionDenied, StoreFull, Unavailable
from tests.integration.store.scene import until
from tests.support.parts import Parts, parts


class Scene:
    """A reloader on real parts, and all that it tells others."""

    def __init__(self, folder: Path, made: Parts) -> None:
        self.file = folder / "questlined.toml"
        self.file.write_text("max_attempts = 1\n")
        self.made, self.ctx = made, made.context()
        made.runtime.config = self.ctx.config = load([self.file]).config
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(folder / "notify"))
        self.manager.setblocking(False)
        self.said = list[str]()
        self.asked = asyncio.Event()
        self.again: Callable[[], Loaded] = lambda: load([self.file])
        self.notifier = Notifier({"NOTIFY_SOCKET": str(folder / "notify")})
        self.reloader = Reloader(
            replace(load([self.file]), again=self._again),
            made.runtime,
            self.ctx,
            self.notifier,
            self.asked,
            find_group=lambda group: None if group is None else 7,
            admit=lambda group: self.said.append(f"admit {group}"),
            woken=lambda: self.said.append("woken"),
        )

    def _again(self) -> Loaded:
        return replace(self.again(), again=self._again)

    def told(self) -> list[str]:
        """What systemd was told, by the first field of each message."""
        found = []
        try:
            while True:
                found.append(self.manager.recv(4096).decode().split("\n")[0])
        except BlockingIOError:
            return found

    def unchanged(self) -> bool:
        """Whether all goes by the first configuration."""
        return self.made.runtime.config is self.ctx.config and self.ctx.config.max_attempts == 1

    def close(self) -> None:
        self.manager.close()
        self.notifier.close()
        self.ctx.directories.close()


def on_scene(folder: Path, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with parts(folder) as made:
            scene = Scene(folder, made)
            try:
                await story(scene)
            finally:
                scene.close()

    asyncio.run(run())


def test_everybody_goes_by_the_new_one_and_is_told(tmp_path: Path) -> None:
    """systemd between its two messages, the server of its admins, those that wait of a chance."""

    async def story(scene: Scene) -> None:
        scene.file.write_text('max_attempts = 2\nadmin_group = "adm"\n')
        assert (await scene.reloader.reload()).changed == ("admin_group", "max_attempts")
        assert scene.made.runtime.config is scene.ctx.config
        assert scene.ctx.config.max_attempts == 2
        assert scene.said == ["admit 7", "woken"]
        assert scene.told() == ["RELOADING=1", "READY=1"]

    on_scene(tmp_path, story)


def test_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.file.write_text("max_attempts = 2\nmax_atempts = 2\n")
        with pytest.raises(ConfigInvalid):
            await scene.reloader.reload()
        assert scene.unchanged()
        assert scene.said == []
        assert scene.told() == ["RELOADING=1", "READY=1"]

    on_scene(tmp_path, story)


def test_a_store_that_takes_nothing_now_keeps_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share of the configuration is what it was, so must the rest be. Later the same reload is done."""

    async def story(scene: Scene) -> None:
        scene.file.write_text("max_attempts = 2\n")

        async def refuse(_limits: Limits, _lanes: object) -> None:
            raise StoreFull("the disk is full", hint="")

        with monkeypatch.context() as full:
            full.setattr(type(scene.made.runtime.store), "configure", lambda _, *given: refuse(*given))
            with pytest.raises(StoreFull):
                await scene.reloader.reload()
        assert scene.unchanged()
        assert (await scene.reloader.reload()).changed == ("max_attempts",)

    on_scene(tmp_path, story)


def test_a_disk_that_hangs_is_waited_for_so_long_and_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop goes on meanwhile, and the next reload is not kept by it."""
    monkeypatch.setattr(reloading, "READ_S", 0.05)
    go = threading.Event()

    async def story(scene: Scene) -> None:
        def hang() -> Loaded:
            go.wait()
            return load([scene.file])

        scene.again, right = hang, scene.again
        try:
            with pytest.raises(Unavailable, match="could not be read within"):
                await scene.reloader.reload()
            assert scene.unchanged()
            scene.again = right
            monkeypatch.setattr(reloading, "READ_S", 30.0)
            scene.file.write_text("max_attempts = 2\n")
            assert (await scene.reloader.reload()).changed == ("max_attempts",)
        finally:
            go.set()

    on_scene(tmp_path, story)


def test_many_hang_ups_are_one_reload_or_two(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One that is under way may have read too early for the last of them. A wrong file is one error each."""

    async def story(scene: Scene) -> None:
        scene.file.write_text("max_atempts = 2\n")
        following = scene.made.runtime.aside(scene.reloader.follow_signals())
        for _ in range(100):
            scene.asked.set()
        await until(lambda: "READY=1" in scene.told())
        for _ in range(100):
            await asyncio.sleep(0)
        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        assert len(errors) == 1
        assert "did you mean max_attempts?" in errors[0].getMessage()
        following.cancel()

    on_scene(tmp_path, story)


def test_a_hang_up_that_comes_before_anything_can_reload_is_done_later(tmp_path: Path) -> None:
    """The start read its files before, and it may take long."""

    async def story(scene: Scene) -> None:
        signals = Signals(in_terminal=False)
        scene.file.write_text("max_attempts = 2\n")
        os.kill(os.getpid(), signal.SIGHUP)
        await until(signals.hangup.is_set)
        scene.reloader._asked = signals.hangup
        following = scene.made.runtime.aside(scene.reloader.follow_signals())
        await until(lambda: scene.ctx.config.max_attempts == 2)
        following.cancel()

    on_scene(tmp_path, story)


def test_a_daemon_that_stops_reloads_nothing_and_does_not_say_ready(tmp_path: Path) -> None:
    """Be it asked before or after."""
    go, reached = threading.Event(), threading.Event()

    async def story(scene: Scene) -> None:
        def slow() -> Loaded:
            reached.set()
            go.wait()
            return load([scene.file])

        scene.again = slow
        under_way = scene.made.runtime.tasks.create_task(scene.reloader.reload())
        await until(reached.is_set)
        scene.reloader.end()
        go.set()
        await under_way
        assert scene.told() == ["RELOADING=1"]
        with pytest.raises(Unavailable, match="stopping"):
            await scene.reloader.reload()
        assert scene.told() == []

    on_scene(tmp_path, story)


def test_only_the_owner_may_reload(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(PermissionDenied):
            await ask(scene.ctx)

    async def ask(ctx: Context) -> None:
        await reload(ctx, Caller(uid=1000, gid=1000, pid=1, owner=False), Reload())

    on_scene(tmp_path, story)
