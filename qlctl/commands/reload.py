"""reload: have the daemon read its configuration again."""

from __future__ import annotations

from qlctl.client import connect
from qlctl.options import Arguments, Command
from qlctl.output import print_json, say, warn
from qlctl.render.text import clean


def run(given: Arguments) -> int:
    """Reload; print what is different now. A wrong configuration is refused with its place, and changes nothing."""
    reply = connect(given).change("io.questline.Manager.Reload", {})
    if given.flag("--json"):
        print_json(reply)
        return 0
    warn(reply["warnings"])
    changed = reply["changed"]
    print(clean(f"reloaded: {', '.join(changed)}" if changed else "reloaded: nothing changed"))
    if reply["restart"]:
        say(clean(f"only a restart changes {', '.join(reply['restart'])}"), "until then the values of its start stay")
    return 0


COMMANDS = {
    "reload": Command(
        run,
        about="Have the daemon read its configuration again. A wrong one is refused and the old one stays. What runs "
        "keeps the executor it began with.",
    )
}
