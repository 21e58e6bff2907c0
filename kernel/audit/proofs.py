"""Gathers the contents of a proof file: a row of the log, and openings of what it commits to.

A row commits to its envelope as a whole, so a proof shows all of the envelope or nothing. A
tombstone is in no envelope: it is an event in the chain of its session, and the operation that
anchors the session names the chain's new head. Its proof shows that operation's envelope, the
event, and the events behind it up to that head (decision kernel/0360). A thought is in the tree of
its session, whose root, count and head of the chain stand in a seal: its proof shows the operation
that states the seal, the thought's record and its path in both trees, and its content or nothing of
it (decision kernel/0465). The outcome of a request is a receipt: its proof shows the receipt, its
path in the tree of its range, and the operation that states the root (decision kernel/0570).
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from types import MappingProxyType

import orjson

from kernel.audit.manifests import ManifestUnknown
from kernel.audit.operations import envelope_of, first_sequence_from
from kernel.belief.anchors import anchor_of
from kernel.belief.events import BeliefEvent
from kernel.landscape.seals import seal_of
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.log_tree import LogTree
from kernel.ledger.store.buffer import joined_ahead
from kernel.ledger.store.tables import Row, TableQuery
from kernel.proof.handover_proof import HANDOVER_VERB, handover_in
from kernel.proof.merkle_tree import ReadNode, inclusion_path, leaf_hash
from kernel.proof.proof_file import ANCHOR_VERB, ELIMINATE_VERB, FORMAT, TLOG_PROOF
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.tiles import subtree_root
from kernel.proof.verification import ProofInvalid
from kernel.records.receipt_seals import leaves_of, range_with
from kernel.retention.thought_contents import read_content
from kernel.thoughts.reading import thought_path, thought_rows
from kernel.thoughts.sessions import (
    ThoughtRefused,
    check_sealed,
    content_commitment,
    session_of,
    thought_of_id,
)
from kernel.values.errors import KernelError, LedgerCorrupt
from kernel.values.host import parse_time_us
from kernel.work.receipts import closing_receipt_id, dead_letter_id
from kernel.work.requests import request_receipt_id

ANCHORS_AT_ONCE = 64
THOUGHTS_AT_ONCE = 1000
HANDOVERS_READ = 256
"""Hand-overs, the newest ones, among which those that lead to some keys are looked for."""

_CLOCK_SLACK_US = 60_000_000
"""How far a clock may go back between an event and the transaction that records it."""


class ProofSubjectUnknown(KernelError):
    """The record has nothing of that id; `code` says which kind of thing was looked for."""

    code = "operation_not_found"


@dataclass(frozen=True, slots=True)
class ProofSubject:
    """What a proof proves: a row of the log, and what is shown of what it commits to."""

    row: Row
    openings: Document = field(default_factory=dict)
    """Members of the proof file, by their names."""


def operation(view: LedgerView, operation_id: str, *, with_envelope: bool) -> ProofSubject:
    """Return what proves an operation.

    Raises:
        ProofSubjectUnknown: `operation_not_found`.
        ProofInvalid: its envelope is to be shown, and was erased.
        RangeQuarantined: its row is quarantined, as for each subject of a proof.
    """
    _ask_ahead(view, operation_id)
    row = view.log_row_of(operation_id)
    if row is None:
        raise ProofSubjectUnknown(f"no operation {operation_id} is on the record")
    view.quarantines().expect_none_over(row["ec_sequence_number"])
    return ProofSubject(row, {"envelope": opening_of(view, row)} if with_envelope else {})


def _ask_ahead(view: LedgerView, operation_id: str) -> None:
    row = joined_ahead(schema.kernel_event_log, "operation_id", [operation_id])
    sequences, blob_refs = (row, "ec_sequence_number"), (row, "envelope_payload_blob_ref")
    view.ask_ahead(
        row,
        joined_ahead(schema.kernel_event_log, "ec_sequence_number", of=[sequences]),
        joined_ahead(schema.blobs, "blob_ref", of=[blob_refs]),
    )


def manifest(view: LedgerView, manifest_id: str) -> ProofSubject:
    """Return what proves a manifest: its operation, with the envelope that states it.

    Raises:
        ManifestUnknown: no cycle ended with it.
        ProofInvalid: its envelope was erased.
    """
    stated = view.tables.get(schema.binding_evaluation_manifests, manifest_id)
    if stated is None:
        raise ManifestUnknown(f"no cycle of evaluations ended with {ascii(manifest_id)[:200]}")
    row = _row_at(view, stated["ec_sequence_number"])
    return ProofSubject(row, {"envelope": opening_of(view, row)})


def run_seal(view: LedgerView, run_id: str) -> ProofSubject:
    """Return what proves the digest of a run: the operation that states it, with its envelope.

    Raises:
        ProofSubjectUnknown: `landscape_unknown` of a run that has no seal.
        ProofInvalid: its envelope was erased.
    """
    seal = seal_of(view, run_id)
    if seal is None:
        message = f"no seal of a run {ascii(run_id)[:200]} is on the log"
        raise ProofSubjectUnknown(message, code="landscape_unknown")
    row = _row_at(view, seal["ec_sequence_number"])
    return ProofSubject(row, {"envelope": opening_of(view, row)})


def elimination(view: LedgerView, event_id: str) -> ProofSubject:
    """Return what proves a tombstone: its event, and the operation that anchors its session.

    Raises:
        ProofSubjectUnknown: `elimination_not_found`.
        ProofInvalid: no operation whose envelope is still there anchors it.
    """
    rows = view.tables.scan(TableQuery(schema.belief_events, {"event_id": event_id}, limit=1))
    event = BeliefEvent.from_bytes(rows[0]["event_bytes"]) if rows else None
    if event is None or event.verb != ELIMINATE_VERB:
        message = f"no elimination was recorded as {ascii(event_id)[:200]}"
        raise ProofSubjectUnknown(message, code="elimination_not_found")
    return event_subject(view, event, rows[0]["event_index"])


def event_subject(view: LedgerView, event: BeliefEvent, event_index: int) -> ProofSubject:
    """Return what proves an event of a belief session.

    Raises:
        ProofInvalid: no operation whose envelope is still there anchors it.
    """
    for row, last_index in _anchors_of(view, event, event_index):
        view.quarantines().expect_none_over(row["ec_sequence_number"])
        events = view.belief_events(
            event.session_id, first=event_index, limit=last_index - event_index + 1
        )
        openings = {"envelope": opening_of(view, row), "events": [*map(_hashed_bytes, events)]}
        return ProofSubject(row, openings)
    raise ProofInvalid(
        f"no operation whose envelope is there anchors event {event_index} of {event.session_id}"
    )


def trail(view: LedgerView, session_id: str, first: int, limit: int) -> ProofSubject:
    """Return what proves events of a belief session from a place on, and those behind them.

    The operation anchors the last of so many events, and the events behind it that it anchors too.

    Raises:
        ProofSubjectUnknown: `SESSION_NOT_FOUND` where there are none.
        ProofInvalid: no operation whose envelope is still there anchors them.
    """
    events = view.belief_events(session_id, first=first, limit=limit)
    if not events:
        message = f"no trail of {ascii(session_id)[:200]} has an event {first}"
        raise ProofSubjectUnknown(message, code="SESSION_NOT_FOUND")
    last = BeliefEvent.from_bytes(events[-1])
    subject = event_subject(view, last, first + len(events) - 1)
    before = [*map(_hashed_bytes, events[:-1])]
    openings = {**subject.openings, "events": [*before, *subject.openings["events"]]}
    return ProofSubject(subject.row, openings)


def thought(view: LedgerView, thought_id: str, *, with_content: bool) -> ProofSubject:
    """Return what proves a thought, `SESSION_ID:THOUGHT_ID`, of a session that was finalized.

    Reads every record of the session, because of the path in its tree of RFC 6962.

    Raises:
        ThoughtRefused: `audit_session_unknown`, `audit_session_not_finalized`, `thought_unknown`.
        ProofInvalid: its content is to be shown, and was erased.
        ArchiveUnavailable: its content is to be shown, and the archive does not answer.
        LedgerCorrupt: a node of the session's tree is not there.
    """
    session_id, _, name = thought_id.partition(":")
    session = session_of(view, session_id)
    check_sealed(session)
    row = thought_of_id(view, session_id, name)
    if row is None:
        message = f"{session_id} has no thought {ascii(name)[:200]}"
        raise ThoughtRefused(message, code="thought_unknown")
    sequence, count = row["thought_sequence"], session["thought_count"]
    eta_path = thought_path(view, session_id, sequence, count)
    path = inclusion_path(sequence - 1, count, _nodes_of_session(view, session_id))
    sealed = _row_at(view, session["seal_sequence"])
    openings = {
        "envelope": opening_of(view, sealed),
        "thought": row["record_bytes"].decode(),
        "eta_path": base64_lines(eta_path),
        "rfc6962_path": base64_lines(path),
    }
    if with_content:
        shown = read_content(view, content_commitment(row))
        openings["content"] = _opening_document(shown.salt, shown.content, "the content")
    return ProofSubject(sealed, openings)


def request(view: LedgerView, request_id: str) -> ProofSubject:
    """Return what proves the outcome of a request: its receipt, and the seal of its range.

    Reads the hashes of the range, because of the path in its tree.

    Raises:
        ProofSubjectUnknown: `work_request_unknown`; `outcome_not_sealed` of one that has no
            outcome, or whose outcome is in no range yet.
        ProofInvalid: the envelope of the seal was erased.
        LedgerCorrupt: a receipt of the range is missing.
    """
    return _in_range(view, _outcome_receipt(view, request_id), "outcome_not_sealed")


def admission(view: LedgerView, request_id: str) -> ProofSubject:
    """Return what proves that a producer asked for a request: its receipt, and its range's seal.

    Raises:
        ProofSubjectUnknown: `work_request_unknown` also of one that an operation asked for;
            `admission_not_sealed` of one whose receipt is in no range yet.
        ProofInvalid, LedgerCorrupt: see `request`.
    """
    named = {"receipt_id": request_receipt_id(request_id)}
    rows: list[Row] = view.tables.scan(TableQuery(schema.receipts, named, limit=1))
    if not rows:
        message = f"no producer asked for {ascii(request_id)[:200]}"
        raise ProofSubjectUnknown(message, code="work_request_unknown")
    return _in_range(view, rows[0], "admission_not_sealed")


def _in_range(view: LedgerView, receipt: Row, code: str) -> ProofSubject:
    """Return what proves a receipt by the seal of its range; `code` says that it is in none."""
    seal_and_range = range_with(view, receipt["receipt_sequence"])
    if seal_and_range is None:
        message = (
            f"it is {ascii(receipt['receipt_id'])[:200]}, number {receipt['receipt_sequence']},"
            " which no operation seals yet: a running gateway does within a minute, then publish"
            " and ask again"
        )
        raise ProofSubjectUnknown(message, code=code)
    seal, sealed = seal_and_range
    row = view.log_row_of(seal["operation_id"])
    if row is None:
        raise LedgerCorrupt(f"the operation of receipt {seal['receipt_sequence']} is missing")
    view.quarantines().expect_none_over(row["ec_sequence_number"])
    leaves = leaves_of(view, sealed)
    path = inclusion_path(
        receipt["receipt_sequence"] - sealed.first, len(leaves), _nodes_over(leaves)
    )
    openings = {
        "envelope": opening_of(view, row),
        "receipt": receipt["receipt_bytes"].decode(),
        "receipt_path": base64_lines(path),
    }
    return ProofSubject(row, openings)


SUBJECTS: Mapping[str, Callable[[LedgerView, str], ProofSubject]] = MappingProxyType(
    {"elimination": elimination, "manifest": manifest, "request": request}
)
"""What finds the subject of a kind of proof by its id, where there is nothing to withhold."""


def proof_document(
    kind: str, subject: ProofSubject, tree: LogTree, size: int, note: str
) -> Document:
    """Return a proof file: the subject under the signed checkpoint of so many rows.

    Raises:
        ProofInvalid: the checkpoint is older than the row.
        LedgerCorrupt: a tile that this takes is not there.
    """
    sequence = subject.row["ec_sequence_number"]
    if sequence > size:
        raise ProofInvalid(f"the checkpoint has {size} rows, the row is {sequence}")
    path = base64_lines(tree.inclusion_path(sequence - 1, size))
    tlog_proof = "\n".join([TLOG_PROOF, f"index {sequence - 1}", *path, "", note])
    row = subject.row["row_bytes"].decode()
    return {
        "format": FORMAT,
        "kind": kind,
        "row": row,
        "tlog_proof": tlog_proof,
        **subject.openings,
    }


def handover_documents(
    view: LedgerView, size: int, note: str, keys: Iterable[NoteVerifier], *, limit: int
) -> list[Document]:
    """Return the proof files of the newest hand-overs that lead to some keys, oldest first.

    Each is proved under the signed checkpoint of so many rows. Hand-overs of other keys are left
    out: anybody may state one between keys of his own. So are those whose rows are quarantined.

    Raises:
        ProofInvalid: the envelope of one was erased.
        LedgerCorrupt: a tile that this takes is not there.
    """
    where, tree, leading = {"semantic_intent": HANDOVER_VERB}, view.log_tree(), {*keys}
    documents: list[Document] = []
    for row in view.tables.scan(
        TableQuery(schema.kernel_event_log, where, descending=True, limit=HANDOVERS_READ)
    ):
        sequence = row["ec_sequence_number"]
        if sequence > size or len(documents) == limit or view.quarantines().over(sequence):
            continue
        subject = ProofSubject(row, {"envelope": opening_of(view, row)})
        handover = handover_in(orjson.loads(subject.openings["envelope"]["content"]))
        if leading & {*handover.new}:
            leading |= {*handover.old}
            documents.append(proof_document("operation", subject, tree, size, note))
    return documents[::-1]


def consistency_document(
    tree: LogTree, old_size: int, old_note: str, size: int, note: str
) -> Document:
    """Return the proof file that the log of a checkpoint goes on from that of an older one.

    Raises:
        ProofInvalid: the older one is the larger one.
        LedgerCorrupt: a tile that this takes is not there.
    """
    if old_size > size:
        raise ProofInvalid(f"the older checkpoint has {old_size} rows, the newer one {size}")
    path = base64_lines(tree.consistency_path(old_size, size))
    notes = {"old_checkpoint": old_note, "checkpoint": note}
    return {"format": FORMAT, "kind": "consistency", **notes, "path": path}


def base64_lines(path: Sequence[bytes]) -> list[str]:
    """Return the hashes of a path as proof files write them."""
    return [base64.b64encode(node).decode() for node in path]


def opening_of(view: LedgerView, row: Row) -> Document:
    """Return the salt and the content of a row's envelope.

    Raises:
        ProofInvalid: it was erased.
    """
    opening = view.blob_opening(row["envelope_payload_blob_ref"])
    salt, content = opening or (b"", None)
    return _opening_document(salt, content, "the envelope")


def _opening_document(salt: bytes, content: bytes | None, name: str) -> Document:
    if content is None:
        raise ProofInvalid(f"{name} was erased: it can be withheld, not shown")
    return {"salt": salt.hex(), "content": content.decode()}


def _nodes_of_session(view: LedgerView, session_id: str) -> ReadNode:
    """Read the leaves of a session's tree of RFC 6962, and return what computes its nodes."""
    leaves: list[bytes] = []
    rows = thought_rows(view, session_id, after=0, limit=THOUGHTS_AT_ONCE)
    while rows:
        leaves += (leaf_hash(bytes(row["record_bytes"])) for row in rows)
        rows = thought_rows(view, session_id, after=len(leaves), limit=THOUGHTS_AT_ONCE)
    return _nodes_over(leaves)


def _nodes_over(leaves: Sequence[bytes]) -> ReadNode:
    return lambda level, index: subtree_root(leaves[index << level : (index + 1) << level])


def _outcome_receipt(view: LedgerView, request_id: str) -> Row:
    """Return the receipt that closes a request.

    Raises:
        ProofSubjectUnknown: `work_request_unknown`; `outcome_not_sealed` where there is none.
    """
    if view.tables.get(schema.outbox, request_id) is None:
        message = f"nobody asked for {ascii(request_id)[:200]}"
        raise ProofSubjectUnknown(message, code="work_request_unknown")
    names = (closing_receipt_id(request_id), dead_letter_id(request_id))
    rows: list[Row] = view.tables.scan(
        TableQuery(schema.receipts, any_of=("receipt_id", names), limit=1)
    )
    if rows:
        return rows[0]
    outcome = view.tables.get(schema.outbox_outcomes, request_id)
    message = f"{ascii(request_id)[:200]} has no outcome yet"
    if outcome is not None and outcome["operation_id"] is not None:
        message = (
            f"the outcome of {ascii(request_id)[:200]} is an operation:"
            f" `rotulus prove operation --output FILE -- {quote(outcome['operation_id'])}`"
        )
    raise ProofSubjectUnknown(message, code="outcome_not_sealed")


def _hashed_bytes(stored: bytes) -> str:
    """Return the bytes of an event that its hash is taken of."""
    event = BeliefEvent.from_bytes(stored)
    # The hash is the second field, and no field before it can hold the same bytes.
    return stored.decode().replace(f'"event_hash":"{event.event_hash}",', "", 1)


def _anchors_of(
    view: LedgerView, event: BeliefEvent, event_index: int
) -> Iterator[tuple[Row, int]]:
    """Yield the rows that anchor an event, at most one, with the last event that they anchor."""
    for row in _candidates(view, event):
        for session in anchored_sessions(view, row):
            first, last = session["first_event_index"], session["last_event_index"]
            if session["session_id"] == event.session_id and first <= event_index <= last:
                yield row, last
                return


def _candidates(view: LedgerView, event: BeliefEvent) -> Iterator[Row]:
    """Yield the rows that may anchor an event: first its session's newest, then all since it was.

    An event has the time of the gateway that records it, so its row is a few rows behind that.
    """
    newest = anchor_of(view, event.session_id)
    if newest is not None:
        yield _row_at(view, newest["ec_sequence_number"])
    after = first_sequence_from(view, parse_time_us(event.ts) - _CLOCK_SLACK_US) - 1
    while True:
        query = TableQuery(
            schema.kernel_event_log,
            {"semantic_intent": ANCHOR_VERB},
            after=after,
            limit=ANCHORS_AT_ONCE,
        )
        rows = view.tables.scan(query)
        yield from rows
        if len(rows) < ANCHORS_AT_ONCE:
            return
        after = rows[-1]["ec_sequence_number"]


def anchored_sessions(view: LedgerView, row: Row) -> list[Document]:
    """Return what a row says of the sessions that it anchors, nothing where that was erased."""
    envelope = envelope_of(view, row) or {"primitive_effects": []}
    return [
        session
        for effect in envelope["primitive_effects"]
        for session in effect["payload"]["sessions"]
    ]


def _row_at(view: LedgerView, sequence: int) -> Row:
    row = view.log_row_at(sequence)
    if row is None:
        raise LedgerCorrupt(f"row {sequence} of the log is missing")
    view.quarantines().expect_none_over(sequence)
    return row
