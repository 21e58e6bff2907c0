"""Sessions are listed the last changed first, in pages that lose none of those of one commit."""

from typing import Any

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from tests.kernel.build import memory_ledger
from workers.views import session_lists as module
from workers.views.session_lists import find_sessions

AT_US = (5, 3, 3, 3, 9, 3, 1)
"""When each session changed last; four of them with one commit."""

NEWEST_FIRST = [4, 0, 5, 3, 2, 1, 6]


@pytest.fixture
def ledger() -> Ledger:
    ledger = memory_ledger()
    with ledger.transaction() as transaction:
        for number, at_us in enumerate(AT_US):
            row = {"session_id": f"s:{number}", "title": f"Case {number}", "updated_at_us": at_us}
            row |= {"n_universe": 2, "n_survivors": 1, "n_events": 1, "head_event_hash": "0" * 64}
            row |= {"terminated": 0, "successor_id": None}
            transaction.tables.put(schema.belief_sessions, row | {"survivors_shown": b'["h"]'})
    return ledger


def walked(ledger: Ledger, limit: int, words: str | None = None) -> list[int]:
    numbers: list[int] = []
    after = None
    with ledger.view() as view:
        while True:
            page: Any = find_sessions(view, words, after=after, limit=limit)
            assert len(page["sessions"]) <= limit
            numbers += [int(row["session_id"][2:]) for row in page["sessions"]]
            after = page["next_after"]
            if after is None:
                return numbers


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("rows", [1, 2, 3, 200])
def test_pages_go_through_all_sessions(ledger, monkeypatch, limit, rows):
    monkeypatch.setattr(module, "SEARCH_ROWS", rows)
    assert walked(ledger, limit) == NEWEST_FIRST


def test_a_search_compares_ids_and_titles_and_says_where_to_go_on(ledger, monkeypatch):
    monkeypatch.setattr(module, "SCANNED_MAX", 2)
    assert walked(ledger, 10, words="cASE 3") == [3]
    assert walked(ledger, 10, words="s:6") == [6]
    with ledger.view() as view:
        first = find_sessions(view, "s:6", after=None, limit=10)
        assert (first["sessions"], first["next_after"]) == ([], "5:s:0")


@pytest.mark.parametrize("after", ["", "x", "-1:s", "²:s", "9" * 30 + ":s", ":"])
def test_a_place_that_is_none_begins_at_the_newest(ledger, after):
    with ledger.view() as view:
        page = find_sessions(view, None, after=after, limit=1)
    assert page["sessions"][0]["session_id"] == "s:4"
