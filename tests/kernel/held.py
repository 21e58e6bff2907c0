"""Items of the review queues that hold an operation back: a conflict, and one of version 1.5."""

from typing import Any

from kernel.ledger.ledger import Ledger
from tests.kernel.build import adapt, code_of, create, submit
from tests.kernel.lites import lite, migrated

REVIEW = "envelope_conflict_user_review_required"


def contradicting(name: str = "n") -> list[dict[str, Any]]:
    """Operations of which the last contradicts the one before, which it had not seen."""
    made = [create(each, "Note") for each in (name, f"{name}-a", f"{name}-b")]
    seen = {"causal_parent_operation_ids": [made[0]["operation_id"]]}
    first = adapt(name, envelope_changes=seen, cites_refs=[f"{name}-a"])
    second = adapt(name, envelope_changes=seen, cites_refs=[f"{name}-a", f"{name}-b"])
    return [*made, first, second]


def a_conflict(ledger: Ledger, name: str = "n") -> str:
    """Return the receipt of a write that waits for a person."""
    *before, last = contradicting(name)
    for document in before:
        assert code_of(submit(ledger, document)) is None
    result = submit(ledger, last)
    assert code_of(result) == REVIEW
    return str(result.receipt_id)


def an_operation_of_version_1_5(ledger: Ledger, name: str = "m", **changes: Any) -> None:
    """Have migration hold an operation that does not say which records it is about."""
    changes = {"affected_subgraph_descriptor": None, **changes}
    document = lite(create(name, "Note", title="old"), operation_id=f"lite-{name}", **changes)
    migrated(ledger, document | {"idempotency_key": f"key-{name}"})
