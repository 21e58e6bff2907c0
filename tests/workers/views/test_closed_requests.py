"""How requests ended by queue adds up with what is recorded and open, and is read once."""

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from kernel.work.requests import WorkRequest, enqueue
from tests.kernel.build import create, drain, submit
from workers.views import closed_requests as module
from workers.views.closed_requests import RequestTally
from workers.views.records import count_requests


def asked(ledger: Ledger, number: int, state: str | None) -> None:
    content = {"binding_id": "b", "source_event_id": f"e-{number}"}
    with ledger.transaction() as transaction:
        [receipt] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, f"k-{number}", content)])
        if state is not None:
            reason = None if state == "completed" else "broken"
            close(transaction, receipt.request_id, state, reason=reason)  # type: ignore[arg-type]


def test_each_queue_is_counted_and_all_add_up(ledger):
    tally = RequestTally()
    with ledger.view() as view:
        assert tally.look(view) == {}
    for number, state in enumerate(("completed", "dead_letter", "cancelled", "completed", None)):
        asked(ledger, number, state)
    submit(ledger, create("u-1", "ConsolidatedUnderstanding"))
    with ledger.view() as view:
        first = tally.look(view)
    assert first == {
        (AUTHORITY_QUEUE, "completed"): 0,
        (AUTHORITY_QUEUE, "dead_letter"): 0,
        (AUTHORITY_QUEUE, "cancelled"): 0,
        (BINDING_QUEUE, "completed"): 2,
        (BINDING_QUEUE, "dead_letter"): 1,
        (BINDING_QUEUE, "cancelled"): 1,
    }
    drain(ledger)
    asked(ledger, 9, "cancelled")
    with ledger.view() as view:
        second, fresh, counts = tally.look(view), RequestTally().look(view), count_requests(view)
    assert second == fresh
    assert second is not None
    assert (second[AUTHORITY_QUEUE, "completed"], second[BINDING_QUEUE, "cancelled"]) == (1, 2)
    for outcome, count in counts["outcomes"].items():
        assert count == sum(n for (_, name), n in second.items() if name == outcome)


def test_a_long_past_is_read_in_several_looks(ledger, monkeypatch):
    monkeypatch.setattr(module, "PAGE_ROWS", 2)
    monkeypatch.setattr(module, "PAGES_MAX", 2)
    for number in range(5):
        asked(ledger, number, "cancelled")
    tally = RequestTally()
    with ledger.view() as view:
        looks = [tally.look(view) for _ in range(4)]
    assert looks[:2] == [None, None]
    assert looks[-1] is not None
    assert looks[-1][BINDING_QUEUE, "cancelled"] == 5
