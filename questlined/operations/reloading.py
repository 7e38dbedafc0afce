"""Reload: the configuration is read again and checked whole before anything of the old one is dropped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from questlined.attempts.runtime import Runtime
from questlined.config.compare import Reloaded, reloaded
from questlined.config.kinds import Wrong
from questlined.config.load import Loaded
from questlined.operations.context import Caller, Changing, Context, Reply
from questlined.sysd.notify import Notifier
from questlined.wire.errors import ConfigInvalid, InvalidInput, QuestlineError, Unavailable

log = logging.getLogger(__name__)
READ_S = 30.0


class Reload(Changing, frozen=True, kw_only=True):
    """Parameters of Reload. Nothing is kept for the requestId: a repeated call finds nothing changed."""


class ReloadReply(Reply, frozen=True, kw_only=True):
    """Answer of Reload."""

    files: tuple[str, ...]
    changed: tuple[str, ...]
    restart: tuple[str, ...]
    warnings: tuple[str, ...]


async def reload(ctx: Context, caller: Caller, _request: Reload) -> ReloadReply:
    """Read the configuration again; the answer comes when it counts. Raises ConfigInvalid, and the old one stays."""
    caller.must_own("reload the configuration")
    done = await ctx.daemon.reload()
    return ReloadReply(files=done.files, changed=done.changed, restart=done.restart, warnings=done.warnings)


def group_of(loaded: Loaded, find: Callable[[str | None], int | None]) -> int | None:
    """The number of the admin group. May block. Raises ConfigInvalid where this machine has none of that name."""
    try:
        return find(loaded.config.admin_group)
    except InvalidInput as error:
        raise loaded.refusal(("admin_group",), Wrong(error.message, hint=error.hint)) from None


class Reloader:
    """The configuration that runs, and its replacement. One reload at a time; the next reads again.

    `asked` is set by SIGHUP: any number of them before `follow_signals` comes round are one. `find_group` gives a
    group's number and may block, `admit` makes its members owners, `woken` lets what waits look at the new settings."""

    def __init__(
        self,
        loaded: Loaded,
        runtime: Runtime,
        ctx: Context,
        notifier: Notifier,
        asked: asyncio.Event,
        *,
        find_group: Callable[[str | None], int | None],
        admit: Callable[[int | None], None],
        woken: Callable[[], None],
    ) -> None:
        self._loaded, self._runtime, self._ctx, self._notifier, self._asked = loaded, runtime, ctx, notifier, asked
        self._find_group, self._admit, self._woken = find_group, admit, woken
        self._one_at_a_time = asyncio.Lock()
        self._ended = False

    def end(self) -> None:
        """The daemon winds down: nothing is reloaded any more, nor is a reload under way told to systemd."""
        self._ended = True

    async def follow_signals(self) -> None:
        """Reload for each SIGHUP. Nobody waits for an answer, so the log has it."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                done = await self.reload()
            except QuestlineError as error:
                fields = {"QUESTLINE_EVENT": "config_refused"}
                log.error("the configuration stays as it was: %s (%s)", error, error.hint, extra={"fields": fields})
            else:
                for warning in done.warnings:
                    log.warning("%s", warning)

    async def reload(self) -> Reloaded:
        """Read, check, apply. Raises ConfigInvalid, Unavailable, StoreFull; then all is as it was."""
        async with self._one_at_a_time:
            if self._ended:
                raise Unavailable(
                    "the daemon is stopping", hint="its next start reads the configuration", retryAfterMs=5000
                )
            self._notifier.reloading(self._runtime.clock.monotonic_ms() * 1000)
            try:
                return await self._replace()
            finally:
                if not self._ended:
                    self._notifier.ready()

    async def _replace(self) -> Reloaded:
        try:
            async with asyncio.timeout(READ_S):
                found, group = await self._ctx.directories.do(self._read)
        except TimeoutError:
            raise Unavailable(
                f"the configuration could not be read within {READ_S:.0f} s",
                hint="does its disk answer? try again when it does",
                retryAfterMs=30_000,
            ) from None
        loaded, done = reloaded(self._loaded, found)
        await self._apply(loaded)
        self._loaded = loaded
        self._admit(group)
        self._woken()
        said = f"changed: {', '.join(done.changed)}" if done.changed else "nothing changed"
        if done.restart:
            said += f"; only a restart changes: {', '.join(done.restart)}"
        log.info("the configuration was reloaded; %s", said, extra={"fields": {"QUESTLINE_EVENT": "config_reloaded"}})
        return done

    def _read(self) -> tuple[Loaded, int | None]:
        if self._loaded.again is None:
            raise ConfigInvalid("this daemon was started without files", hint="start it with a configuration")
        found = self._loaded.again()
        return found, group_of(found, self._find_group)

    async def _apply(self, loaded: Loaded) -> None:
        """Let it count: for what is claimed and asked for from now on. Attempts that run keep their executor."""
        before, config = self._runtime.config, loaded.config
        # In one turn with the store's share: what was claimed before comes before it there, what comes later after it.
        self._runtime.config = self._ctx.config = config
        try:
            await self._runtime.store.configure(config.limits, config.lanes)
        except BaseException:
            self._runtime.config = self._ctx.config = before
            raise
