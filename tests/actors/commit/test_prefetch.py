"""What a batch will read is read in one go, and nothing changes by it."""

from contextlib import contextmanager

import pytest

from actors.commit.prefetch import records_of_envelope
from actors.commit.recompute_units import RecomputeUnit
from actors.commit.units import EnvelopeUnit, IntentUnit
from kernel.authority.read_ahead import Around, read_ahead
from kernel.authority.requests import AUTHORITY_QUEUE, CASCADE_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.model.result import SubmissionResult
from tests.actors.harness import dump, running_committer
from tests.actors.intents import adapt, claim, link, put, recalculation, source, understanding
from tests.kernel.build import FakeHost, create

pytestmark = pytest.mark.anyio

ONCE_A_BATCH = {
    *("chain_head", "policy_snapshots", "daily_operation_counts"),
    "rollbacks_under_way",
    "applied_effects",
}
"""Tables that a transaction asks for rows of, whatever its units are."""


class Listening:
    """Tables that note what they are asked for one by one."""

    def __init__(self, tables, lookups, in_bulk):
        self._tables, self._asked, self._in_bulk = tables, lookups, in_bulk

    def __getattr__(self, name):
        return getattr(self._tables, name)

    def get(self, table, *key):
        self._asked.append((table.name, key))
        return self._tables.get(table, *key)

    def scan(self, query):
        name, where = query.table.name, query.where
        rows = self._tables.scan(query)
        if query.any_of is not None:
            self._in_bulk.append((name, query.any_of[0], len(rows)))
            return rows
        # Whether there are overlays at all, or deferred cascades, is asked once a batch.
        once = where == {"overlay_in_force": 1} or where.get("queue") == CASCADE_QUEUE
        if not once:
            self._asked.append((name, where))
        return rows


class ListeningStore:
    def __init__(self):
        self._inner = MemoryStore()
        self.asked = []
        self.in_bulk = []

    @contextmanager
    def view(self):
        with self._inner.view() as tables:
            yield Listening(tables, self.asked, self.in_bulk)

    @contextmanager
    def transaction(self):
        with self._inner.transaction() as tables:
            yield Listening(tables, self.asked, self.in_bulk)


@pytest.fixture
def store():
    return ListeningStore()


@pytest.fixture
def ledger(store):
    ledger = Ledger.create(store, FakeHost().host)
    put(ledger, source("s-1"), understanding("u-1", "s-1"), understanding("u-2", "s-1"))
    put(ledger, claim("c-1", "s-1", understanding_id="u-1"), claim("c-2", "s-1"))
    store.asked.clear()
    return ledger


async def write(ledger, *units):
    async with running_committer(ledger) as committer:
        return await committer.commit(units)


def unit(intent):
    return IntentUnit(intent, "s-9")


@pytest.mark.parametrize(
    "intent",
    [
        source("s-2"),
        understanding("u-3", "s-1"),
        claim("c-3", "s-1"),
        claim("c-3", "s-1", understanding_id="u-1"),
        link("c-2", "u-1"),
        link("u-2", "u-1"),
        adapt("s-1", note="x"),
        adapt("c-1", authority=0.5),
        adapt("u-1", note="x"),
    ],
    ids=lambda intent: f"{intent.intent_kind}:{intent.intent_key}",
)
async def test_the_operation_of_an_intent_asks_the_store_for_nothing_one_by_one(
    store, ledger, intent
):
    # Alone it would be carried out without a hint.
    result, _ = await write(ledger, unit(intent), unit(source("s-8")))
    assert isinstance(result, SubmissionResult)
    assert {name for name, _ in store.asked} - ONCE_A_BATCH == set()


async def test_an_authority_is_recorded_from_what_was_read_ahead(store, ledger):
    intent = recalculation(ledger, "u-1")
    store.asked.clear()
    [(outcome, _)] = await write(ledger, RecomputeUnit(intent, None))
    assert outcome == "completed"
    assert {name for name, _ in store.asked} - ONCE_A_BATCH == set()


async def test_of_an_input_that_feeds_many_their_edges_are_not_read(store, ledger):
    """A claim may feed a hundred thousand, and each of their recomputes names it."""
    for number in range(20):
        put(ledger, understanding(f"w-{number}", "s-1"), link("c-1", f"w-{number}"))
    intent = recalculation(ledger, "w-3")
    store.in_bulk.clear()
    [(outcome, _)] = await write(ledger, RecomputeUnit(intent, None))
    assert outcome == "completed"
    assert max(count for _, _, count in store.in_bulk) < 20


async def test_where_very_many_are_fed_they_are_read_when_needed(store, ledger, monkeypatch):
    monkeypatch.setattr("kernel.authority.read_ahead.EDGES_MAX", 5)
    for number in range(20):
        put(ledger, understanding(f"w-{number}", "s-1"), link("c-1", f"w-{number}"))
    store.in_bulk.clear()
    [result] = await write(ledger, unit(adapt("c-1", authority=0.5)))
    assert len(result.emitted_receipts) >= 20
    assert all(count <= 6 for table, _, count in store.in_bulk if table == "edges")


def test_a_batch_of_authorities_is_computed_from_what_was_read_in_one_go(store, ledger):
    for number in range(20):
        put(ledger, understanding(f"w-{number}", "s-1"), link("c-1", f"w-{number}"))
    targets = [f"w-{number}" for number in range(20)]
    with ledger.view() as view:
        apart = [authority_of(view, BetaPosteriorMean(), view.node(target)) for target in targets]
        store.asked.clear()
        batch = view.batch()
        read_ahead(batch, [(Around.INPUTS, target) for target in targets])
        together = [
            authority_of(batch, BetaPosteriorMean(), batch.node(target)) for target in targets
        ]
        assert [batch.open_requests_of(AUTHORITY_QUEUE, target) for target in targets] == [
            view.open_requests_of(AUTHORITY_QUEUE, target) for target in targets
        ]
    assert together == apart
    assert [asked_key for asked_key in store.asked if asked_key[0] != "outbox"] == []


async def test_a_batch_leaves_what_its_units_leave_one_by_one():
    intents = [source("s-2"), understanding("u-3", "s-2"), claim("c-3", "s-2", intent_key="k")]
    intents += [link("c-3", "u-3"), adapt("c-3", authority=0.5), adapt("c-3", authority=0.5)]
    together, apart = (Ledger.create(MemoryStore(), FakeHost().host) for _ in range(2))
    await write(together, *map(unit, intents))
    for intent in intents:
        await write(apart, unit(intent))
    assert dump(together) == dump(apart)


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"read_set_refs": "x"}, {"read_set_refs": [1, None, {}]}],
    ids=repr,
)
def test_of_an_envelope_without_its_shape_nothing_is_read_ahead(document):
    assert list(records_of_envelope(document)) == []


async def test_names_that_no_store_can_be_asked_for_harm_nobody_else_in_the_batch(ledger):
    document = create("n-1", "Note") | {"read_set_refs": ["a\x00b", "\ud800", "n-1"]}
    refused, accepted = await write(ledger, EnvelopeUnit(document, "s-9"), unit(source("s-2")))
    assert refused.rejection.check == "V1"
    assert isinstance(accepted, SubmissionResult)
    with ledger.view() as view:
        assert view.tables.get(schema.nodes, "s-2") is not None
