"""Lists what people decided lately about what waited for them, and who decided it (§13.6, §14.4).

The operations of few verbs are looked at, the newest of each; so the list is of a bounded number of
the newest operations, and is no history: that is the log.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Literal, cast

from typing_extensions import TypedDict

from kernel.algebra.verbs import BATCH_REVIEW, QUARANTINE_LIFT, REVIEW_DISCARD
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditFilter, OperationEntry, envelope_of
from kernel.ledger import schema
from kernel.ledger.archive import ArchiveUnavailable
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.quarantine import RangeQuarantined
from kernel.ledger.store.tables import TableQuery
from kernel.records.rollback_marks import mark_of

DECISIONS_MAX = 20
LOOKED_AT_MAX = 200
"""The newest operations of a verb that are looked at for decisions."""


class DecisionDocument(TypedDict):
    """What somebody decided, by which operation, and whether that was undone."""

    operation_id: str
    ec_sequence_number: str
    decided_at: str
    kind: Literal["relationship", "observation", "membership", "item", "quarantine"]
    record_id: str
    decision: str
    decided_by: str | None
    grounds: str | None
    undone_by_operation_id: str | None


class DecisionsDocument(TypedDict):
    """The newest decisions, the last one first."""

    decisions: list[DecisionDocument]


_Decided = dict[str, str | None]


def recent_decisions(view: LedgerView, limit: int = DECISIONS_MAX) -> DecisionsDocument:
    """Return what people decided lately, the last first."""
    entries: list[OperationEntry] = []
    for verb in _READ:
        criteria = AuditFilter(semantic_intent=verb, actor="user")
        page = newest_operations(view, criteria, limit=limit, scanned_rows_max=LOOKED_AT_MAX)
        entries += page.entries
    entries += _taking(view, limit)
    entries.sort(key=lambda entry: entry.ec_sequence_number, reverse=True)
    decisions: list[DecisionDocument] = []
    for entry in entries:
        document = _document(view, entry)
        if document is not None:
            decisions.append(document)
        if len(decisions) == limit:
            break
    return {"decisions": decisions}


def _taking(view: LedgerView, limit: int) -> list[OperationEntry]:
    """Return the newest operations that settled an item and are of no verb that decides."""
    newest = TableQuery(
        schema.adjudications, order_by="ec_sequence_number", descending=True, limit=LOOKED_AT_MAX
    )
    names = dict.fromkeys(row["operation_id"] for row in view.tables.scan(newest))
    rows = filter(None, map(view.log_row_of, islice(names, limit)))
    return [OperationEntry.of_row(view, row) for row in rows if row["semantic_intent"] not in _READ]


def _document(view: LedgerView, entry: OperationEntry) -> DecisionDocument | None:
    """Return what an operation decided; None of one that decides nothing, or cannot be read."""
    row = view.log_row_of(entry.operation_id)
    try:
        envelope = None if row is None or entry.quarantined else envelope_of(view, row)
    except (ArchiveUnavailable, RangeQuarantined):
        envelope = None
    decided = None
    if envelope is not None:
        decided = _take(envelope) or _READ.get(entry.semantic_intent, _take)(envelope)
    if decided is None:
        return None
    document = {
        "operation_id": entry.operation_id,
        "ec_sequence_number": str(entry.ec_sequence_number),
        "decided_at": entry.committed_at,
        "undone_by_operation_id": mark_of(view, entry.operation_id)["undone_by"] or None,
        **decided,
    }
    return cast("DecisionDocument", document)


def _evidence(kind: str) -> Callable[[Document], _Decided | None]:
    def read(envelope: Document) -> _Decided | None:
        effect = envelope["primitive_effects"][0]
        adjudication = effect["payload"].get("adjudication")
        if not isinstance(adjudication, dict):
            return None
        return {
            "kind": kind,
            "record_id": effect["target_ref"],
            "decision": effect["payload"].get("lifecycle_state"),
            "decided_by": adjudication.get("adjudicated_by"),
            "grounds": adjudication.get("grounds"),
        }

    return read


def _batch(envelope: Document) -> _Decided:
    record = envelope["primitive_effects"][0]["payload"]
    counts = [f"{record[f'{each}_count']} {each}" for each in ("confirm", "reject", "defer")]
    failed = record["failure_count"]
    return {
        "kind": "membership",
        "record_id": record["batch_review_id"],
        "decision": ", ".join([*counts, *([f"{failed} failed"] if failed else [])]),
        "decided_by": record.get("reviewed_by"),
        "grounds": record.get("grounds"),
    }


def _discard(envelope: Document) -> _Decided:
    said = envelope["primitive_effects"][0]["payload"]
    return {
        "kind": "item",
        "record_id": said["item_receipt_id"],
        "decision": "settled",
        "decided_by": said.get("decided_by"),
        "grounds": said["reason"],
    }


def _take(envelope: Document) -> _Decided | None:
    said, items = envelope.get("item_decision"), envelope.get("adjudicates_receipt_ids")
    if not isinstance(said, dict) or not items:
        return None
    return {
        "kind": "item",
        "record_id": items[0],
        "decision": "taken",
        "decided_by": said.get("decided_by"),
        "grounds": said.get("grounds"),
    }


def _lift(envelope: Document) -> _Decided:
    said = envelope["primitive_effects"][0]["payload"]
    return {
        "kind": "quarantine",
        "record_id": envelope["target_refs"][0].removeprefix("quarantine:"),
        "decision": "lifted",
        "decided_by": said["decided_by"],
        "grounds": said["reason"],
    }


_READ: Mapping[str, Callable[[Document], _Decided | None]] = MappingProxyType(
    {
        "filing_relationship_write": _evidence("relationship"),
        "court_disposition_observation_write": _evidence("observation"),
        "ruling_disposition_write": _evidence("observation"),
        BATCH_REVIEW: _batch,
        REVIEW_DISCARD: _discard,
        QUARANTINE_LIFT: _lift,
    }
)
"""By verb, what an envelope says was decided."""
