"""Counts the requests of each queue as they stood behind a row of the log, before the next one.

Of the requests that were asked for by then, the index of states says how each stands now. Those
that ended since were open: they are looked for among the outcomes behind the row until all of them
are there, because how many they are is known from the outcomes up to it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.outbox import OPEN, STATE_OF, STATES, states_of
from kernel.ledger.past_rows import StateAsOfUnknown, check_sequence
from kernel.ledger.store.tables import PAGE_ROWS, TableQuery, distinct_values
from kernel.work.request_search import first_request_caused_at

OUTCOMES_READ_MAX: Final = 20_000
"""Outcomes behind the row that are read to find those of the requests that it saw open."""

_OUTCOME_OF: Final = {
    OPEN: "open",
    **{state: outcome for outcome in STATE_OF for state in states_of(outcome)},
}


@dataclass(frozen=True, slots=True)
class QueueAsOf:
    """How many requests of a queue were open, and how many had ended in which way."""

    queue: str
    open: int
    completed: int
    cancelled: int
    dead_letter: int
    """Given up, also where that is settled now."""


def queues_as_of(view: LedgerView, sequence: int) -> list[QueueAsOf]:
    """Return the counts of each queue that had been asked by then, by its name.

    Raises:
        StateAsOfUnknown: the log has no such row, or too much has ended since before what it saw.
    """
    check_sequence(view, sequence)
    beyond = first_request_caused_at(view, sequence + 1)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for state in STATES:
        of_state = TableQuery(schema.outbox, {"state": state}, columns=("queue",))
        for queue in distinct_values(view.tables, of_state):
            counted = TableQuery(
                schema.outbox,
                {"state": state, "queue": queue},
                columns=("request_sequence",),
                order_by="request_sequence",
                after=beyond,
                descending=True,
            )
            counts[queue][_OUTCOME_OF[state]] += view.tables.count(counted)
    for queue, outcome in _ended_since(view, sequence, beyond, counts):
        counts[queue][outcome] -= 1
        counts[queue]["open"] += 1
    return [
        QueueAsOf(queue, *(counted[name] for name in ("open", *STATE_OF)))
        for queue, counted in sorted(counts.items())
        if counted.total()
    ]


def _ended_since(
    view: LedgerView, sequence: int, beyond: int, counts: dict[str, Counter[str]]
) -> Iterator[tuple[str, str]]:
    """Yield the queue and the outcome of each request that was open then and is not now."""
    ended_by_now = sum(counted.total() - counted["open"] for counted in counts.values())
    ended_by_then = view.tables.count(
        TableQuery(
            schema.outbox_outcomes,
            columns=("closed_sequence",),
            order_by="closed_sequence",
            after=sequence + 1,
            descending=True,
        )
    )
    left = ended_by_now - ended_by_then
    query = TableQuery(
        schema.outbox_outcomes,
        columns=("request_id", "outcome", "closed_sequence"),
        order_by="closed_sequence",
        after=sequence,
        # A row may end many requests, and a page goes on behind a row: one more look at the last.
        limit=OUTCOMES_READ_MAX,
    )
    if not left:
        return
    outcomes = {request_id: outcome for request_id, outcome, _ in view.tables.scan(query)}
    names = [*outcomes]
    for start in range(0, len(names), PAGE_ROWS):
        of_requests = TableQuery(
            schema.outbox,
            any_of=("request_id", names[start : start + PAGE_ROWS]),
            columns=("request_id", "queue", "request_sequence"),
        )
        for request_id, queue, request_sequence in view.tables.scan(of_requests):
            if request_sequence < beyond:
                left -= 1
                yield queue, outcomes[request_id]
        if not left:
            return
    message = (
        f"more than {OUTCOMES_READ_MAX} requests ended since row {sequence}, and among them not all"
        " that were open then: ask for a later row"
    )
    raise StateAsOfUnknown(message, code="state_as_of_too_far")
