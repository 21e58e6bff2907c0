"""Evidence as tests write it: drawn from an order that is signed, and from one that is not."""

from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.records.sources import state_taint
from tests.actors.intents import put, source
from tests.kernel.build import accept
from tests.kernel.every import dated, own

SIGNED = "ORDER granting 5 Motion to Dismiss. Signed by Judge A. Roe on 3/4/2021."
UNSIGNED = "ORDER granting 5 Motion to Dismiss. Entered: 03/04/2021."


def with_filings(ledger: Ledger) -> Ledger:
    """Put both orders on record, and three filings."""
    put(ledger, source("order", SIGNED), source("draft", UNSIGNED))
    units = ("motion", "other", "ruled-by")
    accept(ledger, *(own("filing_unit_write", unit, **dated("filing_date")) for unit in units))
    return ledger


def drawn(ledger: Ledger, document: dict[str, Any], artifact: str) -> dict[str, Any]:
    """State what an operation that was drawn from an artifact states of it."""
    document = document | {"source_refs": [artifact], "read_set_refs": [artifact]}
    with ledger.transaction() as transaction:
        node = transaction.node(artifact)
        assert node is not None
        parents = {node["updated_by_operation_id"]}
        for effect in document["primitive_effects"]:
            for table in (schema.filing_relationships, schema.court_disposition_observations):
                record = transaction.record(table, effect["target_ref"])
                parents |= set() if record is None else {record["updated_by_operation_id"]}
        document["causal_parent_operation_ids"] = sorted(parents)
        state_taint(transaction, document)
    return document


def candidate(
    ledger: Ledger, name: str = "r", artifact: str = "order", **changes: Any
) -> dict[str, Any]:
    stated: dict[str, Any] = {
        "relationship_type": "rules_on",
        "source_filing_unit_id": "ruled-by",
        "target_filing_unit_id": "motion",
        "lifecycle_state": "candidate",
        "identity_confidence": 0.96,
        "source_refs": [artifact],
    }
    stated = {k: v for k, v in (stated | changes).items() if v is not None}
    return drawn(ledger, own("filing_relationship_write", name, **stated), artifact)


def observation(
    ledger: Ledger, name: str = "o", artifact: str = "order", **changes: Any
) -> dict[str, Any]:
    stated: dict[str, Any] = {
        "disposition": "granted",
        "lifecycle_state": "observed",
        "source_refs": [artifact],
        **dated("docket_entry_date"),
        **changes,
    }
    return drawn(ledger, own("court_disposition_observation_write", name, **stated), artifact)
