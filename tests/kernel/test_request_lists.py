"""The requests of a queue are listed newest first, in pages, by what is asked of them."""

from typing import Any

import pytest

from kernel.ledger.ledger import Ledger
from kernel.work import request_lists as module
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from kernel.work.request_lists import RequestPage, RequestSearch, list_requests
from kernel.work.requests import State, WorkRequest, enqueue
from tests.kernel.build import create, memory_ledger, submit

SESSION = "session-1"
STATES: tuple[State, ...] = ("open", "completed", "dead_letter", "cancelled")


def recorded(ledger: Ledger, number: int) -> str:
    content = {
        "binding_id": f"b-{number}",
        "source_event_id": f"e-{number % 3}",
        "capacity_priority": "critical" if number % 2 else "background",
    }
    state = STATES[number % 4]
    with ledger.transaction() as transaction:
        [receipt] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, f"k-{number}", content)])
        if state != "open":
            reason = None if state == "completed" else f"Broken {number}"
            close(transaction, receipt.request_id, state, reason=reason)
    return receipt.request_id


@pytest.fixture
def ledger() -> Ledger:
    return memory_ledger()


def page(ledger: Ledger, after: int | None = None, limit: int = 100, **search: Any) -> RequestPage:
    with ledger.view() as view:
        return list_requests(view, BINDING_QUEUE, RequestSearch(**search), after=after, limit=limit)


def of_all(
    ledger: Ledger, after: int | None = None, limit: int = 100, **search: Any
) -> RequestPage:
    with ledger.view() as view:
        return list_requests(view, None, RequestSearch(**search), after=after, limit=limit)


def ids(listed: RequestPage) -> list[str]:
    return [request.request_id for request in listed.requests]


def test_pages_go_through_open_and_closed_requests_newest_first(ledger: Ledger) -> None:
    expected = [recorded(ledger, number) for number in range(11)][::-1]
    assert (ids(page(ledger)), page(ledger).next_after) == (expected, None)
    walked: list[str] = []
    after = None
    while True:
        part = page(ledger, after, limit=4)
        walked += ids(part)
        after = part.next_after
        if after is None:
            break
    assert walked == expected


def test_a_search_compares_state_item_key_priority_age_and_words(ledger: Ledger) -> None:
    recorded_ids = [recorded(ledger, number) for number in range(12)]

    def numbers(**search: Any) -> list[int]:
        return [recorded_ids.index(request_id) for request_id in ids(page(ledger, **search))]

    for place, state in enumerate(STATES):
        assert numbers(state=state) == [place + 8, place + 4, place]
    item = page(ledger, request_key="k-4").requests[0].item_key
    assert numbers(item_key=item) == [10, 7, 4, 1]
    assert numbers(request_key="k-4", item_key=item) == [4]
    assert numbers(request_key="k-5", item_key=item) == []
    assert numbers(priority="critical", state="cancelled") == [11, 7, 3]
    assert numbers(words="bROKEN 1") == [11, 10]
    with ledger.view() as view:
        fifth = view.open_request(recorded_ids[4])
    assert fifth is not None
    assert numbers(from_us=fifth.enqueued_at_us) == [11, 10, 9, 8, 7, 6, 5, 4]
    assert numbers(before_us=fifth.enqueued_at_us) == [3, 2, 1, 0]


def test_a_search_that_fits_little_ends_early_and_says_where_to_go_on(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCANNED_MAX", 3)
    monkeypatch.setattr(module, "SEARCH_ROWS", 2)
    oldest = recorded(ledger, 2)
    for number in range(4, 20, 4):
        recorded(ledger, number)
    first = page(ledger, words="broken 2")
    assert (first.requests, first.next_after is None) == ((), False)
    second = page(ledger, first.next_after, words="broken 2")
    assert ids(second) == [oldest]


def test_the_requests_of_all_queues_are_one_list(ledger: Ledger) -> None:
    submit(ledger, create("u-1", "ConsolidatedUnderstanding", envelope={"session_id": SESSION}))
    bindings = [recorded(ledger, number) for number in range(5)]
    [recompute] = [row.request_id for row in of_all(ledger).requests if row.request_key is None]
    expected = [*bindings[::-1], recompute]
    assert ids(of_all(ledger)) == expected
    first = of_all(ledger, limit=4)
    assert ids(first) + ids(of_all(ledger, first.next_after)) == expected
    assert ids(of_all(ledger, state="open")) == [bindings[4], bindings[0], recompute]
    assert ids(of_all(ledger, state="dead_letter")) == [bindings[2]]
    assert ids(of_all(ledger, request_id=bindings[1])) == [bindings[1]]
    assert ids(of_all(ledger, request_id=bindings[1], request_key="k-2")) == []
    assert ids(of_all(ledger, request_key="k-2")) == [bindings[2]]
    assert ids(of_all(ledger, session_id=SESSION)) == [recompute]
    assert ids(of_all(ledger, item_key="u-1")) == [recompute]
    assert ids(page(ledger, request_id=recompute)) == []
