"""Orders the understandings below a change, as it reaches them (§8.4, ruling K12).

A pure plan over an adjacency that is handed in. Each affected understanding occurs once, after
all affected parents, and is at least as urgent as its most urgent descendant. Members of a cycle
have no order; they are left out and named. Beyond the depth cap a branch ends and is named.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

MAX_CASCADE_DEPTH = 100


@dataclass(frozen=True, slots=True)
class CascadeStep:
    """One understanding to recompute; a lower rank is more urgent."""

    node_id: str
    depth: int
    rank: int


@dataclass(frozen=True, slots=True)
class CascadePlan:
    """The steps, parents before children, and what the plan had to leave out."""

    steps: tuple[CascadeStep, ...]
    cyclic: tuple[str, ...]
    beyond_cap: tuple[str, ...]


class CascadeTooWide(Exception):
    """A change reaches more understandings than one transaction may ask for."""


def plan_cascade(
    first: Iterable[str],
    dependents: Callable[[str], Iterable[str]],
    rank_of: Callable[[str], int],
    limit: int | None = None,
) -> CascadePlan:
    """Plan the recomputation of `first` and of everything that depends on it.

    Raises:
        CascadeTooWide: when it reaches more than `limit` understandings.
    """
    first = list(first)
    if len(first) == 1 and not list(dependents(first[0])):
        # Most changes reach one understanding that feeds no other.
        return CascadePlan((CascadeStep(first[0], 1, rank_of(first[0])),), (), ())
    depths, children, beyond = _reach(first, dependents, limit)
    order, cyclic = _parents_first(depths, children)
    ranks: dict[str, int] = {}
    for node in reversed(order):
        below = (ranks[child] for child in children[node] if child in ranks)
        ranks[node] = min((rank_of(node), *below))
    steps = tuple(CascadeStep(node, depths[node], ranks[node]) for node in order)
    return CascadePlan(steps, tuple(sorted(cyclic)), tuple(sorted(beyond)))


def _reach(
    first: Iterable[str], dependents: Callable[[str], Iterable[str]], limit: int | None
) -> tuple[dict[str, int], dict[str, list[str]], set[str]]:
    depths = dict.fromkeys(sorted(first), 1)
    children: dict[str, list[str]] = {}
    beyond: set[str] = set()
    level = list(depths)
    while level:
        following: list[str] = []
        for node in level:
            if limit is not None and len(depths) > limit:
                raise CascadeTooWide
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
    # The list grows while it is read: parents stand before their children.
    order = sorted(node for node, parents in waiting_for.items() if parents == 0)
    for node in order:
        for child in children[node]:
            waiting_for[child] -= 1
            if waiting_for[child] == 0:
                order.append(child)
    blocked = set(depths) - set(order)
    cyclic = on_cycles(blocked, children)
    if not cyclic:
        return order, cyclic
    # Below a cycle there is an order again once the cycle itself is left out.
    acyclic = {node: depth for node, depth in depths.items() if node not in cyclic}
    below_acyclic = {
        node: [child for child in children[node] if child in acyclic] for node in acyclic
    }
    return _parents_first(acyclic, below_acyclic)[0], cyclic


def on_cycles(nodes: set[str], children: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the nodes that lie on a cycle of these nodes.

    Kosaraju's algorithm: what is reached backwards in the reverse order of finishing is a strongly
    connected component. Linear in nodes and edges.
    """
    below = {node: [child for child in children[node] if child in nodes] for node in nodes}
    above: dict[str, list[str]] = {node: [] for node in nodes}
    for node, children_below in below.items():
        for child in children_below:
            above[child].append(node)
    cyclic: set[str] = set()
    placed: set[str] = set()
    for node in reversed(_depth_first_order(below)):
        component = _place_and_collect(node, above, placed)
        if len(component) > 1 or node in below[node]:
            cyclic.update(component)
    return cyclic


def _depth_first_order(below: Mapping[str, list[str]]) -> list[str]:
    """Return the nodes in the order in which a search from the top leaves them."""
    seen: set[str] = set()
    finished: list[str] = []
    for root in below:
        path = [] if root in seen else [(root, iter(below[root]))]
        seen.add(root)
        while path:
            node, children = path[-1]
            child = next((child for child in children if child not in seen), None)
            if child is None:
                finished.append(node)
                path.pop()
            else:
                seen.add(child)
                path.append((child, iter(below[child])))
    return finished


def _place_and_collect(start: str, above: Mapping[str, list[str]], placed: set[str]) -> list[str]:
    """Mark what is reached as placed, and return what was not placed before."""
    unplaced: list[str] = []
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node not in placed:
            placed.add(node)
            unplaced.append(node)
            waiting.extend(above[node])
    return unplaced
