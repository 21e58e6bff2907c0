"""Keeps requests to recompute: which are open, which are due, how they are closed (§8.2, K12, K19).

A request is written in the transaction of the operation that caused it, and gets its one outcome in
the transaction of the recompute that serves it. A recompute speaks for the snapshot that it read:
it closes the requests caused at or before that sequence and no later one, so work that arrives
while it runs is never lost and never forces it to start again (decision kernel/0005).

A recompute is refused while an understanding that feeds it directly had an open request at that
sequence, so no value mixes old and new inputs. Those further above need not be asked: they have
asked for the ones in between as well (decision kernel/0142). While a cascade is still being written
down (`enqueue_pages.py`) that does not hold yet, and nothing is due.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kernel.authority.cascade import on_cycles
from kernel.authority.graph import dependents_of
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView, Request, requests_query
from kernel.ledger.outbox import end_request
from kernel.ledger.store.buffer import joined_ahead
from kernel.ledger.store.tables import Joined, Row, TableQuery, rows_in_pages
from kernel.model.node_kinds import UNDERSTANDING
from kernel.records.operation_steps import AppliedOperation
from kernel.values.priorities import PRIORITIES_OF

AUTHORITY_QUEUE = "authority-recompute"
CASCADE_QUEUE = "authority-cascade"
"""Cascades too wide for the transaction of their trigger; what is open is written down in pages."""

CASCADES = "cascades"
"""The item of every deferred cascade: they are written down one after the other."""

PRIORITIES = tuple(PRIORITIES_OF[AUTHORITY_QUEUE])
"""Most urgent first (§8.3)."""

DEFAULT_PRIORITY = "background_normal"

RANKS = {name: rank for rank, name in enumerate(PRIORITIES)}
LEAST_URGENT = len(PRIORITIES) - 1

OPEN_CASCADES = requests_query(CASCADE_QUEUE, CASCADES, is_open=True)
"""What `LedgerView.open_requests_of` asks of them."""

_OPEN = {"queue": AUTHORITY_QUEUE, "open": 1}
_ROWS_AT_ONCE = 8
_ANY_SEQUENCE = 2**63 - 1


class RecomputeReadiness(Enum):
    """Whether a recompute as of a sequence may be recorded."""

    READY = "ready"
    CLOSED = "closed"
    """No request that was caused by then is open: the work was done or never asked for."""

    INPUT_PENDING = "input_pending"
    """An understanding above was still waiting for its own recompute at that sequence."""


@dataclass(frozen=True, slots=True)
class Due:
    """Whether a recompute may be recorded, and every open request for its understanding."""

    readiness: RecomputeReadiness
    requests: tuple[Request, ...]
    as_of_sequence: int

    @property
    def served(self) -> list[Request]:
        """The requests that the recompute answers: those caused by the sequence that it read."""
        return [
            request for request in self.requests if request.cause_sequence <= self.as_of_sequence
        ]

    @property
    def most_urgent(self) -> str | None:
        """The priority of the most urgent request, None where none is open."""
        return min(
            (request.priority for request in self.requests), key=RANKS.__getitem__, default=None
        )


def due(view: LedgerView, node_id: str, as_of_sequence: int) -> Due:
    """Tell whether a recompute that read the ledger at a sequence may be recorded now.

    Inside a transaction the same question gets the same answer until the record goes on.
    """
    answers: dict[tuple[str, int], Due] = {}
    if isinstance(view, LedgerTransaction):
        known, head = view.known_of_requests, view.head_now
        at = (head.ec_sequence_number, head.request_sequence, head.receipt_sequence)
        if known.get("due_at") != at:
            known["due_at"], known["due"] = at, {}
        answers = known["due"]
    question = (node_id, as_of_sequence)
    if question not in answers:
        waiting = tuple(view.open_requests_of(AUTHORITY_QUEUE, node_id))
        state = _readiness(view, node_id, as_of_sequence, waiting)
        answers[question] = Due(state, waiting, as_of_sequence)
    return answers[question]


def _readiness(
    view: LedgerView, node_id: str, as_of_sequence: int, waiting: tuple[Request, ...]
) -> RecomputeReadiness:
    if all(request.cause_sequence > as_of_sequence for request in waiting):
        return RecomputeReadiness.CLOSED
    if _cascade_was_open(view, as_of_sequence):
        return RecomputeReadiness.INPUT_PENDING

    def pending(node: str) -> bool:
        return _was_pending(view, AUTHORITY_QUEUE, node, as_of_sequence)

    if any(pending(parent) for parent in view.input_sources(node_id, UNDERSTANDING)):
        return next(iter(_readiness_of(view, [node_id], pending).values()))
    return RecomputeReadiness.READY


def ask_ahead_of_understanding(view: LedgerView, node_id: str, *others: TableQuery) -> None:
    """Ask ahead for a node, for the requests to recompute it, and for `others`."""
    view.ask_ahead(
        joined_ahead(schema.nodes, "node_id", [node_id]),
        joined_ahead(schema.outbox, "item_key", [node_id], _OPEN),
        others=others,
    )


def readiness_queries(items: tuple[Joined, str]) -> list[Joined]:
    """Return what `ready_items` asks of the items of requests, and of what feeds them directly."""
    feeding = {"input_from": UNDERSTANDING}
    fed = joined_ahead(schema.edges, "target_node_id", where=feeding, of=[items])
    sources = (fed, "source_node_id")
    return [
        joined_ahead(schema.nodes, "node_id", of=[items]),
        fed,
        joined_ahead(schema.outbox, "item_key", where=_OPEN, of=[sources]),
    ]


def stale_since(view: LedgerView, node_id: str) -> str | None:
    """Return since when an understanding's recompute is asked for, None where none is (§21.4).

    The stored authority is the previous one until the recompute is recorded.
    """
    waiting = view.open_requests_of(AUTHORITY_QUEUE, node_id)
    return str(waiting[0].document["enqueued_at"]) if waiting else None


def ready_items(view: LedgerView, requests: Iterable[Request]) -> list[Request]:
    """Return the requests that no understanding above them holds back.

    Linear in the requests and in what waits above them.
    """
    recomputes = [request for request in requests if request.queue == AUTHORITY_QUEUE]
    if not recomputes or view.open_requests_of(CASCADE_QUEUE, CASCADES):
        return []
    known = dict.fromkeys((request.item_key for request in recomputes), True)

    def pending(node: str) -> bool:
        if node not in known:
            known[node] = bool(view.open_requests_of(AUTHORITY_QUEUE, node))
        return known[node]

    states = _readiness_of(view, [*known], pending)
    return [
        request for request in recomputes if states[request.item_key] is RecomputeReadiness.READY
    ]


def freed_requests(view: LedgerView, closed: Iterable[str]) -> list[Request]:
    """Return the requests that only these understandings held back."""
    below = {child for node in closed for child in dependents_of(view, node)}
    waiting = (view.open_requests_of(AUTHORITY_QUEUE, node) for node in sorted(below))
    return ready_items(view, [request for requests in waiting for request in requests])


def awaited_requests(view: LedgerView, requests: Sequence[Request]) -> list[Request]:
    """Return what holds these requests back, at any depth, and may become more urgent by them.

    A request makes what waits above it as urgent as itself (`request_recording.py`).
    """
    known = {request.item_key for request in requests}
    waiting = [request.item_key for request in requests if RANKS[request.priority] < LEAST_URGENT]
    awaited: list[Request] = []
    if view.open_requests_of(CASCADE_QUEUE, CASCADES):
        return awaited  # nothing is due, whatever its urgency
    while waiting:
        for parent in view.input_sources(waiting.pop(), UNDERSTANDING):
            if parent not in known:
                known.add(parent)
                above = view.open_requests_of(AUTHORITY_QUEUE, parent)
                awaited += above
                waiting += [parent] if above else []
    return awaited


def _readiness_of(
    view: LedgerView, nodes: list[str], pending: Callable[[str], bool]
) -> dict[str, RecomputeReadiness]:
    """Tell which of these pending nodes wait for one above; members of a cycle do not."""
    above: dict[str, list[str]] = {}
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        if node not in above:
            sources = view.input_sources(node, UNDERSTANDING)
            above[node] = [parent for parent in sources if pending(parent)]
            waiting += above[node]
    cyclic = on_cycles({*above}, above)
    together: dict[str, set[str]] = {}
    states = {}
    for node in nodes:
        parents = set(above[node])
        if node in cyclic:
            parents -= together.setdefault(node, _nodes_on_circles(node, above))
        states[node] = RecomputeReadiness.INPUT_PENDING if parents else RecomputeReadiness.READY
    return states


def _nodes_on_circles(node: str, above: dict[str, list[str]]) -> set[str]:
    """Return the nodes above a node that the node is also above: those on a cycle with it."""

    def walk(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [*above[start]]
        while waiting:
            parent = waiting.pop()
            if parent not in seen:
                seen.add(parent)
                waiting += above[parent]
        return seen

    return {reached for reached in walk(node) if node in walk(reached)}


def close_requests(
    transaction: LedgerTransaction,
    node_id: str,
    as_of_sequence: int,
    *,
    request_ids: Container[str] | None = None,
    **outcome: Any,
) -> list[str]:
    """Give their outcome to the open requests of an item that were caused by a sequence.

    Where ids are given, to those of them alone; the outcome is that of `end_request`.
    """
    closed = []
    for request in transaction.open_requests_of(AUTHORITY_QUEUE, node_id):
        if request.cause_sequence > as_of_sequence:
            continue
        if request_ids is not None and request.request_id not in request_ids:
            continue
        end_request(transaction.tables, request.request_id, **outcome)
        closed.append(request.request_id)
    return closed


def cancel_requests_for_removed(operation: AppliedOperation) -> None:
    """Close the requests for understandings that no longer exist: nobody can serve them."""
    transaction = operation.transaction
    for write in operation.writes if operation.undone else ():
        if write.store == schema.nodes.name and write.post_image_hash is None:
            close_requests(
                transaction,
                write.record_key,
                operation.sequence,
                outcome="cancelled",
                operation_id=operation.operation_id,
                closed_sequence=operation.sequence,
                closed_at_us=transaction.head_now.committed_at_us,
            )


def forget_cascades(transaction: LedgerTransaction) -> None:
    """Forget whether a cascade is deferred, because one was added or closed."""
    transaction.known_of_requests.pop("cascades", None)


def cascades_to_come() -> list[TableQuery]:
    """Return what is asked of deferred cascades wherever a recompute is recorded."""
    waiting = requests_query(CASCADE_QUEUE, CASCADES, is_open=True)
    return [waiting, _newest_closed_query(CASCADE_QUEUE, CASCADES)]


def _cascade_was_open(view: LedgerView, as_of_sequence: int) -> bool:
    """Tell whether a cascade was being written down at a sequence, or has begun since."""
    known = view.known_of_requests if isinstance(view, LedgerTransaction) else {}
    if "cascades" not in known:
        waiting = view.open_requests_of(CASCADE_QUEUE, CASCADES)
        newest = _newest_closed_request(view, CASCADE_QUEUE, CASCADES, _ANY_SEQUENCE)
        outcome = None if newest is None else view.outcome_of(newest["request_id"])
        known["cascades"] = (
            min((request.cause_sequence for request in waiting), default=_ANY_SEQUENCE),
            0 if outcome is None else outcome["closed_sequence"],
        )
    opened, closed = known["cascades"]
    return bool(opened <= as_of_sequence or closed > as_of_sequence)


def _was_pending(view: LedgerView, queue: str, item_key: str, as_of_sequence: int) -> bool:
    waiting = view.open_requests_of(queue, item_key)
    if any(request.cause_sequence <= as_of_sequence for request in waiting):
        return True
    # Requests of an item are closed in their order, so the newest of that time was closed last.
    newest = _newest_closed_request(view, queue, item_key, as_of_sequence)
    outcome = None if newest is None else view.outcome_of(newest["request_id"])
    return outcome is not None and outcome["closed_sequence"] > as_of_sequence


def _newest_closed_query(queue: str, item_key: str) -> TableQuery:
    query = requests_query(queue, item_key, is_open=False)
    return query._replace(descending=True, limit=_ROWS_AT_ONCE)


def _newest_closed_request(
    view: LedgerView, queue: str, item_key: str, as_of_sequence: int
) -> Row | None:
    newest_first = rows_in_pages(view.tables, _newest_closed_query(queue, item_key))
    return next((row for row in newest_first if row["cause_sequence"] <= as_of_sequence), None)
