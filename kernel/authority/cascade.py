"""In which order a change reaches the understandings below it (§8.4, ruling K12).

A pure plan over an adjacency that is handed in. Each affected understanding occurs once, after
all affected parents, and is at least as urgent as its most urgent descendant. Members of a cycle
have no order; they are left out and named. Beyond the depth cap a branch ends and is named.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

MAX_CASCADE_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Step:
    """One understanding to recompute; a lower rank is more urgent."""

    node_id: str
    depth: int
    rank: int


@dataclass(frozen=True, slots=True)
class CascadePlan:
    """The steps, parents before children, and what the plan had to leave out."""

    steps: tuple[Step, ...]
    cyclic: tuple[str, ...]
    beyond_cap: tuple[str, ...]


def plan_cascade(
    first: Iterable[str],
    dependents: Callable[[str], Iterable[str]],
    rank_of: Callable[[str], int],
) -> CascadePlan:
    """Plan the recomputation of `first` and of everything that depends on it."""
    first = list(first)
    if len(first) == 1 and not list(dependents(first[0])):
        # Most changes reach one understanding that feeds no other.
        return CascadePlan((Step(first[0], 1, rank_of(first[0])),), (), ())
    depths, children, beyond = _reach(first, dependents)
    order, cyclic = _parents_first(depths, children)
    ranks: dict[str, int] = {}
    for node in reversed(order):
        below = (ranks[child] for child in children[node] if child in ranks)
        ranks[node] = min((rank_of(node), *below))
    steps = tuple(Step(node, depths[node], ranks[node]) for node in order)
    return CascadePlan(steps, tuple(sorted(cyclic)), tuple(sorted(beyond)))


def _reach(
    first: Iterable[str], dependents: Callable[[str], Iterable[str]]
) -> tuple[dict[str, int], dict[str, list[str]], set[str]]:
    depths = dict.fromkeys(sorted(first), 1)
    children: dict[str, list[str]] = {}
    beyond: set[str] = set()
    level = list(depths)
    while level:
        following: list[str] = []
        for node in level:
            below = sorted(dependents(node))
            if depths[node] == MAX_CASCADE_DEPTH:
                beyond.update(child for child in below if child not in depths)
                below = [child for child in below if child in depths]
            children[node] = below
            for child in below:
                if child not in depths:
                    depths[child] = depths[node] + 1
                    following.append(child)
        level = following
    return depths, children, beyond


def _parents_first(
    depths: dict[str, int], children: dict[str, list[str]]
) -> tuple[list[str], set[str]]:
    waiting_for = dict.fromkeys(depths, 0)
    for below in children.values():
        for child in below:
            waiting_for[child] += 1
    ready = sorted(node for node, parents in waiting_for.items() if parents == 0)
    order: list[str] = []
    while ready:
        node = ready.pop(0)
        order.append(node)
        for child in children[node]:
            waiting_for[child] -= 1
            if waiting_for[child] == 0:
                ready.append(child)
    blocked = set(depths) - set(order)
    cyclic = _on_cycles(blocked, children)
    if not cyclic:
        return order, cyclic
    # Below a cycle there is an order again once the cycle itself is left out.
    rest = {node: depth for node, depth in depths.items() if node not in cyclic}
    below_rest = {node: [child for child in children[node] if child in rest] for node in rest}
    return _parents_first(rest, below_rest)[0], cyclic


def _on_cycles(blocked: set[str], children: dict[str, list[str]]) -> set[str]:
    """Return the members of cycles among nodes that no order could place."""
    members = set(blocked)
    shrinking = True
    while shrinking:
        leaves = {node for node in members if not any(child in members for child in children[node])}
        members -= leaves
        shrinking = bool(leaves)
    return {node for node in members if _reaches_itself(node, members, children)}


def _reaches_itself(node: str, members: set[str], children: dict[str, list[str]]) -> bool:
    seen: set[str] = set()
    waiting = [child for child in children[node] if child in members]
    while waiting:
        one = waiting.pop()
        if one == node:
            return True
        if one not in seen:
            seen.add(one)
            waiting.extend(child for child in children[one] if child in members)
    return False
