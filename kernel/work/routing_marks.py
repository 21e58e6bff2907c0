"""Keeps the marks from which routing goes on, a page in a transaction (decision kernel/0283).

A page is no operation. Its receipt says from which mark it went on, and what it wrote is computed
from the state at its place in the chain, when it is recorded and when it is verified.
"""

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.record_keys import routing_mark_key
from kernel.ledger.store.tables import TableQuery
from kernel.work import receipts
from kernel.work.pair_routing import BINDING


def open_marks(view: LedgerView, *, limit: int) -> list[str]:
    """Return marks from which routing has to go on."""
    rows = view.tables.scan(TableQuery(schema.routing_marks, order_by="mark_id", limit=limit))
    return [row["mark_id"] for row in rows]


def is_marked(view: LedgerView, binding_id: str) -> bool:
    """Tell whether artifacts are still to be routed to a binding."""
    return view.tables.get(*routing_mark_key(BINDING, binding_id)) is not None


def record_page(transaction: LedgerTransaction, mark_id: str) -> bool:
    """Record the next page of a mark; False, and nothing recorded, where the mark is gone."""
    row = transaction.tables.get(schema.routing_marks, mark_id)
    if row is None:
        return False
    transaction.next_commit_time_us()
    receipt_id = f"receipt:{transaction.host.new_id()}"
    body = {"mark_id": mark_id, "routed_from": row["routed_to"]}
    receipts.record(transaction, receipts.ROUTED, receipt_id, body)
    return True
