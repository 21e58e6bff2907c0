"""Tags of a request are bounded, on the record with it, and cost nothing where there are none."""

from typing import Any

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from kernel.work.contents import BINDING_QUEUE
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import close
from kernel.work.requests import WorkRequest, enqueue, status_of
from tests.kernel.build import memory_ledger, receipts_of_kind


def asked(ledger: Ledger, key: str, tags: dict[str, Any]) -> str:
    content = {"binding_id": key, "source_event_id": "e", "capacity_priority": "critical"}
    with ledger.transaction() as transaction:
        [receipt] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, key, content, tags=tags)])
    return receipt.request_id


def tag_rows(ledger: Ledger) -> list[tuple[str, int]]:
    with ledger.view() as view:
        return view.tables.scan(TableQuery(schema.request_tags, columns=("tag", "state")))


def test_tags_are_on_the_record_with_the_request_and_follow_its_state() -> None:
    ledger = memory_ledger()
    request_id = asked(ledger, "k", {"plan": "free", "customer": "a=c"})
    assert sorted(tag_rows(ledger)) == [("customer=a=c", 1), ("plan=free", 1)]
    with ledger.transaction() as transaction:
        close(transaction, request_id, "completed")
    assert {state for _, state in tag_rows(ledger)} == {0}
    [receipt] = receipts_of_kind(ledger, "work_requested")
    assert receipt["tags"] == {"plan": "free", "customer": "a=c"}
    with ledger.view() as view:
        status = status_of(view, request_id)
        assert verify(view).ok
    assert status is not None
    assert status.tags == receipt["tags"]


def test_a_request_without_tags_has_no_row_and_no_field_of_them() -> None:
    ledger = memory_ledger()
    asked(ledger, "k", {})
    assert tag_rows(ledger) == []
    with ledger.view() as view:
        [request] = view.open_requests()
    assert "tags" not in request.document
    assert "tags" not in receipts_of_kind(ledger, "work_requested")[0]


@pytest.mark.parametrize(
    "tags",
    [
        {f"k{number}": "v" for number in range(17)},
        {"": "v"},
        {"1k": "v"},
        {"a=b": "v"},
        {"k" * 65: "v"},
        {"kä": "v"},
        {"k": ""},
        {"k": "v" * 129},
        {"k": "a\x00b"},
        {"k": "a\nb"},
        {"k": "\ud800"},
    ],
)
def test_tags_beyond_their_bounds_are_refused_and_nothing_is_recorded(tags: Any) -> None:
    ledger = memory_ledger()
    with pytest.raises(WorkRefused) as refused:
        asked(ledger, "k", tags)
    assert (refused.value.code, refused.value.index) == ("work_tags_invalid", 0)
    assert tag_rows(ledger) == []


def test_as_many_and_as_long_tags_as_there_may_be_are_taken() -> None:
    ledger = memory_ledger()
    asked(ledger, "k", {f"k{number}".ljust(64, "x"): "ü" * 128 for number in range(16)})
    assert len(tag_rows(ledger)) == 16


def test_the_same_key_with_other_tags_asks_for_something_else() -> None:
    ledger = memory_ledger()
    first = asked(ledger, "k", {"a": "1"})
    assert asked(ledger, "k", {"a": "1"}) == first
    with pytest.raises(WorkRefused, match="something else"):
        asked(ledger, "k", {"a": "2"})


@pytest.mark.parametrize("change", ["gone", "other", "more"])
def test_verification_finds_tags_that_the_record_does_not_give(change: str) -> None:
    ledger = memory_ledger()
    asked(ledger, "k", {"a": "1", "b": "2"})
    with ledger.transaction() as transaction:
        tables = transaction.tables
        if change == "gone":
            tables.delete(schema.request_tags, 1, "a=1")
        elif change == "other":
            tables.update(schema.request_tags, (1, "a=1"), {"state": 0})
        else:
            row = {"request_sequence": 1, "tag": "c=3", "queue": BINDING_QUEUE, "state": 1}
            tables.insert(schema.request_tags, row)
    with ledger.view() as view:
        tables_named = {finding.table for finding in verify(view).findings}
    assert tables_named == {"request_tags"}
