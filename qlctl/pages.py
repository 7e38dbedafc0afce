"""Lists that come in pages: asked for until there are enough, or no more."""

from __future__ import annotations

from qlctl.values import integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from qlctl.client import Client
    from qlctl.options import Arguments

USUAL = 30
PAGE_MAX = 1000  # the daemon refuses more at a time


def collect(
    client: Client, method: str, parameters: dict[str, object], key: str, given: Arguments, usual: int | None = USUAL
) -> tuple[list[Any], str | None]:
    """Up to --limit items under `key`, from --cursor on, and the cursor of what follows, None at the end.

    Without --limit there are `usual` ones, or all there are if that is None.
    """
    limit = given.text("--limit")
    left = usual if limit is None else integer("--limit", limit, least=1)
    items: list[Any] = []
    cursor = given.text("--cursor")
    while True:
        page = client.call(method, {**parameters, **_window(left, cursor)})
        items += page[key]
        left = None if left is None else left - len(page[key])
        cursor = page.get("next")
        if cursor is None or not page[key] or (left is not None and left <= 0):
            return items, cursor


def _window(limit: int | None, cursor: str | None) -> dict[str, object]:
    """The parameters of a page, absent ones left out."""
    window: dict[str, object] = {"limit": limit and min(limit, PAGE_MAX), "cursor": cursor}
    return {name: value for name, value in window.items() if value is not None}
