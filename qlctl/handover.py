"""Hand a command over to questlined: what must work without a daemon, or needs heavy code, lives there."""

from __future__ import annotations

import os
import sys

import questlined.wire
from qlctl.options import GLOBALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from qlctl.options import Arguments


def handed_on(given: Arguments) -> list[str]:
    """The global options that stood before the verb, to stand behind it."""
    valued = {option.name for option in GLOBALS if option.metavar}
    pairs = [(name, value) for name, values in given.options.items() for value in values]
    return [part for name, value in pairs for part in ([name, value] if name in valued else [name])]


def run_questlined(arguments: list[str]) -> NoReturn:
    """Replace this process by questlined with these arguments, under the same interpreter."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(questlined.wire.__file__))))
    # -P: a folder named questlined in the directory one happens to stand in must not be taken for the program.
    # In a checkout of questlined that directory is where the program is.
    guard = [] if os.path.realpath(os.curdir) == root else ["-P"]
    os.execv(sys.executable, [sys.executable, *guard, "-m", "questlined", *arguments])
