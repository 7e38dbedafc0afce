"""questline(7) tells the states, classes and gates that there are: its diagram and tables are those of core/."""

from __future__ import annotations

import ast
import re

from questlined.core.classes import CLASSES
from questlined.core.gates import __file__ as GATES
from questlined.core.states import FINAL, NEXT, STATES
from tests.support.pages import page, plain, section

PAGE = page("questline.7")


def drawn(states: str) -> list[tuple[str, str, str]]:
    """(state, event, next state) of each arrow of the diagram."""
    picture = plain(states.split(".Bd -literal -offset indent\n")[1].split("\n.Ed", maxsplit=1)[0])
    arrows, state = [], ""
    for line in picture.splitlines():
        arrow = re.fullmatch(r"(\w*) +-- (\w+) -+> (\w+)", line)
        assert arrow, f"no arrow: {line}"
        state = arrow[1] or state
        arrows.append((state, arrow[2], arrow[3]))
    return arrows


def terms(text: str) -> list[str]:
    """The words that a section's list explains."""
    return re.findall(r"^\.It Cm (\S+)$", text, re.MULTILINE)


def test_the_diagram_has_the_moves_of_the_table_each_once() -> None:
    arrows = drawn(section(PAGE, "STATES"))
    assert sorted(arrows) == sorted((state, event, then) for (state, event), then in NEXT.items())
    order = [STATES.index(state) for state, _, _ in arrows if state not in FINAL]
    assert order == sorted(order)


def test_the_states_are_those_there_are() -> None:
    assert tuple(terms(section(PAGE, "STATES"))) == STATES


def test_of_final_states_only_done_is_left_by_nothing() -> None:
    """As the page says."""
    assert {state for state in FINAL if not any(source == state for source, _ in NEXT)} == {"done"}
    assert {event for source, event in NEXT if source in FINAL} == {"retry"}


def test_the_classes_are_those_there_are_with_charge_and_consequence() -> None:
    rows = re.findall(r"^\.It Cm (\w+) Ta (yes|no) Ta (\w+) Ta \S", section(PAGE, "CLASSES"), re.MULTILINE)
    assert rows == [(name, "yes" if rule.charged else "no", rule.then) for name, rule in CLASSES.items()]


def test_the_gates_are_those_there_are() -> None:
    with open(GATES) as source:
        tree = ast.parse(source.read())
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Gate"]
    gates = {node.args[0].value for node in made if isinstance(node.args[0], ast.Constant)}
    assert set(terms(section(PAGE, "GATES"))) == gates
