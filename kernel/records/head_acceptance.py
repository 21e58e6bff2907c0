"""Accepts a ledger that went back: what is lost, the finding on the record, its acceptance.

Its finder states the head that was known, the head that is there, and what of its own answers is on
the record no longer, in receipts of the ledger that is there; the same finding is written once. An
operator accepts that ledger by an operation with the reason. It gives every shard back, so that
nobody goes on from what was read before (decision kernel/0580).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from kernel.algebra.verbs import LEDGER_HEAD_ACCEPT
from kernel.ledger import schema
from kernel.ledger.head_watch import Answered, Memory
from kernel.ledger.ledger import Head, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.shards import take_away_all
from kernel.ledger.went_back import ACCEPTED, WENT_BACK, findings, newest_sequence
from kernel.model.receipt import Receipt
from kernel.records.legal_holds import Grounds
from kernel.records.operator_decisions import Decide, head_target
from kernel.values.canonical import digest
from kernel.values.errors import KernelError

LOST_IN_A_RECEIPT = 400
EVIDENCE_MAX = 1000

Document = dict[str, Any]


class HeadNotAccepted(KernelError):
    """The head of the ledger is not accepted so; nothing was written.

    Codes: `ledger_head_reason_missing`.
    """

    code = "ledger_head_reason_missing"


@dataclass(frozen=True, slots=True)
class Losses:
    """What one process knows to be lost."""

    answered: tuple[Answered, ...]
    common: Head | None
    """The newest head known to be on the record; None where none is known to be."""

    is_all: bool
    """Whether the process remembers everything that it has written since that head."""


def losses(view: LedgerView, memory: Memory) -> Losses:
    """Return what of a memory is on the record no longer.

    Heads follow each other, so those that are still there come first.
    """
    kept, lost = 0, len(memory.remembered)
    while kept < lost:
        middle = (kept + lost) // 2
        if is_on_record(view, memory.remembered[middle].head):
            kept = middle + 1
        else:
            lost = middle
    answered = tuple(each for part in memory.remembered[kept:] for each in part.answered)
    if kept:
        return Losses(answered, memory.remembered[kept - 1].head, is_all=True)
    since = memory.since
    is_known = since is not None and is_on_record(view, since)
    return Losses(answered, since if is_known else None, is_all=since is None or is_known)


def is_on_record(view: LedgerView, head: Head) -> bool:
    """Tell whether a record has the rows and the receipts up to a head."""
    if head.committed_at_us > view.head().committed_at_us:
        return False
    if head.ec_sequence_number:
        row = view.log_row_at(head.ec_sequence_number)
        if row is None or row["row_hash"] != head.row_hash:
            return False
    if head.receipt_sequence:
        receipt = view.tables.get(schema.receipts, head.receipt_sequence)
        return receipt is not None and bool(receipt["receipt_hash"] == head.receipt_hash)
    return True


def record_finding(transaction: LedgerTransaction, gateway: str, memory: Memory) -> bool:
    """Leave what a gateway knows to be lost on the ledger that is there, in receipts.

    False where the record goes on from what the gateway knows, where it has said this before, and
    where it has nothing to add to what another gateway has found.
    """
    if is_on_record(transaction, memory.known):
        return False
    lost = losses(transaction, memory)
    known = head_document(memory.known)
    finding_id = f"went-back:{digest({'gateway': gateway, 'known': known})}"
    if transaction.has_receipt(_receipt_id(finding_id, 1)):
        return False
    if not lost.answered and _is_covered(transaction, memory.known):
        return False
    there = head_document(transaction.head())
    pages = [*_pages(lost.answered)]
    transaction.next_commit_time_us()
    for number, page in enumerate(pages, start=1):
        body = {
            "finding_id": finding_id,
            "page": number,
            "pages": len(pages),
            "gateway": gateway,
            "known": known,
            "found": there,
            "common": None if lost.common is None else head_document(lost.common),
            "is_all": lost.is_all,
            "lost": [_statement_of(each) for each in page],
        }
        append_receipt(transaction, _receipt_id(finding_id, number), Receipt(WENT_BACK, body), None)
    return True


def accept_head(
    transaction: LedgerTransaction,
    grounds: Grounds,
    decide: Decide,
    evidence: Sequence[Document] = (),
) -> bool:
    """Put on the record that work goes on from the ledger that is there; False where it does.

    `evidence` is what is known beside the gateways' findings: published and witnessed heads, and
    requests of which only the queues know.

    Raises:
        HeadNotAccepted: `ledger_head_reason_missing`.
    """
    if not grounds.reason.strip():
        message = "a ledger that went back is accepted with the reason: why it is the one to go on"
        raise HeadNotAccepted(message)
    standing = [*standing_findings(transaction)]
    if not standing:
        return False
    head = head_document(transaction.head())
    body = {
        "finding_ids": list(dict.fromkeys(each["finding_id"] for each in standing)),
        "accepted": head,
        "lost": sum(len(each["lost"]) for each in standing),
        "is_all": all(each["is_all"] for each in standing),
        "evidence": [*islice(evidence, EVIDENCE_MAX)],
    }
    target = head_target(head["ec_sequence_number"], head["row_hash"])
    body |= grounds.decide(LEDGER_HEAD_ACCEPT, target, decide)
    transaction.next_commit_time_us()
    receipt_id = f"receipt:ledger-head-accepted:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, Receipt(ACCEPTED, body), None)
    take_away_all(transaction)
    return True


def head_document(head: Head) -> dict[str, str]:
    """Return a head as a receipt states it."""
    return {name: str(getattr(head, name)) for name in Head.__slots__}


def head_of(stated: dict[str, str]) -> Head:
    """Read a head as a receipt states it."""
    read: dict[str, Any] = {
        name: stated[name] if name.endswith("_hash") else int(stated[name])
        for name in Head.__slots__
    }
    return Head(**read)


def _is_covered(view: LedgerView, known: Head) -> bool:
    return any(
        head_of(each["known"]).committed_at_us >= known.committed_at_us
        for each in findings(view.tables)
    )


def _pages(answered: Sequence[Answered]) -> Iterator[Sequence[Answered]]:
    for start in range(0, max(1, len(answered)), LOST_IN_A_RECEIPT):
        yield answered[start : start + LOST_IN_A_RECEIPT]


def _statement_of(each: Answered) -> Document:
    stated: Document = {"kind": each.kind, "name": each.name, "sequence": str(each.sequence)}
    return stated if each.session_id is None else {**stated, "session_id": each.session_id}


def lost_answers(receipts: Iterable[Document]) -> Iterator[Answered]:
    """Yield what receipts of findings state as lost."""
    for receipt in receipts:
        for each in receipt["lost"]:
            session_id = each.get("session_id")
            yield Answered(each["kind"], each["name"], int(each["sequence"]), session_id)


def is_lost(view: LedgerView, request_id: str) -> bool:
    """Tell whether a request is among what any finding states as lost."""
    return any(
        each.kind == "request" and each.name == request_id
        for each in lost_answers(findings(view.tables))
    )


def _receipt_id(finding_id: str, page: int) -> str:
    return f"receipt:{finding_id}:{page}"


def standing_findings(view: LedgerView) -> Iterator[Document]:
    """Yield the receipts of the findings that nobody has accepted, in their order."""
    return findings(view.tables, after=newest_sequence(view.tables, ACCEPTED))


def newest_acceptance(view: LedgerView) -> tuple[Document | None, list[Document]]:
    """Return the receipt of the newest acceptance with those of the findings that it accepts."""
    row = view.tables.get(schema.receipts, newest_sequence(view.tables, ACCEPTED))
    if row is None:
        return None, []
    acceptance: Document = orjson.loads(row["receipt_bytes"])
    accepted_ids = set(acceptance["finding_ids"])
    accepted = [each for each in findings(view.tables) if each["finding_id"] in accepted_ids]
    return acceptance, accepted
