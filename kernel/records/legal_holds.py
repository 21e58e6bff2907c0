"""Keeps legal holds: what may not be erased while somebody with authority says so (P6).

A hold is set and lifted by an operation of the log each, with a durable receipt behind it, and
nothing else is written: the holds that are open are read from the receipts. Their number on the
record is small, for people set them, so a reader looks at all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from kernel.algebra.verbs import HOLD_LIFT
from kernel.algebra.verbs import HOLD_SET as SET_VERB
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.receipts_of_kind import receipts_of_kind
from kernel.ledger.store.tables import PAGE_ROWS, TableQuery, rows_in_pages
from kernel.model.receipt import Receipt
from kernel.records.operator_decisions import Decide, OperatorDecision, hold_target
from kernel.values.errors import KernelError
from kernel.values.host import iso_time

HOLD_SET = "legal_hold_set"
HOLD_LIFTED = "legal_hold_lifted"

LEGAL_HOLDS_MAX = 1000
"""Holds that are open at a time."""


SubjectKind = Literal["ledger", "thought_session", "payload"]


class ErasureRefused(KernelError):
    """What may not be erased or held, or is not there; nothing was written.

    Codes: `payload_unknown`, `payload_held`, `payload_not_erasable`, `legal_hold_exists`,
    `legal_hold_unknown`, `legal_holds_too_many`.
    """

    code = "payload_unknown"


@dataclass(frozen=True, slots=True)
class Grounds:
    """Why something is erased, held or let go, and on whose authority."""

    reason: str
    authority: str

    def body(self) -> dict[str, str]:
        """Return what a receipt says of them, as every store can hold it."""
        return {"reason": _storable(self.reason), "authority": _storable(self.authority)}

    def decide(self, verb: str, target: str, decide: Decide) -> dict[str, str]:
        """Put a decision on them on the log; return what its receipt says of them and of it."""
        body = self.body()
        decision = OperatorDecision(verb, (target,), body["authority"], body["reason"])
        return body | {"decided_by_operation_id": decide(decision)}


@dataclass(frozen=True, slots=True)
class LegalHold:
    """A hold that is open."""

    hold_id: str
    subject_kind: SubjectKind
    subject_id: str
    """A session of thoughts, the commitment of a payload, or nothing where all is held."""

    reason: str
    authority: str
    set_at: str


def open_holds(view: LedgerView) -> tuple[LegalHold, ...]:
    """Return the holds that are open, in the order in which they were set."""
    lifted = {body["hold_id"] for body in _receipts(view, HOLD_LIFTED)}
    return tuple(
        LegalHold(
            *(body[name] for name in ("hold_id", "subject_kind", "subject_id")),
            *(body[name] for name in ("reason", "authority", "emitted_at")),
        )
        for body in _receipts(view, HOLD_SET)
        if body["hold_id"] not in lifted
    )


def set_hold(
    transaction: LedgerTransaction,
    hold_id: str,
    subject: tuple[SubjectKind, str],
    grounds: Grounds,
    decide: Decide,
    *,
    is_archived: bool = False,
) -> LegalHold:
    """Put a hold on the record; the same again is the same hold.

    `is_archived` says of a payload that it lies in the archive, where nobody looks while others
    wait.

    Raises:
        ErasureRefused: `legal_hold_exists`, it holds something else or was lifted;
            `legal_holds_too_many`; `payload_unknown`, there is nothing to hold.
    """
    holds = open_holds(transaction)
    known = next((hold for hold in holds if hold.hold_id == hold_id), None)
    if known is not None and (known.subject_kind, known.subject_id) == subject:
        return known
    if known is not None or transaction.has_receipt(_set_id(hold_id)):
        message = f"the hold {hold_id} is on the record; a hold that was lifted needs another name"
        raise ErasureRefused(message, code="legal_hold_exists")
    if len(holds) >= LEGAL_HOLDS_MAX:
        message = f"{LEGAL_HOLDS_MAX} holds are open; lift one, or hold the whole ledger"
        raise ErasureRefused(message, code="legal_holds_too_many")
    kind, subject_id = subject
    if not is_archived:
        _expect_subject(transaction, kind, subject_id)
    said = grounds.decide(SET_VERB, hold_target(hold_id), decide)
    body = {"hold_id": hold_id, "subject_kind": kind, "subject_id": subject_id} | said
    set_at = iso_time(transaction.next_commit_time_us())
    append_receipt(transaction, _set_id(hold_id), Receipt(HOLD_SET, body), None)
    return LegalHold(hold_id, kind, subject_id, body["reason"], body["authority"], set_at)


def lift_hold(
    transaction: LedgerTransaction, hold_id: str, grounds: Grounds, decide: Decide
) -> bool:
    """Put on the record that a hold is lifted; False where it was lifted before.

    Raises:
        ErasureRefused: `legal_hold_unknown`.
    """
    if not transaction.has_receipt(_set_id(hold_id)):
        message = f"no hold is called {hold_id}; `rotulus hold list` shows those that are open"
        raise ErasureRefused(message, code="legal_hold_unknown")
    if transaction.has_receipt(_lift_receipt_id(hold_id)):
        return False
    body = {"hold_id": hold_id} | grounds.decide(HOLD_LIFT, hold_target(hold_id), decide)
    transaction.next_commit_time_us()
    append_receipt(transaction, _lift_receipt_id(hold_id), Receipt(HOLD_LIFTED, body), None)
    return True


def hold_on(view: LedgerView, commitment: str) -> LegalHold | None:
    """Return an open hold on a payload, None where it may go.

    A session is searched for the commitment, whoever else commits to it as well, so nobody frees a
    payload by naming it in a session of his own.
    """
    for hold in open_holds(view):
        if hold.subject_kind == "ledger" or hold.subject_id == commitment:
            return hold
        if hold.subject_kind == "thought_session" and _commits(view, hold.subject_id, commitment):
            return hold
    return None


def _expect_subject(view: LedgerView, kind: SubjectKind, subject_id: str) -> None:
    known = {
        "ledger": lambda: not subject_id,
        "thought_session": lambda: view.tables.get(schema.audit_sessions, subject_id) is not None,
        "payload": lambda: view.tables.get(schema.blobs, subject_id) is not None,
    }
    if not known[kind]():
        name = "nothing is named to hold the ledger" if kind == "ledger" else subject_id
        raise ErasureRefused(f"there is no {kind} to hold: {name}")


def _commits(view: LedgerView, session_id: str, commitment: str) -> bool:
    """Tell whether a thought of a session commits to a payload."""
    stated = commitment.encode()
    query = TableQuery(
        schema.thought_records,
        {"session_id": session_id},
        order_by="thought_sequence",
        after=0,
        limit=PAGE_ROWS,
    )
    thoughts = rows_in_pages(view.tables, query)
    return any(stated in row["record_bytes"] for row in thoughts)


def _receipts(view: LedgerView, kind: str) -> list[Mapping[str, Any]]:
    rows = receipts_of_kind(view.tables, kind)
    return [orjson.loads(row["receipt_bytes"]) for row in rows]


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _set_id(hold_id: str) -> str:
    return f"receipt:legal-hold:{hold_id}:set"


def _lift_receipt_id(hold_id: str) -> str:
    return f"receipt:legal-hold:{hold_id}:lifted"
