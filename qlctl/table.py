"""Which module has which verb, and one line about each. Modules are imported when their verb is typed."""

from __future__ import annotations

VERBS = {
    "add": ("add", "add a quest to the queue, or many from a file"),
    "list": ("listing", "quests of this project, newest first"),
    "show": ("show", "everything about one quest"),
    "events": ("journal", "state changes of a quest or of the project"),
    "runs": ("journal", "the attempts of a quest"),
    "why": ("why", "why a quest does not run yet"),
    "wait": ("wait", "wait until quests have ended"),
    "follow": ("follow", "what a quest writes, as it comes, to its end"),
    "logs": ("logs", "what an attempt has written so far"),
    "run": ("run", "run a quest now, in the foreground"),
    "cancel": ("steer", "stop quests, running or not"),
    "retry": ("steer", "queue ended, interrupted or blocked quests again"),
    "edit": ("edit", "change a quest that waits"),
    "block": ("steer", "keep quests out of the queue until a person decides"),
    "pause": ("pausing", "start no more quests of this project"),
    "resume": ("pausing", "undo pause"),
    "recurring": ("recurring", "quests that come again, at the times of a clock"),
    "timer": ("timer", "systemd timers that wake the daemon for them"),
    "health": ("health", "whether all is well with the daemon and the queue"),
    "reload": ("reload", "have the daemon read its configuration again"),
    "reexec": ("reexec", "replace the running daemon by the installed one; quests go on"),
    "backup": ("backup", "copy the queue to a file, while work goes on"),
    "version": ("version", "versions, the socket and the state directory"),
    "install": ("", "set up the systemd units: qlctl install --user"),
    "uninstall": ("", "remove what install wrote"),
    "demo": ("", "show the queue at work, in a daemon of its own"),
    "help": ("help", "help about qlctl or a verb"),
}

ALIASES = {"requeue": "retry", "stat": "list"}

# Verbs that questlined itself runs, with the arguments it is started with.
HANDED_OVER = {"install": ["install"], "uninstall": ["uninstall"], "demo": ["demo"], "daemon": []}
