"""What of a record is read with which clearance (§7.1, §7.2, §12.1, K35), against a model."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.records.access import readable_view as readable
from kernel.records.access.clearance import CLEARANCES, widest_clearance
from kernel.records.access.readable_view import NotCleared, RecordReader, read_as, readable_view
from kernel.records.access.row_classes import OPEN_TABLES
from kernel.values.errors import LedgerCorrupt, RowDamaged
from kernel.values.visibility import VISIBILITY_CLASSES
from tests.kernel.build import (
    adapt,
    code_of,
    create,
    drawn_from,
    link,
    memory_ledger,
    overlay,
    submit,
)

NODES = st.lists(
    st.tuples(
        st.sampled_from(VISIBILITY_CLASSES),
        # What it is drawn from, among those before it.
        st.lists(st.integers(0, 9), max_size=2),
    ),
    min_size=1,
    max_size=7,
)
RAISED = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(VISIBILITY_CLASSES)), max_size=3)
LINKS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3)
COVERED = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["blocked", "explicit_access_required", "none"])),
    max_size=2,
)
LETS_IN = "person:ada"


@dataclass
class Model:
    """What was written, said again without the kernel's rules."""

    classes: dict[str, int] = field(default_factory=dict)
    drawn: dict[str, list[str]] = field(default_factory=dict)
    named_by: dict[str, list[str]] = field(default_factory=dict)
    """By operation, the nodes that it is about."""

    edges: dict[str, tuple[str, str]] = field(default_factory=dict)
    covers: dict[str, list[str]] = field(default_factory=dict)

    def sources_of(self, name: str) -> set[str]:
        """A node and everything that it was drawn from, by any way."""
        return {name}.union(*(self.sources_of(each) for each in self.drawn[name]))

    def is_read(self, name: str, reader: RecordReader) -> bool:
        rank = CLEARANCES.index(reader.clearance)
        everything = CLEARANCES.index("everything")
        if any(self.classes[each] > rank for each in self.sources_of(name)):
            return False
        limits = [limit for each in self.sources_of(name) for limit in self.covers.get(each, ())]
        lets_in = all(
            limit == "explicit_access_required" and reader.principal == LETS_IN for limit in limits
        )
        return rank == everything or lets_in

    def are_read(self, names: Iterable[str], reader: RecordReader) -> bool:
        return all(self.is_read(name, reader) for name in names)


class World:
    """A ledger, and the model of what was written to it."""

    def __init__(self, nodes, raised=(), links=(), covered=()) -> None:
        self.ledger, self.model, self.count = memory_ledger(), Model(), len(nodes)
        for number, (visibility, drawn) in enumerate(nodes):
            self.write_node(number, VISIBILITY_CLASSES.index(visibility), drawn)
        for number, visibility in raised:
            self.raise_class(self.name_of(number), VISIBILITY_CLASSES.index(visibility))
        for number, (source, target) in enumerate(links):
            self.link(f"e-{number}", self.name_of(source), self.name_of(target))
        for number, (target, restriction) in enumerate(covered):
            self.cover(f"o-{number}", self.name_of(target), restriction)

    def name_of(self, number: int) -> str:
        return f"n-{number % self.count}"

    def submit(self, document, *names: str) -> bool:
        """Whether it is on the log, and with it what it is about."""
        if code_of(submit(self.ledger, document, submitter="orchestrator")) is not None:
            return False
        self.model.named_by[document["operation_id"]] = list(names)
        return True

    def write_node(self, number: int, rank: int, drawn) -> None:
        model, name = self.model, f"n-{number}"
        drawn = model.drawn[name] = [f"n-{each}" for each in sorted({*drawn}) if each < number]
        # It is at least as restricted as what it was drawn from.
        ranks = [model.classes[each] for each in drawn]
        model.classes[name] = max(rank, *ranks, 0)
        stated = VISIBILITY_CLASSES[model.classes[name]]
        document = create(
            name, "Document", source_refs=drawn, visibility_class=stated, text="words"
        )
        if drawn:
            classes = sorted({*ranks, model.classes[name]})
            document = drawn_from(document, *(VISIBILITY_CLASSES[each] for each in classes))
            document |= {"source_refs": drawn}
        assert self.submit(document, name, *drawn)

    def raise_class(self, name: str, rank: int) -> None:
        if rank > self.model.classes[name]:
            assert self.submit(adapt(name, visibility_class=VISIBILITY_CLASSES[rank]), name)
            self.model.classes[name] = rank

    def link(self, edge: str, *ends: str) -> None:
        if ends[0] != ends[1] and self.submit(link(edge, *ends), *ends):
            self.model.edges[edge] = (ends[0], ends[1])

    def cover(self, node: str, name: str, restriction: str) -> None:
        covering = overlay(node, restriction, "document", name, access_grants=[LETS_IN])
        assert self.submit(covering, name)
        if restriction != "none":
            self.model.covers.setdefault(name, []).append(restriction)


@given(NODES, RAISED, LINKS, COVERED)
@pytest.mark.spec("§7.1", "§7.2", "§12.1")
def test_each_reader_sees_what_classes_and_overlays_let_them_and_nothing_else(
    nodes, raised, links, covered
):
    world = World(nodes, raised, links, covered)
    ledger, model = world.ledger, world.model
    readers = [RecordReader(each) for each in CLEARANCES] + [RecordReader("sealed", LETS_IN)]
    with ledger.view() as view:
        for reader in readers:
            read = readable_view(view, reader)
            for name in model.classes:
                assert (read.node(name) is not None) == model.is_read(name, reader), (name, reader)
            for edge, ends in model.edges.items():
                there = read.record(schema.edges, edge) is not None
                assert there == model.are_read(ends, reader), (edge, reader)
            listed = {row["operation_id"] for row in read.log_rows()}
            expected = {
                operation
                for operation, names in model.named_by.items()
                if model.are_read(names, reader)
            }
            assert listed == expected
            assert read.tables.count(TableQuery(schema.kernel_event_log)) == len(expected)


@given(NODES, st.sampled_from(VISIBILITY_CLASSES), st.integers(1, 5), st.booleans())
def test_a_page_has_as_many_rows_as_are_asked_for_and_may_be_read(
    nodes, clearance, limit, descending
):
    with World(nodes).ledger.view() as view:
        tables = readable_view(view, RecordReader(clearance)).tables
        query = TableQuery(schema.kernel_event_log, descending=descending)
        every = tables.scan(query)
        assert tables.scan(query._replace(limit=limit)) == every[:limit]
        named = query._replace(columns=("operation_id",), limit=limit)
        assert tables.scan(named) == [(row["operation_id"],) for row in every[:limit]]


@pytest.mark.spec("§7.6")
def test_what_was_drawn_from_a_source_is_hidden_with_it_once_it_is_restricted():
    world = World([("public_open", []), ("public_open", [0]), ("public_open", [1])])
    with world.ledger.view() as view:
        before = readable_view(view, RecordReader("public_open"))
        assert all(before.node(f"n-{number}") for number in range(3))
    world.raise_class("n-0", VISIBILITY_CLASSES.index("sealed"))
    with world.ledger.view() as view:
        read = readable_view(view, RecordReader("firewalled"))
        assert [read.node(f"n-{number}") for number in range(3)] == [None] * 3
        assert read.log_rows() == []
        assert readable_view(view, RecordReader("sealed")).node("n-2") is not None


@pytest.mark.parametrize(
    "fields",
    [{"target_kind": "document"}, {"target_kind": "source_span", "offset": 0, "length": 2}],
)
def test_an_overlay_over_a_stretch_hides_what_is_read_whole(fields):
    world = World([("public_open", [])])
    kind = fields.pop("target_kind")
    assert world.submit(overlay("o", "preview_only", kind, "n-0", **fields))
    with world.ledger.view() as view:
        assert readable_view(view, RecordReader("sealed", LETS_IN)).node("n-0") is None
        assert readable_view(view, RecordReader("everything")).node("n-0") is not None


def test_what_knows_of_no_class_is_named_and_everything_else_is_judged():
    judged = {table.name for table in schema.metadata.tables.values()} - {
        table.name for table in OPEN_TABLES
    }
    assert {"nodes", "edges", "kernel_event_log", "receipts", "outbox", "belief_events"} <= judged
    assert {"request_attempts", "dead_letters", "recorded_model_outputs"} <= judged


def test_too_many_rows_that_may_not_be_read_are_refused_and_not_looked_at(monkeypatch):
    monkeypatch.setattr(readable, "JUDGED_MAX", 3)
    ledger = memory_ledger()
    for number in range(5):
        submit(ledger, create(f"n-{number}", "Document", visibility_class="sealed"))
    with ledger.view() as view, pytest.raises(NotCleared):
        readable_view(view, RecordReader("public_open")).log_rows(limit=1)


@pytest.mark.parametrize("clearance", ["sealed", "everything"])
def test_a_gap_is_no_damage_to_whoever_may_not_read_what_is_in_it(clearance):
    def fail(error):
        def question(_):
            raise error

        return question

    expected = LedgerCorrupt if clearance == "everything" else NotCleared
    damage = RowDamaged("nodes", "n", "record is not a JSON object")
    with memory_ledger().view() as view:
        with pytest.raises(expected):
            read_as(view, RecordReader(clearance), fail(LedgerCorrupt("a row is missing")))
        with pytest.raises(RowDamaged):
            read_as(view, RecordReader(clearance), fail(damage))


def test_of_several_clearances_the_widest_counts():
    assert widest_clearance(["public_open", "sealed", "firewalled"]) == "sealed"
    assert widest_clearance(["everything", "sealed"]) == "everything"
    assert widest_clearance([]) == "public_open"
