"""The table of classes is the documented one."""

from __future__ import annotations

from questlined.core.classes import CLASSES

DOCUMENTED = {
    ("done", True): {"ok"},
    ("retry", True): {
        *("failed", "timeout", "start_timeout", "idle", "protocol", "no_result", "verify", "output_limit", "oom"),
        *("context_overflow", "transient"),
    },
    ("block", True): {"max_turns", "refused"},
    ("block", False): {"budget", "blocked", "auth", "billing"},
    ("park", False): {"limit"},
    ("fail", False): {"bad_config"},
    ("cancel", False): {"cancelled"},
    ("interrupt", False): {"interrupted", "lost"},
    ("release", False): {"released"},
}


def test_each_class_goes_where_it_is_documented_to_go_at_the_documented_charge() -> None:
    """No class more, none less."""
    found: dict[tuple[str, bool], set[str]] = {}
    for name, rule in CLASSES.items():
        found.setdefault((rule.then, rule.charged), set()).add(name)
    assert found == DOCUMENTED
