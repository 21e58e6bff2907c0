"""Reads a row of the log: what was superseded is read as what took its place (K24)."""

from typing import NotRequired, cast

from typing_extensions import TypedDict

from kernel.audit.operations import row_document
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.ledger.supersession import in_force_at


class ScopeSummary(TypedDict):
    """What a row keeps of its operation's scope."""

    scope_kind: str
    affected_node_count: int


class SupersededPlace(TypedDict):
    """The lite operation whose place an operation took (K24)."""

    operation_id: str
    ec_sequence_number: str


class LogRowDocument(TypedDict):
    """A row of the log with its hash; sequences are strings (K27)."""

    prior_row_hash: str
    ec_sequence_number: str
    operation_id: str
    envelope_payload_blob_ref: str
    semantic_intent: str
    operation_kind: str
    actor: str
    idempotency_key: str
    effect_kind_set: list[str]
    canonical_effect_kind_set: list[str]
    causal_parent_operation_ids: list[str]
    affected_subgraph_descriptor_summary: ScopeSummary
    recorded_at: str
    committed_at: str
    applied_effects_hash: str
    receipt_chain_head: str
    rules_version: int
    schema_version: int
    row_hash: str
    principal: NotRequired[str]
    """Whose key brought it; not there where access was open, or the runtime did it by itself."""

    session_id: NotRequired[str]
    commit_epoch_id: NotRequired[str]
    supersedes: NotRequired[SupersededPlace]
    superseding_sequence: NotRequired[str]
    """Where the row itself stands that took a lite one's place."""

    quarantined: NotRequired[bool]
    """True where it was found damaged, and nobody has lifted that; else not there (§17.5)."""


def log_document(view: LedgerView, row: Row) -> LogRowDocument:
    """Return what a row of the log says, with its hash.

    At the place of a lite envelope that was migrated, the row that took it speaks, under the
    sequence of that place, and `superseding_sequence` is where that row itself stands.

    Raises:
        RangeQuarantined, LedgerCorrupt: see `row_document`.
    """
    standing = in_force_at(view, row) or row
    document = row_document(view, standing) | {"row_hash": standing["row_hash"]}
    if view.quarantines().over(standing["ec_sequence_number"]) is not None:
        document["quarantined"] = True
    if standing["ec_sequence_number"] != row["ec_sequence_number"]:
        document["ec_sequence_number"] = str(row["ec_sequence_number"])
        document["superseding_sequence"] = str(standing["ec_sequence_number"])
    return cast("LogRowDocument", document)


def superseded_row(view: LedgerView, row: Row) -> Row | None:
    """Return the lite row whose place a row took, None for one that took none."""
    superseded = row["supersedes_sequence"]
    return view.tables.get(schema.kernel_event_log, superseded) if superseded else None
