"""The routed bindings of a ledger (§13.4): caught up at any time, they are those of the record."""

from contextlib import contextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from kernel.ledger.store.tables import TableQuery
from kernel.records import active_bindings
from kernel.records.active_bindings import ActiveBindings
from kernel.transaction.kernel import Kernel
from tests.kernel.bindings.machine import BINDING_IDS, BindingMachine
from tests.kernel.bindings.routed import created, selector, updated
from tests.kernel.build import (
    adapt,
    code_of,
    create,
    effect,
    envelope,
    informed,
    memory_ledger,
    submit,
)

spec = pytest.mark.spec("004 §13.4")
SOURCES = ["s1", "s2", "s3"]


def from_source(source_id):
    return selector("source_id", source_id)


def routed(bindings):
    return {source: sorted(bindings.match({"source_id": source})) for source in SOURCES}


def noting(transaction_of):
    """Transactions that know the bindings when they end, and what they wrote when committed."""

    @contextmanager
    def transaction():
        with transaction_of() as transaction:
            yield transaction
            matching = {
                source: [
                    each.binding_id
                    for each in active_bindings.match_at_head(transaction, {"source_id": source})
                ]
                for source in SOURCES
            }
            assert {source: sorted(ids) for source, ids in matching.items()} == of_record(
                transaction
            )
        active_bindings.note_commit(transaction)

    return transaction


class Bindings(BindingMachine):
    """Bindings that are written and undone; the index catches up now and then."""

    @initialize()
    def begin(self):
        self.start()
        active_bindings.read_active_bindings(self.ledger)
        self.ledger.transaction = noting(self.ledger.transaction)
        self.generations = {}
        self.routed = ActiveBindings()

    @rule(binding_id=BINDING_IDS, source_id=st.sampled_from(SOURCES))
    def create_or_change(self, binding_id, source_id):
        generation = self.generations.get(binding_id, 0) + 1
        new = created(binding_id, from_source(source_id))
        document = updated(binding_id, generation, from_source(source_id))
        if self.accept(new if generation == 1 else document):
            self.generations[binding_id] = generation

    @rule(binding_id=BINDING_IDS, source_id=st.sampled_from(SOURCES))
    def enable(self, binding_id, source_id):
        generation = self.generations.get(binding_id, 0) + 1
        if self.accept(updated(binding_id, generation, from_source(source_id), state="active")):
            self.generations[binding_id] = generation

    @rule(binding_id=BINDING_IDS)
    def quarantine(self, binding_id):
        self.accept(
            envelope("quarantine", [effect("quarantine", binding_id, quarantine_reason="r")])
        )

    @rule()
    def write_a_note(self):
        self.accept(create(f"note-{next(self.names)}", "Note"))

    @invariant()
    def what_a_process_keeps_is_what_is_on_record(self):
        if not hasattr(self, "ledger"):
            return
        kept = self.ledger.kept[ActiveBindings]
        with self.ledger.view() as view:
            kept.catch_up(view)
            assert routed(kept) == of_record(view)

    @rule()
    def catch_up(self):
        with self.ledger.view() as view:
            self.routed.catch_up(view)

    @invariant()
    def what_is_caught_up_is_what_is_read_anew(self):
        with self.ledger.view() as view:
            anew = ActiveBindings()
            anew.catch_up(view)
            assert routed(anew) == of_record(view)
        self.count = len(anew)

    def teardown(self):
        if not hasattr(self, "ledger"):
            return
        self.catch_up()
        with self.ledger.view() as view:
            assert routed(self.routed) == of_record(view)
        assert len(self.routed) == self.count


def of_record(view):
    """Who is active for each source, from the records themselves."""
    active = {source: [] for source in SOURCES}
    for binding_id in ("b1", "b2"):
        node = view.node(binding_id)
        query = TableQuery(
            active_bindings.schema.binding_generation_snapshots, {"binding_id": binding_id}
        )
        rows = view.tables.scan(query)
        standing = [row for row in rows if row["in_force"]]
        if node is None or node["state"] != "active" or not standing:
            continue
        newest = max(standing, key=lambda row: row["generation"])["snapshot_id"]
        record = view.record(active_bindings.schema.binding_generation_snapshots, newest)
        [selector] = record["binding_snapshot"]["selector_list"]["include"]
        active[selector["value"]].append(binding_id)
    return active


TestBindings = spec(Bindings.TestCase)
TestBindings.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=12)


@spec
@pytest.mark.parametrize("page", [1, 2, 3, 1024])
def test_pages_of_any_length_lose_nothing(monkeypatch, page):
    monkeypatch.setattr(active_bindings, "PAGE_ROWS", page)
    ledger = memory_ledger()
    caught_up = ActiveBindings()
    with ledger.view() as view:
        caught_up.catch_up(view)
    documents = [create("corpus", "Corpus"), create("n", "Note"), created("b1", from_source("s1"))]
    documents += [adapt("n", x=1), created("b2", from_source("s2"))]
    assert [code_of(result) for result in [submit(ledger, each) for each in documents]] == [
        None
    ] * 5
    for bindings in (caught_up, ActiveBindings()):
        with ledger.view() as view:
            bindings.catch_up(view)
            bindings.catch_up(view)
        assert routed(bindings) == {"s1": ["b1"], "s2": ["b2"], "s3": []}


@spec
@pytest.mark.parametrize("writes_binding", [False, True])
def test_what_a_process_wrote_itself_is_read_where_it_wrote_a_binding_alone(writes_binding):
    ledger = memory_ledger()
    submit(ledger, create("corpus", "Corpus"))
    active_bindings.read_active_bindings(ledger)
    bindings = ledger.kept[ActiveBindings]
    with ledger.transaction() as transaction:
        document = created("b1", from_source("s1")) if writes_binding else create("n", "Note")
        result = Kernel().submit(transaction, informed(transaction, document), "caller")
        assert code_of(result) is None
        begun_at = transaction.begun_at_sequence
    active_bindings.note_commit(transaction)
    assert bindings.sequence == (begun_at if writes_binding else begun_at + 1)
