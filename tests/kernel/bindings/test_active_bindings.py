"""The routed bindings of a ledger (§13.4): caught up at any time, they are those of the record."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kernel.kernel import Kernel
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_operation
from kernel.stores import active_bindings
from kernel.stores.active_bindings import ActiveBindings
from tests.kernel.build import (
    adapt,
    code_of,
    create,
    effect,
    envelope,
    link,
    memory_ledger,
    op_id,
    submit,
)
from tests.kernel.every import binding, snapshot

spec = pytest.mark.spec("004 §13.4")
IDS = st.sampled_from(["b1", "b2"])
SOURCES = ["s1", "s2", "s3"]
KERNEL = Kernel()


def advance(binding_id, generation, source_id):
    selectors = {"include": [{"kind": "source_id", "value": source_id}]}
    stated = binding(generation, binding_id)
    stated["payload"]["binding_snapshot"] = snapshot(selector_list=selectors)
    return stated


def created(binding_id, source_id):
    written = effect("node_write", binding_id, node_kind="SourceBinding")
    [edge] = link(f"e:{binding_id}", binding_id, "corpus")["primitive_effects"]
    return envelope("source_binding_create", [written, edge, advance(binding_id, 1, source_id)])


def disabled(binding_id):
    written = effect("node_write", binding_id, state="disabled")
    return envelope("source_binding_disable", [written])


def routed(bindings):
    return {source: sorted(bindings.match({"source_id": source})) for source in SOURCES}


class Bindings(RuleBasedStateMachine):
    """Bindings that are written and undone; the index catches up now and then."""

    @initialize()
    def begin(self):
        self.names = itertools.count()
        self.ledger = memory_ledger()
        self.done = []
        self.generations = {}
        self.routed = ActiveBindings()
        self.accept(create("corpus", "Corpus"))

    def accept(self, document):
        name = f"operation-{next(self.names)}"
        named = document | {"operation_id": op_id(name), "idempotency_key": name}
        if code_of(submit(self.ledger, named)) is not None:
            return False
        self.done.append(named["operation_id"])
        return True

    @rule(binding_id=IDS, source_id=st.sampled_from(SOURCES))
    def create_or_change(self, binding_id, source_id):
        generation = self.generations.get(binding_id, 0) + 1
        written = effect("node_write", binding_id, title="t")
        changed = [written, advance(binding_id, generation, source_id)]
        document = envelope("source_binding_update", changed)
        new = created(binding_id, source_id)
        if self.accept(new if generation == 1 else document):
            self.generations[binding_id] = generation

    @rule(binding_id=IDS, source_id=st.sampled_from(SOURCES))
    def enable(self, binding_id, source_id):
        generation = self.generations.get(binding_id, 0) + 1
        written = effect("node_write", binding_id, state="active")
        stated = [written, advance(binding_id, generation, source_id)]
        if self.accept(envelope("source_binding_update", stated)):
            self.generations[binding_id] = generation

    @rule(binding_id=IDS)
    def disable(self, binding_id):
        self.accept(disabled(binding_id))

    @rule(binding_id=IDS)
    def revert(self, binding_id):
        reverted = [effect("binding_generation_revert", binding_id)]
        self.accept(envelope("binding_generation_revert", reverted))

    @rule(binding_id=IDS)
    def quarantine(self, binding_id):
        self.accept(
            envelope("quarantine", [effect("quarantine", binding_id, quarantine_reason="r")])
        )

    @rule(data=st.data())
    def undo(self, data):
        operation_id = data.draw(st.sampled_from(self.done))
        with suppress(RollbackRefused), self.ledger.transaction() as transaction:
            result = rollback_operation(KERNEL, transaction, operation_id).submission
            self.done.append(result.operation_id)

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
        rows = view.tables.select(
            active_bindings.schema.binding_generation_snapshots, {"binding_id": binding_id}
        )
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
    monkeypatch.setattr(active_bindings, "PAGE", page)
    ledger = memory_ledger()
    caught_up = ActiveBindings()
    with ledger.view() as view:
        caught_up.catch_up(view)
    documents = [create("corpus", "Corpus"), create("n", "Note"), created("b1", "s1")]
    documents += [adapt("n", x=1), created("b2", "s2")]
    assert [code_of(result) for result in [submit(ledger, each) for each in documents]] == [
        None
    ] * 5
    for bindings in (caught_up, ActiveBindings()):
        with ledger.view() as view:
            bindings.catch_up(view)
            bindings.catch_up(view)
        assert routed(bindings) == {"s1": ["b1"], "s2": ["b2"], "s3": []}
