"""`make registry`: the algebra's tables as text, from the registry alone.

What it writes is `kernel/algebra/REFERENCE.md`; a test fails when that file says anything else.
"""

import sys
from collections.abc import Iterable

from kernel.algebra.arguments import VerbArguments
from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import OPERATION_KINDS, SEMANTIC_VERBS

HEAD = """# algebra

This folder is the registry of effect kinds, semantic verbs and operation kinds.
Checks, stores, rollback, simulation, verification and tests read it.
`make registry` writes this file from it.

It imports the standard library.
"""


def text() -> str:
    return "\n".join([HEAD, *_effects(), *_verbs(), *_operations()])


def _effects() -> Iterable[str]:
    yield "## Effect kinds\n"
    yield "| Kind | Follows the rules of | Store | Reversibility | Undone or compensated by |"
    yield "|---|---|---|---|---|"
    for kind in EFFECT_KINDS.values():
        back = ", ".join(f"`{name}`" for name in (*kind.inverses, *kind.compensations))
        canonical = "itself" if kind.canonical == kind.name else f"`{kind.canonical}`"
        yield f"| `{kind.name}` | {canonical} | {kind.store} | {kind.reversibility} | {back} |"
    yield ""
    yield "Node kinds for which another reversibility holds:\n"
    for kind in EFFECT_KINDS.values():
        for node_kind, reversibility in kind.overrides.items():
            yield f"- `{kind.name}` of a {node_kind}: {reversibility}"
    yield ""


def _verbs() -> Iterable[str]:
    yield "## Semantic verbs\n"
    yield "| Verb | Requires | Admits besides | States |"
    yield "|---|---|---|---|"
    for verb in SEMANTIC_VERBS.values():
        requires = ", ".join(f"`{name}`" for name in verb.requires) or "nothing"
        admitted = _admitted(verb.forbids, verb.requires)
        yield f"| `{verb.name}` | {requires} | {admitted} | {_stated(verb.arguments)} |"
    yield ""


def _stated(arguments: VerbArguments) -> str:
    texts = []
    for kind, rule in arguments.by_kind.items():
        fields = {name: " or ".join(sorted(values)) for name, values in rule.values.items()}
        fields |= dict.fromkeys(rule.stated, "any")
        fields |= {name: f"beside {kind}" for name, kind in rule.beside.items()}
        # A transition has the rule of the memberships under every name of it.
        if fields and EFFECT_KINDS[kind].canonical != "membership_state_transition":
            stated = ", ".join(f"{name}: {values}" for name, values in sorted(fields.items()))
            texts.append(f"`{kind}` ({stated})")
    if arguments.receipts:
        texts.append(
            "receipt " + " or ".join(f"`{receipt}`" for receipt in sorted(arguments.receipts))
        )
    return "; ".join(texts)


def _admitted(forbids: frozenset[str], requires: Iterable[str]) -> str:
    admitted = sorted(EFFECT_KINDS.keys() - forbids - set(requires))
    if len(admitted) <= 3:
        return ", ".join(f"`{name}`" for name in admitted) or "nothing"
    return f"{len(admitted)} of {len(EFFECT_KINDS)} kinds"


def _operations() -> Iterable[str]:
    yield "## Operation kinds\n"
    yield "Each verb is one; these besides:\n"
    for kind in OPERATION_KINDS.values():
        if kind.name not in SEMANTIC_VERBS:
            yield f"- `{kind.name}` speaks `{kind.verb}`"
    yield ""
    yield "How far each can be simulated:\n"
    levels: dict[str, list[str]] = {}
    for kind in OPERATION_KINDS.values():
        levels.setdefault(kind.simulation_support_level, []).append(kind.name)
    for level, names in sorted(levels.items()):
        yield f"- {level}: {', '.join(f'`{name}`' for name in sorted(names))}"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(text())
