"""A bulk operation does once to all that fit what was decided once, page by page."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commit import bulk_units as module
from actors.commit.bulk_units import BeginBulkUnit, BulkPageUnit, StopBulkUnit
from actors.commit.work_units import CancelRequestUnit, RequestWorkUnit
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.values.canonical import canonicalize
from kernel.verify import verify
from kernel.work.bulk_operations import (
    BulkOperation,
    BulkRequest,
    bulk_operation,
    list_bulk_operations,
    preview,
    running,
)
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import close
from kernel.work.request_lists import list_requests
from kernel.work.request_search import RequestSearch
from kernel.work.requests import WorkRequest, request_id_of, status_of
from tests.actors.harness import bench_on
from tests.kernel.build import FakeHost, receipts_of_kind
from tests.kernel.extractions import completeness

ACME = RequestSearch(tag="customer=acme")


def do(ledger: Ledger, unit: Any) -> Any:
    with bench_on(ledger) as context:
        return unit.run(context)


def enqueued(ledger: Ledger, count: int, customer: str = "acme", *, first: int = 0) -> list[str]:
    requests = [
        WorkRequest(
            EXTRACTION_QUEUE,
            f"k-{number}",
            {
                "extraction_run_id": f"run-{number}",
                "attempt_number": 1,
                "prior_state": "pending",
                "current_state": "running",
                "state_change_reason": "because",
                **completeness("pending", "running"),
            },
            tags={"customer": customer},
        )
        for number in range(first, first + count)
    ]
    return [receipt.request_id for receipt in do(ledger, RequestWorkUnit(tuple(requests)))]


def begun(ledger: Ledger, verb: Any, search: RequestSearch = ACME, **options: Any) -> BulkOperation:
    request = BulkRequest(verb, search, options.pop("reason", "because"), "ada", **options)
    with ledger.view() as view:
        counted = preview(view, verb, search)
    operation: BulkOperation = do(ledger, BeginBulkUnit(request, counted))
    return operation


def finished(ledger: Ledger, operation: BulkOperation, pages_max: int = 50) -> BulkOperation:
    for _ in range(pages_max):
        if operation.state != "running":
            return operation
        page = do(ledger, BulkPageUnit(operation.bulk_number, operation.cursor))
        operation = page.operation
    raise AssertionError("it goes on for ever")


def states(ledger: Ledger, search: RequestSearch = ACME) -> list[str]:
    with ledger.view() as view:
        page = list_requests(view, search, after=None, limit=500)
    return [request.state for request in page.requests]


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_REQUESTS", 3)


def test_all_that_fit_are_cancelled_by_one_operation_and_no_others(ledger: Ledger) -> None:
    enqueued(ledger, 7)
    enqueued(ledger, 2, "other", first=7)
    with ledger.view() as view:
        before = view.head().ec_sequence_number
        counted = preview(view, "cancel", ACME)
    assert (counted.count, counted.complete, len(counted.samples)) == (7, True, 7)
    operation = finished(ledger, begun(ledger, "cancel"))
    assert (operation.done, operation.refused, operation.ended_meanwhile) == (7, 0, 0)
    assert states(ledger) == ["cancelled"] * 7
    assert states(ledger, RequestSearch(tag="customer=other")) == ["open"] * 2
    with ledger.view() as view:
        assert view.head().ec_sequence_number == before + 1, "one operation decided it"
        status = status_of(view, request_id_of(EXTRACTION_QUEUE, "k-0"))
        assert status is not None
        assert status.settled_operation_id == operation.decided_by_operation_id
        assert (status.settled_by, status.reason) == ("ada", "because")
        assert running(view) == []
        assert list_bulk_operations(view, after=None, limit=5).bulk_operations == (operation,)
        assert verify(view).findings == ()


def test_what_is_asked_for_later_is_left_alone_and_what_ended_meanwhile_is_counted(
    ledger: Ledger,
) -> None:
    ids = enqueued(ledger, 6)
    operation = begun(ledger, "cancel")
    enqueued(ledger, 2, first=6)
    do(ledger, CancelRequestUnit(ids[0], "by hand"))
    operation = finished(ledger, operation)
    assert (operation.done, operation.ended_meanwhile) == (5, 1)
    assert states(ledger) == ["open"] * 2 + ["cancelled"] * 6


def test_a_page_that_is_asked_for_twice_is_done_once(ledger: Ledger) -> None:
    enqueued(ledger, 4)
    operation = begun(ledger, "cancel")
    unit = BulkPageUnit(operation.bulk_number, operation.cursor)
    assert do(ledger, unit).operation.done == 3
    assert do(ledger, unit) is None
    with ledger.view() as view:
        assert bulk_operation(view, operation.bulk_number).done == 3


def test_dead_letters_are_asked_for_anew_or_settled_with_their_tags(ledger: Ledger) -> None:
    for verb, state in (("requeue", "open"), ("dismiss", "dead_letter")):
        first = 0 if verb == "requeue" else 5
        for number, request_id in enumerate(enqueued(ledger, 5, verb, first=first)):
            with ledger.transaction() as transaction:
                reason = "odd" if number == 4 else "broken"
                close(transaction, request_id, "dead_letter", reason=reason)
        search = RequestSearch(tag=f"customer={verb}", error_signature="broken")
        operation = finished(ledger, begun(ledger, verb, search))
        assert (operation.done, operation.ended_meanwhile) == (4, 0)
        tagged = RequestSearch(tag=f"customer={verb}")
        assert states(ledger, tagged).count(state) == (4 if state == "open" else 5)
        with ledger.view() as view:
            standing = RequestSearch(tag=f"customer={verb}", state="standing")
            page = list_requests(view, standing, after=None, limit=9)
            assert [request.reason for request in page.requests] == ["odd"]
    with ledger.view() as view:
        assert verify(view).findings == ()


def test_requests_that_wait_get_another_priority(ledger: Ledger) -> None:
    enqueued(ledger, 4)
    search = RequestSearch(EXTRACTION_QUEUE, tag="customer=acme")
    finished(ledger, begun(ledger, "prioritize", search, priority="background"))
    with ledger.view() as view:
        page = list_requests(view, search, after=None, limit=9)
        assert {request.priority for request in page.requests} == {"background"}
        assert verify(view).findings == ()
    enqueued(ledger, 4)
    assert len(receipts_of_kind(ledger, "work_requested")) == 4, "the same is asked for as before"


def test_what_is_begun_twice_under_a_key_is_begun_once(ledger: Ledger) -> None:
    enqueued(ledger, 5)
    first = begun(ledger, "cancel", idempotency_key="form-1")
    assert begun(ledger, "cancel", idempotency_key="form-1") == first
    assert begun(ledger, "cancel", idempotency_key="form-2").bulk_number != first.bulk_number
    ended = finished(ledger, first)
    assert begun(ledger, "cancel", idempotency_key="form-1") == ended
    with pytest.raises(WorkRefused) as refused:
        begun(ledger, "dismiss", idempotency_key="form-1")
    assert refused.value.code == "work_request_conflict"
    with ledger.view() as view:
        assert len(running(view)) == 1
        assert verify(view).findings == ()


def test_requests_that_are_named_are_cancelled_and_no_others(ledger: Ledger) -> None:
    enqueued(ledger, 5)
    operation = finished(ledger, begun(ledger, "cancel", RequestSearch(numbers="2,4,77")))
    assert (operation.counted, operation.done) == (2, 2)
    assert states(ledger) == ["open", "cancelled", "open", "cancelled", "open"]
    for numbers in ("", "1-2", "x", "-1", "9" * 16, ",".join(["1"] * 257)):
        with pytest.raises(WorkRefused) as refused:
            begun(ledger, "cancel", RequestSearch(numbers=numbers))
        assert refused.value.code == "work_request_invalid"


def test_a_search_of_which_a_later_release_knows_more_is_not_gone_on_with(ledger: Ledger) -> None:
    operation = begun(ledger, "cancel")
    of_later = replace(operation, search={**operation.search, "colour": "red"})
    row = {"ec_sequence_number": operation.bulk_number, "running": 1}
    with ledger.transaction() as transaction:
        transaction.tables.put(
            schema.bulk_operations, row | {"record": canonicalize(asdict(of_later))}
        )
    with ledger.view() as view:
        assert bulk_operation(view, operation.bulk_number) == of_later
        assert running(view) == []


def test_a_bulk_operation_is_stopped_where_it_is(ledger: Ledger) -> None:
    enqueued(ledger, 5)
    operation = begun(ledger, "cancel")
    do(ledger, BulkPageUnit(operation.bulk_number, operation.cursor))
    stopped = do(ledger, StopBulkUnit(operation.bulk_number, "ada"))
    assert (stopped.state, stopped.done, stopped.stopped_by) == ("stopped", 3, "ada")
    assert do(ledger, StopBulkUnit(operation.bulk_number, "bob")) == stopped
    assert do(ledger, BulkPageUnit(operation.bulk_number, stopped.cursor)) is None
    assert states(ledger).count("open") == 2
    with pytest.raises(WorkRefused) as refused:
        do(ledger, StopBulkUnit(12_345, "ada"))
    assert refused.value.code == "bulk_operation_unknown"
    with ledger.view() as view:
        assert verify(view).findings == ()


@pytest.mark.parametrize(
    ("verb", "search", "options", "code"),
    [
        ("cancel", ACME, {"reason": " "}, "work_request_invalid"),
        ("cancel", ACME, {"priority": "normal"}, "work_request_invalid"),
        ("cancel", RequestSearch("nobody"), {}, "work_queue_unknown"),
        ("prioritize", ACME, {"priority": "normal"}, "work_request_invalid"),
        ("prioritize", RequestSearch(BINDING_QUEUE), {"priority": "odd"}, "queue_unknown_priority"),
    ],
)
def test_what_cannot_be_meant_is_refused(ledger, verb, search, options, code) -> None:
    with pytest.raises(WorkRefused) as refused:
        begun(ledger, verb, search, **options)
    assert refused.value.code == code
    with ledger.view() as view:
        assert running(view) == []


@given(
    st.lists(st.sampled_from(["acme", "other"]), min_size=1, max_size=12),
    st.sets(st.integers(0, 11), max_size=4),
)
def test_counts_add_up_whatever_ends_meanwhile(customers, by_hand) -> None:
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    for number, customer in enumerate(customers):
        enqueued(ledger, 1, customer, first=number)
    expected = {number for number, customer in enumerate(customers) if customer == "acme"}
    operation = begun(ledger, "cancel")
    for number in sorted(by_hand):
        if number < len(customers):
            do(ledger, CancelRequestUnit(request_id_of(EXTRACTION_QUEUE, f"k-{number}"), "hand"))
    operation = finished(ledger, operation)
    assert operation.counted == len(expected)
    assert operation.done == len(expected - by_hand)
    assert operation.ended_meanwhile == len(expected & by_hand)
