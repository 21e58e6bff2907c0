"""Canonical JSON against the rfc8785 package: a typical envelope, and a mebibyte of numbers."""

import rfc8785

from kernel.values.canonical import canonicalize
from tests.bench.report import figure, rate_per_s

EFFECTS = [
    {
        "effect_id": f"e{i}",
        "effect_kind": "node_write",
        "inverse_operation_kind": "node_retract",
        "payload": {"authority": 0.75, "text": "MOTION to dismiss, filed 1,000.00 " * 4},
        "reversibility": "fully_reversible",
        "schema_version": 1,
        "target_ref": f"claim:sample#{i}",
    }
    for i in range(3)
]
ENVELOPE = {
    "operation_id": "0193514a-9a51-7cc3-8f0e-6a9c2b1d4e5f",
    "envelope_version": "1.6",
    "operation_kind": "create",
    "semantic_intent": "create",
    "primitive_effects": EFFECTS,
    "causal_parent_operation_ids": ["0193514a-9a51-7cc3-8f0e-6a9c2b1d4e5e"] * 3,
    "idempotency_key": "9f" * 32,
    "actor": "system",
    "source_refs": ["docket-entry:sample#1"],
    "target_refs": ["claim:sample#1"],
    "policy_generation_id": "PG-1",
    "affected_subgraph_descriptor": {
        "scope_kind": "single_node",
        "affected_node_refs": ["claim:sample#1"],
        "affected_edge_refs": [],
        "estimated_cascade_depth": 0,
    },
    "recorded_at": "2026-11-21T20:00:00.000000Z",
    "schema_version": 1,
}
ROUNDS = 20_000
FLOATS = [1.0, 1.5e-6, 1e17, 1e300, 0.1] * 28_000
"""About a mebibyte of them, of every notation."""


def main() -> None:
    """Print both rates."""

    def ours() -> int:
        for _ in range(ROUNDS):
            canonicalize(ENVELOPE)
        return ROUNDS

    def theirs() -> int:
        for _ in range(ROUNDS // 10):
            rfc8785.dumps(ENVELOPE)
        return ROUNDS // 10

    peer = rate_per_s(theirs)
    own = rate_per_s(ours)
    figure("canonical JSON of a typical envelope", own, "/s", ratio=own / peer, of="rfc8785")

    def our_floats() -> int:
        for _ in range(10):
            canonicalize(FLOATS)
        return 10

    def their_floats() -> int:
        rfc8785.dumps(FLOATS)
        return 1

    peer = rate_per_s(their_floats)
    own = rate_per_s(our_floats)
    figure("canonical JSON of a mebibyte of floats", own, "/s", ratio=own / peer, of="rfc8785")


if __name__ == "__main__":
    main()
