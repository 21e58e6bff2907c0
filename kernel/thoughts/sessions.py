"""Tells where a session of thoughts stands, and what may happen to it there (seed 002, P2, P3).

A session is open, then finalized, then ended. What each step asks of it is refused here with a code
that says what has to come first; a door answers with it, and applying an operation holds it to the
same rules again.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.thought_receipts import THOUGHTS_MAX
from kernel.proof.thought_chain import CLOSING_TYPE
from kernel.values.errors import KernelError

Document = dict[str, Any]

_NOT_IN: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType(
    {
        ("open", "finalized"): ("audit_session_finalized", "its tree is final; begin another one"),
        ("open", "ended"): ("audit_session_over", "it has ended; begin another one"),
        ("finalized", "open"): ("audit_session_not_finalized", "it is not finalized yet"),
        ("finalized", "ended"): ("audit_session_over", "it has ended"),
    }
)
"""The refusal of what happens in one state, by the state in which a session is."""


class ThoughtRefused(KernelError):
    """A step that does not come next for a session of thoughts or a round; nothing was written."""

    code = "audit_session_unknown"


def session_of(view: LedgerView, session_id: str) -> Row:
    """Return the row of a session of thoughts.

    Raises:
        ThoughtRefused: `audit_session_unknown`.
    """
    row = view.tables.get(schema.audit_sessions, session_id)
    if row is None:
        raise ThoughtRefused(f"no session of thoughts is called {session_id}")
    return row


def check_state(row: Row, state: str) -> None:
    """Refuse what may happen in one state alone where a session is in another."""
    if row["state"] != state:
        code, message = _NOT_IN[state, row["state"]]
        raise ThoughtRefused(f"{row['session_id']}: {message}", code=code)


def check_sealed(row: Row) -> None:
    """Refuse what needs a root where a session has none yet."""
    if row["state"] == "open":
        check_state(row, "finalized")


def check_room(row: Row) -> None:
    """Refuse a further thought of a session that has as many as one may."""
    check_state(row, "open")
    if row["thought_count"] >= THOUGHTS_MAX:
        message = f"a session has at most {THOUGHTS_MAX} thoughts"
        raise ThoughtRefused(message, code="thoughts_too_many")


def check_final(view: LedgerView, row: Row) -> None:
    """Refuse to finalize a session that is not verified up to its closing reflection (P2, P3)."""
    check_state(row, "open")
    count = row["thought_count"]
    if not count:
        message = "a session without a thought has no root; record the closing reflection first"
        raise ThoughtRefused(message, code="audit_session_empty")
    if thought_document(view, row["session_id"], count)["thought_type"] != CLOSING_TYPE:
        message = f"its last thought is no {CLOSING_TYPE}, which has to close the chain"
        raise ThoughtRefused(message, code="thought_reflection_missing")
    if row["verified_count"] < count - 1:
        message = f"its chain was verified up to {row['verified_count']} of {count} thoughts"
        raise ThoughtRefused(message, code="thought_chain_not_verified")


def thought_document(view: LedgerView, session_id: str, sequence: int) -> Document:
    """Return the record of a thought by its place.

    Raises:
        ThoughtRefused: `thought_unknown`.
    """
    row = view.tables.get(schema.thought_records, session_id, sequence)
    if row is None:
        message = f"{session_id} has no thought {sequence}"
        raise ThoughtRefused(message, code="thought_unknown")
    document: Document = orjson.loads(row["record_bytes"])
    return document


def thought_of_id(view: LedgerView, session_id: str, thought_id: str) -> Row | None:
    """Return the row of a thought by its id, None where the session has no such thought."""
    where = {"session_id": session_id, "thought_id": thought_id}
    rows = view.tables.scan(TableQuery(schema.thought_records, where, limit=1))
    return rows[0] if rows else None


def content_commitment(row: Row) -> str:
    """Return the commitment to the content of a thought, by its row."""
    return str(orjson.loads(row["record_bytes"])["content_commitment"])


def open_round(view: LedgerView) -> Row | None:
    """Return the row of the round that is open."""
    newest = newest_round(view)
    return newest if newest is not None and newest["sealed_sequence"] is None else None


def newest_round(view: LedgerView) -> Row | None:
    """Return the row of the round that was opened last."""
    rows = view.tables.scan(TableQuery(schema.rounds, descending=True, limit=1))
    return rows[0] if rows else None


def sessions_of_round(view: LedgerView, round_number: int, *, limit: int) -> list[Document]:
    """Return the sessions of a round as its seal has them, in the order of their seals."""
    query = TableQuery(
        schema.audit_sessions,
        {"round_number": round_number},
        order_by="seal_sequence",
        limit=limit,
    )
    rows = view.tables.scan(query)
    return [_seal_document(row) for row in rows]


def _seal_document(row: Row) -> Document:
    seal = orjson.loads(row["seal_bytes"])
    names = ("session_id", "leaf_count", "eta_root", "rfc6962_root")
    return {name: seal[name] for name in names} | {"seal_sequence": str(row["seal_sequence"])}
