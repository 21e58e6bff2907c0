"""The chain of a session read again from its stored records, in pages (`audit_verify_chain`)."""

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.proof.thought_chain import ThoughtChainBroken, chain_head
from kernel.thoughts.sessions import session_of
from kernel.values.canonical import GENESIS_HASH
from kernel.values.errors import LedgerCorrupt

PAGE_ROWS = 1000


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
