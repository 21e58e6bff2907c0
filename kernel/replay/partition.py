"""Which operations can be replayed without waiting for each other (§3.4, rule 1)."""

from collections.abc import Iterable, Mapping


def independent_subgraphs(parents: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Partition operations so that no causal edge leads from one part to another.

    Keys are the operations, in sequence; parents that are no keys are outside and join nothing.
    Each part keeps the order of the keys, and parts are in the order of their first operations.
    """
    root = {name: name for name in parents}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for child, names in parents.items():
        for parent in names:
            if parent in root:
                root[find(child)] = find(parent)
    parts: dict[str, list[str]] = {}
    for name in parents:
        parts.setdefault(find(name), []).append(name)
    return [tuple(part) for part in parts.values()]
