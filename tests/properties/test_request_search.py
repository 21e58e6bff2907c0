"""Whatever was asked for and became of it: a search finds what a plain list finds, in its pages."""

import json
import tempfile
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import Store
from kernel.verify import verify
from kernel.work import request_search as module
from kernel.work.attempts import record_attempt
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.dead_letters import DeadLetterDismissal, dismiss, requeue
from kernel.work.outcomes import close
from kernel.work.request_lists import list_requests
from kernel.work.request_search import RequestSearch
from kernel.work.requests import WorkRequest, enqueue, request_id_of
from tests.kernel.attempts import failed
from tests.kernel.build import FakeHost
from tests.kernel.deciding import deciding
from tests.kernel.extractions import completeness

QUEUES = (BINDING_QUEUE, EXTRACTION_QUEUE)
ITEMS = ("i-0", "i-1", "i-2")
TAGS = ({}, {"customer": "acme"}, {"customer": "acme", "plan": "free"}, {"customer": "b=c"})
REASONS = ("Broken 1", "broken 2", "odd")
ENDS = ("open", "completed", "cancelled", "dead_letter", "requeued", "dismissed")
TICK_US = 1_000_000


@dataclass(frozen=True)
class Asked:
    """A request as the plain list has it."""

    queue: str
    item_key: str
    priority: str
    tags: dict[str, str]
    end: str
    reason: str
    ticks: int
    failed: str | None = None
    """The signature of its newest attempt, where one failed."""


@dataclass(frozen=True)
class Listed:
    """What the model says of a request that is on record."""

    request_id: str
    request_key: str
    work: Asked
    at_us: int = 0
    state: str = field(default="open")
    stands: bool = False
    number: int = 0
    content: str = ""

    def fits(self, search: RequestSearch) -> bool:
        work = self.work
        reason = work.reason if self.state in ("dead_letter", "cancelled") else None
        signatures = [work.reason] if self.state == "dead_letter" else []
        signatures += [] if work.failed is None else [work.failed]
        tags = [f"{key}={value}" for key, value in work.tags.items()]
        return (
            search.queue in (None, work.queue)
            and search.item_key in (None, work.item_key)
            and search.request_key in (None, self.request_key)
            and search.request_id in (None, self.request_id)
            and search.priority in (None, work.priority)
            and (search.tag is None or search.tag in tags)
            and (search.error_signature is None or search.error_signature in signatures)
            and (search.state in (None, self.state) or (search.state == "standing" and self.stands))
            and (search.words is None or search.words.casefold() in (reason or "").casefold())
            and (search.from_us is None or self.at_us >= search.from_us)
            and (search.before_us is None or self.at_us < search.before_us)
            and (search.content_words or "").casefold() in self.content.casefold()
            and (search.numbers is None or self.number in map(int, search.numbers.split(",")))
            and search.session_id is None
        )


ASKED = st.builds(
    Asked,
    st.sampled_from(QUEUES),
    st.sampled_from(ITEMS),
    st.sampled_from(["normal", "critical"]),
    st.sampled_from(TAGS),
    st.sampled_from(ENDS),
    st.sampled_from(REASONS),
    st.integers(0, 2),
    st.sampled_from([None, *REASONS]),
)


def optional(values: Any) -> Any:
    return st.none() | st.sampled_from(values)


SEARCHES = st.builds(
    RequestSearch,
    queue=optional([*QUEUES, "nobody"]),
    item_key=optional([*ITEMS, "nobody"]),
    request_key=st.sampled_from([None] * 6 + ["k-1", "k-3"]),
    tag=optional(["customer=acme", "plan=free", "customer=b=c", "customer=nobody"]),
    error_signature=optional([*REASONS, "nobody"]),
    state=optional(["open", "completed", "dead_letter", "cancelled", "standing"]),
    priority=st.sampled_from([None, None, None, "critical"]),
    words=st.sampled_from([None, None, None, "BROKEN", "odd"]),
    content_words=st.sampled_from([None, None, None, '"B-1', "I-0", "because"]),
    numbers=st.sampled_from([None, None, None, "2", "1,3,3,5", "900"]),
    from_us=st.none() | st.integers(0, 30),
    before_us=st.none() | st.integers(0, 30),
)


def content_of(work: Asked, number: int) -> dict[str, Any]:
    if work.queue == BINDING_QUEUE:
        priority = "critical" if work.priority == "critical" else "background"
        return {
            "binding_id": f"b-{number}",
            "source_event_id": work.item_key,
            "capacity_priority": priority,
        }
    return {
        "extraction_run_id": work.item_key,
        "attempt_number": 1,
        "prior_state": "pending",
        "current_state": "running",
        "state_change_reason": "because",
        **completeness("pending", "running"),
    }


def recorded(ledger: Ledger, host: FakeHost, requests: list[Asked]) -> list[Listed]:
    """Record what was asked for; return the plain list, newest first."""
    listed: list[Listed] = []
    for number, asked_for in enumerate(requests):
        host.time_us += asked_for.ticks * TICK_US
        key = f"k-{number}"
        is_extraction = asked_for.queue == EXTRACTION_QUEUE
        priority = {"normal": "normal", "critical": "user_initiated"}[asked_for.priority]
        request = WorkRequest(
            asked_for.queue,
            key,
            content_of(asked_for, number),
            priority if is_extraction else None,
            tags=asked_for.tags,
        )
        with ledger.transaction() as transaction:
            [receipt] = enqueue(transaction, [request])
            at_us = transaction.head_now.committed_at_us
        content = json.dumps(request.content)
        listed += [
            replace(each, content=content)
            for each in ended(ledger, asked_for, receipt.request_id, key, at_us)
        ]
    listed.sort(key=lambda each: each.at_us, reverse=True)
    return [
        replace(each, work=as_recorded(each.work), number=len(listed) - place)
        for place, each in enumerate(listed)
    ]


def as_recorded(work: Asked) -> Asked:
    names = {
        BINDING_QUEUE: {"normal": "background", "critical": "critical"},
        EXTRACTION_QUEUE: {"normal": "normal", "critical": "user_initiated"},
    }
    return replace(work, priority=names[work.queue][work.priority])


def ended(ledger: Ledger, work: Asked, request_id: str, key: str, at_us: int) -> list[Listed]:
    """Let a request end as the list says; return it and what asks for it anew."""
    of_end = {"requeued": "dead_letter", "dismissed": "dead_letter"}
    state: Any = of_end.get(work.end, work.end)
    if work.failed is not None:
        report = failed(request_id, signature=work.failed)
        with ledger.transaction() as transaction:
            request = transaction.open_request(request_id)
            assert request is not None
            record_attempt(transaction, request, report)
    first = Listed(request_id, key, work, at_us, state, work.end == "dead_letter")
    if state == "open":
        return [first]
    reason = None if state == "completed" else work.reason
    with ledger.transaction() as transaction:
        close(transaction, request_id, state, reason=reason)
    if work.end == "dismissed":
        with ledger.transaction() as transaction:
            dismissal = DeadLetterDismissal("settled", "ada")
            dismiss(transaction, work.queue, [request_id], dismissal, deciding(transaction))
    if work.end != "requeued":
        return [first]
    with ledger.transaction() as transaction:
        [again] = requeue(transaction, work.queue, [request_id], "", deciding(transaction))
        at_us = transaction.head_now.committed_at_us
    anew = replace(work, end="open", failed=None)
    return [first, Listed(again.request_id, f"requeue:{request_id}", anew, at_us, "open")]


def walked(ledger: Ledger, search: RequestSearch, limit: int) -> list[str]:
    """Return what all pages of a search have, and check what each says of itself."""
    ids: list[str] = []
    after, pages = None, 0
    while True:
        with ledger.view() as view:
            page = list_requests(view, search, after=after, limit=limit)
        assert page.complete or page.next_after is not None, "it never ends before its end"
        assert len(page.requests) <= limit
        if page.complete and page.next_after is not None:
            assert len(page.requests) == limit
        ids += [request.request_id for request in page.requests]
        after, pages = page.next_after, pages + 1
        assert pages < 500
        if after is None:
            return ids


def check(store: Store, requests: list[Asked], searches: list[RequestSearch], limit: int) -> None:
    host = FakeHost()
    with closing(Ledger.create(store, host.host)) as ledger:
        begun_us = host.time_us
        listed = recorded(ledger, host, requests)
        for stated in searches:
            search = replace(
                stated,
                from_us=None if stated.from_us is None else begun_us + stated.from_us * TICK_US,
                before_us=None
                if stated.before_us is None
                else begun_us + stated.before_us * TICK_US,
            )
            expected = [each.request_id for each in listed if each.fits(search)]
            assert walked(ledger, search, limit) == expected, search
        with ledger.view() as view:
            assert verify(view).findings == ()


@pytest.fixture(params=["few", "many"])
def bounds(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a call is ended by its bounds at once, or by none."""
    if request.param == "few":
        monkeypatch.setattr(module, "ROWS_MAX", 2)
        monkeypatch.setattr(module, "ENTRIES_MAX", 3)
        monkeypatch.setattr(module, "FAILURES_MAX", 2)
        monkeypatch.setattr(module, "SEARCH_ROWS", 2)
        monkeypatch.setattr(module, "FIRST_ROWS", 1)


WORLDS = (st.lists(ASKED, max_size=14), st.lists(SEARCHES, min_size=4, max_size=12))


@pytest.mark.usefixtures("bounds")
@settings(max_examples=settings().max_examples // 2)
@given(*WORLDS, st.integers(1, 4))
def test_a_search_finds_what_a_plain_list_finds_in_memory(requests, searches, limit):
    check(MemoryStore(), requests, searches, limit)


@pytest.mark.usefixtures("bounds")
@settings(max_examples=settings().max_examples // 4)
@given(*WORLDS, st.integers(1, 4))
def test_a_search_finds_what_a_plain_list_finds_on_sqlite(requests, searches, limit):
    with tempfile.TemporaryDirectory() as folder:
        check(SqliteStore(Path(folder) / "ledger.db"), requests, searches, limit)


@settings(max_examples=5)
@given(*WORLDS, st.integers(1, 4))
def test_a_search_finds_what_a_plain_list_finds_on_postgresql(postgres, requests, searches, limit):
    stores = pytest.importorskip("kernel.ledger.postgres.store", reason="the driver is missing")
    check(stores.PostgresStore(postgres.new_database()), requests, searches, limit)


def test_the_key_of_a_request_is_found_in_each_queue_that_has_it():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    requests = [Asked(queue, "i-0", "normal", {}, "open", "", 0) for queue in QUEUES]
    recorded(ledger, host, requests)
    assert walked(ledger, RequestSearch(request_key="k-1"), 5) == [
        request_id_of(EXTRACTION_QUEUE, "k-1")
    ]
