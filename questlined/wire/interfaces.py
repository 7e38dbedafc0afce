"""The Varlink interface files, as text. They are the contract; tests hold the code against them."""

from __future__ import annotations

import os

DIRECTORY = os.path.dirname(__file__)
NAMES = (
    "org.varlink.service",
    "io.questline",
    "io.questline.Quests",
    "io.questline.Leases",
    "io.questline.Projects",
    "io.questline.Recurrences",
    "io.questline.Manager",
)


def description(name: str) -> str:
    """The text of one interface. Raises KeyError for one we do not have."""
    if name not in NAMES:
        raise KeyError(name)
    with open(f"{DIRECTORY}/{name}.varlink", encoding="utf-8") as file:
        return file.read()
