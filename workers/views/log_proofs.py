"""Describes proofs over the log as JSON: tree heads, inclusion, consistency."""

from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from kernel.audit.proofs import admission, elimination, opening_of, operation, request, trail
from kernel.ledger.log_tree import LogTree
from kernel.proof.verification import ProofInvalid
from kernel.records.access.readable_view import ReadableView


class TreeHeadDocument(TypedDict):
    """The head of the tree of the first rows of the log."""

    tree_size: str
    root_hash: str


class DurabilityDocument(TypedDict):
    """Whether rows that are on the record are witnessed as well, and why they are not."""

    state: Literal["committed", "witnessed"]
    reason_code: str | None
    message: str
    checkpoint: str | None
    """The published checkpoint over the rows, a signed note with its cosignatures."""


class InclusionDocument(TypedDict):
    """The proof that a row is in the log: its stored bytes, and the path to a tree's root."""

    durability: NotRequired[DurabilityDocument]
    """Where a read of the proof asks for it by `Prefer: durability=witnessed`."""

    ec_sequence_number: str
    row: str
    path: list[str]
    tree_head: TreeHeadDocument


class ConsistencyDocument(TypedDict):
    """The proof that the log only grew: the path between the heads of two trees."""

    old_tree_head: TreeHeadDocument
    tree_head: TreeHeadDocument
    path: list[str]


class OpeningDocument(TypedDict):
    """What a row commits to: an envelope in its stored bytes, and the salt of the commitment."""

    salt: str
    content: str


class OperationProofDocument(TypedDict):
    """The proof that an operation is in the log."""

    inclusion: InclusionDocument
    envelope: OpeningDocument | None
    """None where it was erased."""


class TrailProofDocument(TypedDict):
    """The proof that events of a belief session are in the log, by the operation that anchors it.

    Each event holds the hash of the one before; the operation names the hash of the last.
    """

    inclusion: InclusionDocument
    envelope: OpeningDocument
    events: list[str]
    """The bytes that are hashed of each event, and of those behind them up to the anchored one."""


class EliminationProofDocument(TypedDict):
    """The proof that a tombstone is in the log, by the operation that anchors its session."""

    inclusion: InclusionDocument
    envelope: OpeningDocument
    events: list[str]
    """The bytes that are hashed of its event and of those behind it, up to the anchored one."""


class OutcomeProofDocument(TypedDict):
    """The proof that a receipt of a request is in the log, by the seal of the range it is in."""

    inclusion: InclusionDocument
    """Of the operation that states the root of the range."""

    envelope: OpeningDocument
    receipt: str
    """The bytes of the receipt that is the outcome, or that says what was asked for."""

    receipt_path: list[str]
    """Its path to the root of the range, whose leaves are the hashes of its receipts."""


RequestFact = Literal["outcome", "admission"]


def request_proof(
    view: ReadableView, request_id: str, fact: RequestFact, size: int | None = None
) -> OutcomeProofDocument:
    """Return the proof of the outcome of a request, or that it was asked for, in a tree of a size.

    Raises:
        ProofSubjectUnknown: `outcome_not_sealed`, `admission_not_sealed` of what is in no range
            yet; see `request` and `admission`.
        ProofInvalid: the envelope of the seal was erased.
        ValueError: the seal is not in the tree of that size.
    """
    subject = (request if fact == "outcome" else admission)(view, request_id)
    [inclusion] = inclusions(view, [subject.row["ec_sequence_number"]], size)
    shown = subject.openings
    return {
        "inclusion": inclusion,
        "envelope": shown["envelope"],
        "receipt": shown["receipt"],
        "receipt_path": [b64decode(node).hex() for node in shown["receipt_path"]],
    }


def operation_proof(
    view: ReadableView, operation_id: str, size: int | None = None
) -> OperationProofDocument:
    """Return the proof of an operation, in the tree of a size.

    Raises:
        ProofSubjectUnknown: `operation_not_found`.
        ValueError: it is not in the tree of that size.
    """
    row = operation(view, operation_id, with_envelope=False).row
    [inclusion] = inclusions(view, [row["ec_sequence_number"]], size)
    envelope: OpeningDocument | None = None
    with suppress(ProofInvalid):
        opening = opening_of(view, row)
        envelope = {"salt": opening["salt"], "content": opening["content"]}
    return {"inclusion": inclusion, "envelope": envelope}


def trail_proof(
    view: ReadableView, session_id: str, first: int, limit: int, size: int | None = None
) -> TrailProofDocument:
    """Return the proof of events of a session from a place on, in the tree of a size.

    Raises:
        ProofSubjectUnknown: `SESSION_NOT_FOUND`.
        ProofInvalid: no operation whose envelope is still there anchors them.
        ValueError: the operation is not in the tree of that size.
    """
    subject = trail(view, session_id, first, limit)
    [inclusion] = inclusions(view, [subject.row["ec_sequence_number"]], size)
    shown = subject.openings
    return {"inclusion": inclusion, "envelope": shown["envelope"], "events": shown["events"]}


def elimination_proof(
    view: ReadableView, event_id: str, size: int | None = None
) -> EliminationProofDocument:
    """Return the proof of a tombstone by the id of its audit event, in the tree of a size.

    Raises:
        ProofSubjectUnknown: no elimination was recorded under that id.
        ProofInvalid: no operation whose envelope is still there anchors it.
    """
    subject = elimination(view, event_id)
    [inclusion] = inclusions(view, [subject.row["ec_sequence_number"]], size)
    envelope, events = (subject.openings[name] for name in ("envelope", "events"))
    return {"inclusion": inclusion, "envelope": envelope, "events": events}


def tree_head(tree: LogTree, size: int | None = None) -> TreeHeadDocument:
    """Return the head of the tree of the first rows, by default of all.

    Raises:
        ValueError: there are fewer rows.
    """
    size = tree.size if size is None else size
    return {"tree_size": str(size), "root_hash": tree.root(size).hex()}


def inclusions(
    view: ReadableView, sequences: Iterable[int], size: int | None = None
) -> list[InclusionDocument]:
    """Return for each row its stored bytes, the head of a tree, and its path in that.

    Raises:
        ValueError: a row is not in the tree of that size, or there are fewer rows.
        RangeQuarantined: a row is quarantined.
    """
    tree = view.log_tree()
    head = tree_head(tree, size)
    sequences = [*sequences]
    for sequence in sequences:
        view.quarantines().expect_none_over(sequence)
    return [_inclusion(view, tree, sequence, head) for sequence in sequences]


def _inclusion(
    view: ReadableView, tree: LogTree, sequence: int, head: TreeHeadDocument
) -> InclusionDocument:
    path = tree.inclusion_path(sequence - 1, int(head["tree_size"]))
    row = view.log_row_at(sequence)
    return {
        "ec_sequence_number": str(sequence),
        "row": "" if row is None else row["row_bytes"].decode(),
        "path": [node.hex() for node in path],
        "tree_head": head,
    }


def consistency(view: ReadableView, old_size: int, size: int | None = None) -> ConsistencyDocument:
    """Return the heads of two trees and the path between them.

    Raises:
        ValueError: the old one is the larger one, or there are fewer rows.
    """
    tree = view.log_tree()
    head = tree_head(tree, size)
    path = tree.consistency_path(old_size, int(head["tree_size"]))
    return {
        "old_tree_head": tree_head(tree, old_size),
        "tree_head": head,
        "path": [node.hex() for node in path],
    }
