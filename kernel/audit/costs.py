"""What operations cost and to whom it is attributed, in pages (§18.3).

The entries are read off the log: the row has the intent and the actor, the envelope the estimate,
a receipt the lease. What was measured afterwards is known where models answered: the tokens that
their recorded outputs name. An operation whose policy generation attributes no cost has no entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel.audit.operations import envelope_of, stored_document
from kernel.capacity import KernelCostGovernance, governance_in
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.supersession import in_force_at, is_lite
from kernel.ledger.tables import Row

_LEASE_KINDS = frozenset({"capacity_lease", "capacity_alert"})


@dataclass(frozen=True, slots=True)
class CostLedgerEntry:
    """What one operation cost."""

    entry_id: str
    operation_id: str
    semantic_intent: str
    actor: str
    estimated_cost: float | None
    """None where the envelope was erased."""

    actual_cost: float | None
    """Tokens of the models that answered; None where none did, or nothing was measured."""

    ec_capacity_lease_id: str
    """Empty where nobody leased the capacity."""

    recorded_at: str

    def document(self) -> Document:
        """Return the entry as JSON has it."""
        fields = {name: getattr(self, name) for name in CostLedgerEntry.__slots__}
        known = {name: value for name, value in fields.items() if value is not None}
        return known | {"schema_version": 1}


@dataclass(frozen=True, slots=True)
class CostPage:
    """Some of the entries, in sequence."""

    entries: tuple[CostLedgerEntry, ...]
    next_after: int | None
    """Ask again after this sequence; None where there is nothing more."""


def cost_entries(view: LedgerView, *, after: int = 0, limit: int = 100) -> CostPage:
    """Return what at most `limit` operations after a sequence cost.

    Raises:
        LedgerCorrupt: when a stored row cannot be read.
    """
    rows = view.log_rows(after=after, limit=limit)
    standing = (in_force_at(view, row) for row in rows)
    entries = (_entry(view, row) for row in standing if row is not None and not is_lite(row))
    next_after = rows[-1]["ec_sequence_number"] if len(rows) == limit else None
    return CostPage(tuple(one for one in entries if one is not None), next_after)


def _entry(view: LedgerView, row: Row) -> CostLedgerEntry | None:
    document = stored_document(row["row_bytes"], f"row {row['ec_sequence_number']} of the log")
    envelope = envelope_of(view, row)
    if not _governance(view, envelope).cost_attribution_by_transactional_intent:
        return None
    operation_id = str(document["operation_id"])
    return CostLedgerEntry(
        f"cost:{operation_id}",
        operation_id,
        document["semantic_intent"],
        document["actor"],
        None if envelope is None else _estimated(envelope),
        _measured(envelope or {}),
        _lease_of(view, operation_id),
        document["committed_at"],
    )


def _governance(view: LedgerView, envelope: Document | None) -> KernelCostGovernance:
    """The generation that an envelope names was in force when it was accepted (V5)."""
    generation = None if envelope is None else envelope.get("policy_generation_id")
    row = view.tables.get(schema.policy_snapshots, str(generation))
    return governance_in(view.policy_row()["record"] if row is None else row["record"])


def _estimated(envelope: Mapping[str, Any]) -> float:
    scope = envelope.get("affected_subgraph_descriptor") or {}
    return float(scope.get("estimated_capacity_cost", 0))


def _measured(envelope: Mapping[str, Any]) -> float | None:
    used = [one.get("recorded_token_usage") for one in envelope.get("recorded_model_outputs", ())]
    known = [sum(tokens.values()) for tokens in used if tokens]
    return float(sum(known)) if known else None


def _lease_of(view: LedgerView, operation_id: str) -> str:
    for receipt in view.receipts_of(operation_id):
        if receipt["receipt_kind"] in _LEASE_KINDS:
            return str(receipt["ec_capacity_lease_id"])
    return ""
