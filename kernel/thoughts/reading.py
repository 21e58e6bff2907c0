"""Reads Sessions of thoughts and rounds as the record has them."""

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import PAGE_ROWS, Row, TableQuery
from kernel.proof.eta_tree import eta_path
from kernel.proof.thought_chain import ThoughtChainBroken, chain_head
from kernel.thoughts.sessions import newest_round, session_of
from kernel.values.canonical import GENESIS_HASH
from kernel.values.errors import LedgerCorrupt


def thought_rows(view: LedgerView, session_id: str, *, after: int, limit: int) -> list[Row]:
    """Return the thoughts of a session behind a place, in their order."""
    where = {"session_id": session_id}
    return view.tables.scan(TableQuery(schema.thought_records, where, after=after, limit=limit))


def round_rows(view: LedgerView, *, after: int, limit: int) -> list[Row]:
    """Return rounds behind a number, in their order."""
    return view.tables.scan(TableQuery(schema.rounds, after=after, limit=limit))


def open_round_age_us(view: LedgerView, now_us: int) -> int | None:
    """Return how long the open round has been open, None where none is or it has no session."""
    row = newest_round(view)
    if row is None or row["sealed_sequence"] is not None or not row["session_count"]:
        return None
    return now_us - int(row["opened_at_us"])


def thought_path(view: LedgerView, session_id: str, sequence: int, count: int) -> list[bytes]:
    """Return the path from a thought to the root of its finalized session; reads a row a level.

    Raises:
        LedgerCorrupt: a node is not there.
    """

    def read(index: int) -> bytes:
        row = view.tables.get(schema.merkle_nodes, session_id, index)
        if row is None:
            raise LedgerCorrupt(f"node {index} of {session_id} is missing")
        return bytes(row["hash"])

    return eta_path(sequence - 1, count, read)


def read_chain(view: LedgerView, session_id: str) -> tuple[int, str]:
    """Return how many thoughts the chain of a session has, and its head; linear in their number.

    Raises:
        ThoughtRefused: `audit_session_unknown`.
        LedgerCorrupt: a record does not follow the one before, or the last is not the one that the
            session's row names.
    """
    row = session_of(view, session_id)
    count, head = 0, GENESIS_HASH
    page = [row]
    while page:
        query = TableQuery(
            schema.thought_records, {"session_id": session_id}, after=count, limit=PAGE_ROWS
        )
        page = view.tables.scan(query)
        try:
            head = chain_head((bytes(row["record_bytes"]) for row in page), after=count, head=head)
        except ThoughtChainBroken as broken:
            raise LedgerCorrupt(f"the chain of {session_id}: {broken}") from broken
        count += len(page)
    if (count, head) != (row["thought_count"], row["zeta_head"]):
        raise LedgerCorrupt(f"the chain of {session_id} does not end where its row says")
    return count, head
