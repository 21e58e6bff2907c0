"""What is asked ahead of a snapshot changes no answer, and costs one round trip where it is far."""

import itertools

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.buffer import joined_ahead
from kernel.ledger.store.tables import TableQuery
from tests.connections import watch_postgres
from tests.kernel.build import FakeHost

QUEUES, ITEMS = ("a", "b"), ("x", "y", "z")
UNKNOWN = ("", "nobody", "with\x00zero", "half\ud800")
_BY_ITEM = TableQuery(schema.outbox, {"queue": "a", "open": 1})
_BY_QUEUE = TableQuery(schema.outbox, columns=("request_id",), order_by="request_sequence")


@pytest.fixture
def ledger(store):
    ledger = Ledger.create(store, FakeHost().host)
    with store.transaction() as tables:
        for number, (queue, item, _) in enumerate(itertools.product(QUEUES, ITEMS, range(3))):
            names = {"request_id": f"request-{number}", "queue": queue, "item_key": item}
            numbers = {"cause_sequence": 1, "open": 1, "state": 1, "enqueued_at_us": 1}
            row = {**names, **numbers, "request_sequence": 90 - number, "priority": "p"}
            tables.insert(schema.outbox, {**row, "request_bytes": b"{}"})
        outcome = {"request_id": "request-4", "outcome": "completed", "operation_id": None}
        tables.insert(schema.outbox_outcomes, {**outcome, "closed_sequence": 1, "closed_at_us": 1})
    return ledger


def ask(view, name):
    """Ask ahead for everything that `answers` asks."""
    requests = joined_ahead(schema.outbox, "item_key", [name], _BY_ITEM.where)
    view.ask_ahead(
        requests,
        joined_ahead(schema.outbox, "request_id", [name]),
        joined_ahead(schema.outbox_outcomes, "request_id", of=[(requests, "request_id")]),
        others=[_BY_QUEUE._replace(where={"queue": name}, limit=2)],
        counts=[TableQuery(schema.outbox, {"queue": name})],
    )


def answers(view, name):
    tables, rows = view.tables, []
    item = _BY_ITEM._replace(where={**_BY_ITEM.where, "item_key": name})
    for descending, limit in itertools.product((False, True), (None, 1, 2)):
        ordered = item._replace(order_by="request_sequence", descending=descending, limit=limit)
        rows += tables.scan(ordered)
        rows += tables.scan(ordered._replace(after=86, columns=("request_sequence", "queue")))
    rows += tables.scan(_BY_QUEUE._replace(where={"queue": name}, limit=2))
    rows += [
        tables.get(schema.outbox, name),
        tables.count(TableQuery(schema.outbox, {"queue": name})),
    ]
    named = [row["request_id"] for row in tables.scan(item)]
    return rows + [tables.get(schema.outbox_outcomes, request_id) for request_id in named]


@pytest.mark.parametrize("name", [*QUEUES, *ITEMS, "request-4", *UNKNOWN], ids=ascii)
def test_what_is_asked_ahead_changes_no_answer(ledger, name):
    def with_questions(view):
        ask(view, name)
        return answers(view, name)

    expected = ledger.read(lambda view: answers(view, name))
    assert ledger.read(with_questions) == expected


def test_a_number_that_no_store_can_hold_is_asked_ahead_without_harm(ledger):
    def read(view):
        view.ask_ahead(joined_ahead(schema.outbox, "request_sequence", [2**70, 3]))
        return view.head()

    assert ledger.read(read) == ledger.read(LedgerView.head)


def test_all_that_is_asked_ahead_costs_one_message(monkeypatch, postgres_url):
    postgres = pytest.importorskip("kernel.ledger.postgres.store")
    connections = watch_postgres(monkeypatch)
    store = postgres.PostgresStore(postgres_url)
    ledger = Ledger.create(store, FakeHost().host)

    def read(view):
        before = connections.messages
        ask(view, "x")
        answers(view, "x")
        ask(view, "x")
        return connections.messages - before

    assert ledger.read(read) == 1
    store.close()
