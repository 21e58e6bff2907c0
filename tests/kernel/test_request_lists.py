"""The requests of a queue are listed newest first, in pages, by what is asked of them."""

from typing import Any

import pytest

from kernel.ledger.ledger import Ledger
from kernel.work import request_search as module
from kernel.work.attempts import record_attempt
from kernel.work.contents import BINDING_QUEUE
from kernel.work.dead_letters import dead_letters
from kernel.work.outcomes import close
from kernel.work.request_lists import RequestPage, list_requests
from kernel.work.request_search import RequestSearch, count_requests
from kernel.work.requests import State, WorkRequest, enqueue
from tests.kernel.attempts import failed
from tests.kernel.build import create, submit

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


def page(ledger: Ledger, after: int | None = None, limit: int = 100, **search: Any) -> RequestPage:
    with ledger.view() as view:
        stated = RequestSearch(BINDING_QUEUE, **search)
        return list_requests(view, stated, after=after, limit=limit)


def of_all(
    ledger: Ledger, after: int | None = None, limit: int = 100, **search: Any
) -> RequestPage:
    with ledger.view() as view:
        return list_requests(view, RequestSearch(**search), after=after, limit=limit)


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
    monkeypatch.setattr(module, "ROWS_MAX", 3)
    monkeypatch.setattr(module, "SEARCH_ROWS", 2)
    oldest = recorded(ledger, 2)
    for number in range(4, 20, 4):
        recorded(ledger, number)
    first = page(ledger, words="broken 2")
    assert (first.requests, first.next_after is None, first.complete) == ((), False, False)
    second = page(ledger, first.next_after, words="broken 2")
    assert ids(second) == [oldest]


def failing(ledger: Ledger, number: int, signature: str) -> str:
    """Return a request whose newest attempt failed with a signature; it ends as its number says."""
    content = {"binding_id": f"b-{number}", "source_event_id": f"e-{number}"}
    content["capacity_priority"] = "background"
    state = STATES[number % 4]
    with ledger.transaction() as transaction:
        [receipt] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, f"f-{number}", content)])
        request = transaction.open_request(receipt.request_id)
        assert request is not None
        record_attempt(transaction, request, failed(receipt.request_id, signature=signature))
        if state != "open":
            reason = {"dead_letter": "code"}.get(state)
            close(transaction, receipt.request_id, state, reason=reason)
    return receipt.request_id


def test_a_signature_finds_what_failed_last_with_it_whatever_became_of_it(ledger: Ledger) -> None:
    of_states = [failing(ledger, number, "E in f: #") for number in range(4)]
    waits, done, given_up, cancelled = of_states
    failing(ledger, 4, "other")
    by_reason = recorded(ledger, 6)
    for queue in (BINDING_QUEUE, None):

        def of(queue: str | None = queue, **search: Any) -> list[str]:
            return ids(of_all(ledger, queue=queue, **search))

        assert of(error_signature="E in f: #") == of_states[::-1]
        assert of(error_signature="E in f: #", state="open") == [waits]
        assert of(error_signature="E in f: #", state="completed") == [done]
        assert of(error_signature="E in f: #", state="standing") == [given_up]
        assert of(error_signature="E in f: #", state="cancelled") == [cancelled]
        assert of(error_signature="E in f: #", request_key="f-0") == [waits]
        assert of(error_signature="code") == [given_up], "why it was given up"
        assert of(error_signature="Broken 6", state="dead_letter") == [by_reason]
    with ledger.view() as view:
        by_hand = dead_letters(view, None, error_signature="E in f: #", after=None, limit=9)
    assert [letter.request_id for letter in by_hand.dead_letters] == [given_up]


def test_a_bound_ends_a_look_for_a_state_of_what_failed_and_says_where_to_go_on(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FAILURES_MAX", 2)
    oldest = failing(ledger, 0, "E")
    for number in range(1, 20, 4):
        failing(ledger, number, "E")
    first = page(ledger, error_signature="E", state="open")
    assert (first.requests, first.next_after is None, first.complete) == ((), False, False)
    pages = [first]
    while pages[-1].next_after is not None:
        pages.append(page(ledger, pages[-1].next_after, error_signature="E", state="open"))
    assert [ids(each) for each in pages if each.requests] == [[oldest]]
    assert len(pages) == 3
    with ledger.view() as view:
        assert count_requests(view, RequestSearch(error_signature="E"), 9) == (6, True)
        search = RequestSearch(error_signature="E", state="open")
        assert count_requests(view, search, 9) == (0, False)


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
