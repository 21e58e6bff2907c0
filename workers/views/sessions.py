"""A session on one page: where it stands, its trail, its operations, the gateway that owns it."""

from dataclasses import dataclass

from actors.sharding.assignment import shard_of
from kernel.audit.operations import AuditFilter
from kernel.ledger.ledger import LedgerView
from kernel.ledger.shards import shards_of
from workers.views.audit import OperationPageDocument, newest_operations_page
from workers.views.session_lists import (
    SessionSummaryDocument,
    TrailDocument,
    session_summary,
    session_trail,
)

OPERATIONS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as the record has it."""

    summary: SessionSummaryDocument | None
    """None where it declared no hypotheses."""

    trail: TrailDocument
    first: int
    """The number of entries before those of the trail that are shown."""

    operations: OperationPageDocument
    owner: str | None
    """The gateway that owns it, empty where nobody does; None where gateways share nothing."""


def session_view(
    view: LedgerView, session_id: str, *, before: int | None, limit: int
) -> SessionView | None:
    """Return a session with the entries of its trail up to the number `before`, or the newest.

    None where the record knows neither hypotheses nor operations of it.
    """
    summary = session_summary(view, session_id)
    of_session = AuditFilter(session_id=session_id)
    operations = newest_operations_page(view, of_session, None, OPERATIONS_SHOWN)
    if summary is None and not operations["operations"]:
        return None
    entries = 0 if summary is None else summary["n_events"]
    last = entries if before is None else min(before, entries)
    first = max(0, last - limit)
    trail = session_trail(view, session_id, first, last - first)
    shards = shards_of(view)
    owner = shards[shard_of(session_id, len(shards))].owner if shards else None
    return SessionView(summary, trail, first, operations, owner)
