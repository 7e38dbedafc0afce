"""Dependencies: AND-gates inside one project, without cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str] | None:
    """One cycle of `quest → its dependencies` as a closed path (first = last), or None. No recursion."""
    done: set[str] = set()
    for root in edges:
        if root in done:
            continue
        path: list[str] = [root]
        on_path = {root}
        pending = [iter(edges[root])]
        while pending:
            step = next(pending[-1], None)
            if step is None:
                pending.pop()
                left = path.pop()
                on_path.discard(left)
                done.add(left)
            elif step in on_path:
                return [*path[path.index(step) :], step]
            elif step in edges and step not in done:
                path.append(step)
                on_path.add(step)
                pending.append(iter(edges[step]))
    return None
