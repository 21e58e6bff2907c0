"""The Tee contract over a ledger, asked by the generated client."""

import threading
from functools import partial

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.timestamp_pb2 import Timestamp

from actors.incidents.incidents import Incidents
from actors.orchestrator.graph_merge import ELEMENTS_AN_OPERATION
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.records.causal_graph import PROVENANCE_MAX
from kernel.transaction.checks.check import Submitter
from kernel.transaction.kernel import Kernel
from tests.kernel.build import create, findings
from tests.workers.tee.fake_tee import calling, edge, node, serving, why
from workers.environment.system_host import system_host
from workers.tee import tee_pb2 as wire
from workers.tee.service import TeeService

DEPENDS_ON, PROPAGATES_TO = wire.EDGE_TYPE_DEPENDS_ON, wire.EDGE_TYPE_PROPAGATES_TO


@pytest.fixture
def ledger():
    ledger = Ledger.create(MemoryStore(), system_host())
    yield ledger
    assert findings(ledger) == ()


@pytest.fixture
def tee(ledger):
    with serving(TeeService(Incidents(ledger))) as target, calling(target) as stub:
        yield stub


def delta(*elements):
    return wire.HypothesisDelta(
        nodes=[element for element in elements if isinstance(element, wire.Node)],
        edges=[element for element in elements if isinstance(element, wire.Edge)],
    )


def strike(tee, *node_ids, incident="inc", by=None):
    return tee.MergeNodeTombstones(
        wire.NodeTombstoneRequest(incident_id=incident, node_ids=node_ids, provenance=by or why())
    )


def strike_edges(tee, *edges, incident="inc"):
    entries = [
        wire.EdgeTombstoneEntry(
            source=stored_edge.source, target=stored_edge.target, type=stored_edge.type
        )
        for stored_edge in edges
    ]
    return tee.MergeEdgeTombstones(
        wire.EdgeTombstoneRequest(incident_id=incident, entries=entries, provenance=why())
    )


def open_incident(tee, incident="inc"):
    return tee.CreateIncident(wire.CreateIncidentRequest(incident_id=incident))


def live(tee, incident="inc"):
    graph = tee.GetLiveView(wire.LiveViewRequest(incident_id=incident))
    return [stored_node.id for stored_node in graph.nodes], [
        (stored_edge.source, stored_edge.target) for stored_edge in graph.edges
    ]


def main_graph(tee):
    graph = tee.GetMainGraph(Empty())
    return {stored_node.id: stored_node for stored_node in graph.nodes}, list(graph.edges)


def status_of(call):
    with pytest.raises(grpc.RpcError) as failed:
        call()
    return failed.value.code()


def rows(ledger):
    with ledger.view() as view:
        return {
            table.name: view.tables.scan(TableQuery(table))
            for table in schema.metadata.sorted_tables
        }


# --- the main graph ----------------------------------------------------------------------------


def test_what_is_merged_is_in_the_graph_as_it_was_sent_and_sorted(tee):
    at = Timestamp(seconds=1_700_000_000, nanos=123_456_789)
    by = [wire.Provenance(source="scan", trigger="deploy", timestamp=at), why()]
    sent = [node("b", by=by), node("a", wire.NODE_TYPE_MECHANISM, "ein Übel", hypothetical=False)]
    result = tee.MergeHypothesis(delta(*sent, edge("b", "a", PROPAGATES_TO, by), edge("a", "b")))
    assert list(result.created_ids) == ["b", "a", "b->a:2", "a->b:1"]
    assert list(result.merged_ids) == list(result.conflicts) == []
    graph = tee.GetMainGraph(Empty())
    assert list(graph.nodes) == [sent[1], sent[0]]
    assert list(graph.edges) == [edge("a", "b"), edge("b", "a", PROPAGATES_TO, by)]


def test_type_and_label_are_as_first_written_and_the_rest_of_the_delta_is_kept(tee):
    tee.MergeHypothesis(delta(node("a", label="first")))
    other = node("a", wire.NODE_TYPE_DEPENDENCY, "second", by=[why("other")])
    result = tee.MergeHypothesis(delta(other, node("b")))
    assert list(result.created_ids) == ["b"]
    assert list(result.merged_ids) == ["a"]
    assert [
        (conflict.id, conflict.field, conflict.existing_value, conflict.proposed_value)
        for conflict in result.conflicts
    ] == [
        ("a", "type", "NODE_TYPE_SERVICE", "NODE_TYPE_DEPENDENCY"),
        ("a", "label", "first", "second"),
    ]
    nodes, _ = main_graph(tee)
    assert (nodes["a"].type, nodes["a"].label) == (wire.NODE_TYPE_SERVICE, "first")
    assert [provenance.source for provenance in nodes["a"].provenance] == [
        "adapter://test",
        "other",
    ]


def test_hypothetical_becomes_false_and_stays_false(tee):
    for said, expected in ((True, True), (False, False), (True, False)):
        tee.MergeHypothesis(delta(node("a", hypothetical=said)))
        assert main_graph(tee)[0]["a"].hypothetical is expected


def test_provenance_is_a_set_that_keeps_the_first_time(tee):
    def at(seconds):
        return wire.Provenance(
            source="scan", trigger="deploy", timestamp=Timestamp(seconds=seconds)
        )

    tee.MergeHypothesis(delta(node("a", by=[at(1), at(2)]), edge("a", "b", by=[at(1)])))
    tee.MergeHypothesis(delta(node("a", by=[at(3), why()]), edge("a", "b", by=[at(3), why()])))
    nodes, [graph_edge] = main_graph(tee)
    assert list(nodes["a"].provenance) == list(graph_edge.provenance) == [at(1), why()]


def test_the_same_delta_again_writes_nothing(tee, ledger):
    sent = delta(node("a"), node("b"), edge("a", "b"))
    tee.MergeHypothesis(sent)
    before = rows(ledger)
    again = tee.MergeHypothesis(sent)
    assert list(again.merged_ids) == ["a", "b", "a->b:1"]
    assert list(again.created_ids) == []
    assert rows(ledger) == before


def test_within_one_delta_an_element_that_comes_again_is_merged(tee):
    result = tee.MergeHypothesis(delta(node("a"), node("a", label="other", hypothetical=False)))
    assert list(result.created_ids) == list(result.merged_ids) == ["a"]
    assert [conflict.field for conflict in result.conflicts] == ["label"]
    assert main_graph(tee)[0]["a"].hypothetical is False


def test_an_end_that_nobody_has_described_is_no_node_until_somebody_does(tee):
    assert list(tee.MergeHypothesis(delta(edge("a", "b"))).created_ids) == ["a->b:1"]
    nodes, [graph_edge] = main_graph(tee)
    assert (nodes, graph_edge) == ({}, edge("a", "b"))
    assert list(tee.MergeHypothesis(delta(node("a"))).created_ids) == ["a"]
    assert set(main_graph(tee)[0]) == {"a"}


def test_edges_of_ends_that_run_together_are_told_apart(tee):
    ends = [("a", "bc"), ("ab", "c"), ("1:a", "b"), ("a|b", "->c")]
    result = tee.MergeHypothesis(delta(*(edge(*both) for both in ends)))
    assert len(set(result.created_ids)) == len(ends)
    assert {(stored_edge.source, stored_edge.target) for stored_edge in main_graph(tee)[1]} == set(
        ends
    )


def test_a_large_delta_is_several_operations_and_one_transaction(tee, ledger):
    count = 3 * ELEMENTS_AN_OPERATION + 1
    names = [f"n{number:04}" for number in range(count)]
    elements = [*map(node, names), *(edge(names[0], name) for name in names[1:])]
    for by in ([why()], [why("again")]):
        for element in elements:
            element.ClearField("provenance")
            element.provenance.extend(by)
        tee.MergeHypothesis(delta(*elements))
    nodes, edges = main_graph(tee)
    assert sorted(nodes) == names
    assert len(edges) == count - 1
    assert {len(stored_node.provenance) for stored_node in [*nodes.values(), *edges]} == {2}
    with ledger.view() as view:
        verbs = [row["semantic_intent"] for row in view.log_rows()]
    assert verbs == [
        *["create"] * 4,
        *["document_relationship_create"] * 3,
        *["annotate"] * 4,
        *["document_relationship_update"] * 3,
    ]


def test_an_element_has_so_many_provenances_and_no_more(tee, ledger):
    marks = [why(f"source {number}") for number in range(PROVENANCE_MAX)]
    tee.MergeHypothesis(delta(node("a", by=marks)))
    before = rows(ledger)
    full = delta(node("b"), node("a", by=[why("one more")]))
    assert status_of(lambda: tee.MergeHypothesis(full)) is grpc.StatusCode.FAILED_PRECONDITION
    assert rows(ledger) == before


@pytest.mark.parametrize("submitter", ["caller"])
def test_the_causal_graph_is_the_runtimes_to_write(ledger, submitter: Submitter):
    for forged in (create("causal-node:a", "Note"), create("note", "CausalNode")):
        with ledger.transaction() as transaction:
            result = Kernel().submit(transaction, forged, submitter)
        assert result.rejection.reason_code == "envelope_actor_unauthorized"


# --- incidents ---------------------------------------------------------------------------------


def test_an_incident_opens_once_and_says_when(tee):
    tee.MergeHypothesis(delta(node("a")))
    first, second = open_incident(tee), open_incident(tee)
    assert (first.incident_id, first.created) == ("inc", True)
    assert (second.incident_id, second.created) == ("inc", False)
    strike(tee, "a")
    context = tee.GetIncidentContext(wire.IncidentContextRequest(incident_id="inc"))
    assert context.incident_id == "inc"
    assert list(context.tombstones.node_ids) == ["a"]
    assert context.created_at.ToMicroseconds() <= system_host().now_us()
    assert context.created_at.ToMicroseconds() > system_host().now_us() - 600_000_000


@pytest.mark.spec("seed 000 §5")
def test_a_graph_that_grows_later_does_not_change_the_universe_of_an_incident(tee):
    tee.MergeHypothesis(delta(node("a"), node("b"), edge("a", "b")))
    open_incident(tee)
    tee.MergeHypothesis(delta(node("late"), edge("a", "late"), edge("b", "a")))
    assert live(tee) == (["a", "b"], [("a", "b")])
    assert list(strike(tee, "late").unmatched_ids) == ["late"]
    assert live(tee) == (["a", "b"], [("a", "b")])
    open_incident(tee, "later")
    assert live(tee, "later") == (
        ["a", "b", "late"],
        [("a", "b"), ("a", "late"), ("b", "a")],
    )


def test_what_is_learned_of_a_node_later_is_seen_in_the_incident(tee):
    tee.MergeHypothesis(delta(node("a")))
    open_incident(tee)
    tee.MergeHypothesis(delta(node("a", hypothetical=False)))
    [stored_node] = tee.GetLiveView(wire.LiveViewRequest(incident_id="inc")).nodes
    assert stored_node.hypothetical is False


def test_a_struck_node_takes_its_edges_out_of_the_live_view_and_a_struck_edge_no_node(tee):
    tee.MergeHypothesis(delta(*map(node, "abcd"), edge("a", "b"), edge("b", "c"), edge("c", "d")))
    open_incident(tee)
    assert list(strike_edges(tee, edge("c", "d")).applied_ids) == ["c->d:1"]
    assert live(tee) == (["a", "b", "c", "d"], [("a", "b"), ("b", "c")])
    assert list(strike(tee, "a").applied_ids) == ["a"]
    assert live(tee) == (["b", "c", "d"], [("b", "c")])
    # What strikes a node says nothing of its edges.
    assert list(strike_edges(tee, edge("a", "b")).applied_ids) == ["a->b:1"]


def test_each_id_is_answered_once_as_applied_already_or_unmatched(tee):
    tee.MergeHypothesis(delta(*map(node, "abc")))
    open_incident(tee)
    first = strike(tee, "a", "unknown", "a", "unknown", "b")
    assert list(first.applied_ids) == ["a", "b"]
    assert list(first.already_tombstoned_ids) == ["a", "unknown"]
    assert list(first.unmatched_ids) == ["unknown"]
    second = strike(tee, "a", "unknown", "c")
    assert list(second.applied_ids) == ["c"]
    assert list(second.already_tombstoned_ids) == ["a", "unknown"]
    unknown = edge("a", "nowhere", PROPAGATES_TO)
    assert list(strike_edges(tee, unknown).unmatched_ids) == ["a->nowhere:2"]
    tombstones = tee.GetTombstones(wire.TombstoneRequest(incident_id="inc"))
    assert list(tombstones.node_ids) == ["a", "b", "c", "unknown"]
    [entry] = tombstones.edge_entries
    assert (entry.source, entry.target, entry.type) == ("a", "nowhere", PROPAGATES_TO)


def test_incidents_do_not_touch_each_other(tee):
    tee.MergeHypothesis(delta(*map(node, "ab")))
    open_incident(tee)
    open_incident(tee, "other")
    strike(tee, "a")
    assert live(tee, "other") == (["a", "b"], [])


def test_tombstones_name_who_and_why_on_the_record(tee, ledger):
    tee.MergeHypothesis(delta(node("a")))
    open_incident(tee)
    at = Timestamp(seconds=1_700_000_000)
    strike(tee, "a", by=wire.Provenance(source="probe", trigger="latency", timestamp=at))
    with ledger.view() as view:
        events = view.belief_events("incident:inc")
    assert len(events) == 2
    assert b'"source_id":"probe"' in events[1]
    assert b'"timestamp":"2023-11-14T22:13:20Z","trigger":"latency"' in events[1]


# --- what is refused ---------------------------------------------------------------------------

LONG = "x" * 201
NOT_A_TYPE = 99
NO_PROVENANCE = wire.Node(id="a", type=wire.NODE_TYPE_SERVICE, label="a")


def changed(message, **fields):
    copy = type(message)()
    copy.CopyFrom(message)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


@pytest.mark.parametrize(
    "bad",
    [
        changed(node("a"), id=""),
        changed(node("a"), label=""),
        changed(node("a"), type=wire.NODE_TYPE_UNSPECIFIED),
        changed(node("a"), type=NOT_A_TYPE),
        NO_PROVENANCE,
        node("a", by=[why(source="")]),
        node("a", by=[why(trigger="")]),
        node("a", by=[wire.Provenance(source="s", trigger="t", timestamp={"seconds": 1 << 60})]),
        node(LONG),
        node("a\x00b"),
        changed(edge("a", "b"), source=""),
        changed(edge("a", "b"), target=""),
        edge("a", "a"),
        changed(edge("a", "b"), type=wire.EDGE_TYPE_UNSPECIFIED),
        wire.Edge(source="a", target="b", type=DEPENDS_ON),
        edge("a", LONG),
    ],
)
def test_an_element_that_is_not_valid_is_refused_with_its_whole_delta(tee, ledger, bad):
    before = rows(ledger)
    for sent in (delta(node("good"), bad), delta(bad)):
        refused = status_of(partial(tee.MergeHypothesis, sent))
        assert refused is grpc.StatusCode.INVALID_ARGUMENT
    assert rows(ledger) == before


@pytest.mark.parametrize("label", ["x" * 512, "x" * 513])
def test_a_text_of_an_element_has_512_characters_at_most(tee, label):
    sent = delta(changed(node("a"), label=label))
    if len(label) > 512:
        assert status_of(lambda: tee.MergeHypothesis(sent)) is grpc.StatusCode.INVALID_ARGUMENT
    else:
        tee.MergeHypothesis(sent)


def test_lists_are_as_long_as_they_may_be_and_no_longer(tee):
    for count, problem in ((10_000, "node.id"), (10_001, "at most 10000 together")):
        with pytest.raises(grpc.RpcError, match=problem):
            tee.MergeHypothesis(wire.HypothesisDelta(nodes=[wire.Node()] * count))
    tee.MergeHypothesis(delta(node("a")))
    open_incident(tee)
    for count in (100_001, 100_000):
        request = wire.NodeTombstoneRequest(incident_id="inc", provenance=why())
        request.node_ids.extend(["a"] * count)
        if count > 100_000:
            with pytest.raises(grpc.RpcError, match="1 to 100000"):
                tee.MergeNodeTombstones(request)
        else:
            tee.MergeNodeTombstones(request)
    assert live(tee) == ([], [])


def test_tombstones_that_are_not_valid_are_refused_and_nothing_is_struck(tee):
    tee.MergeHypothesis(delta(node("a")))
    open_incident(tee)
    request = wire.NodeTombstoneRequest
    for bad in (
        request(node_ids=["a"], provenance=why()),
        request(incident_id="inc", provenance=why()),
        request(incident_id="inc", node_ids=["a"]),
        request(incident_id="inc", node_ids=["a"], provenance=why(source="")),
        request(incident_id="inc", node_ids=["a"], provenance=why(trigger="")),
        request(incident_id="inc", node_ids=["a", ""], provenance=why()),
        request(incident_id=LONG, node_ids=["a"], provenance=why()),
    ):
        refused = status_of(partial(tee.MergeNodeTombstones, bad))
        assert refused is grpc.StatusCode.INVALID_ARGUMENT
    assert status_of(lambda: strike_edges(tee)) is grpc.StatusCode.INVALID_ARGUMENT
    assert status_of(lambda: strike_edges(tee, edge("a", "a"))) is grpc.StatusCode.INVALID_ARGUMENT
    assert status_of(lambda: open_incident(tee, "")) is grpc.StatusCode.INVALID_ARGUMENT
    assert live(tee) == (["a"], [])


def test_an_incident_that_was_never_opened_is_not_found(tee):
    for call in (
        lambda: strike(tee, "a"),
        lambda: strike_edges(tee, edge("a", "b")),
        lambda: live(tee),
        lambda: tee.GetTombstones(wire.TombstoneRequest(incident_id="inc")),
        lambda: tee.GetIncidentContext(wire.IncidentContextRequest(incident_id="inc")),
    ):
        assert status_of(call) is grpc.StatusCode.NOT_FOUND


def test_merges_at_once_are_all_in_the_graph(tee):
    begin = threading.Barrier(4)

    def merge(name):
        begin.wait()
        for number in range(5):
            tee.MergeHypothesis(delta(node(f"{name}{number}"), node("shared", by=[why(name)])))

    threads = [threading.Thread(target=merge, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    nodes, _ = main_graph(tee)
    assert len(nodes) == 21
    assert {provenance.source for provenance in nodes["shared"].provenance} == set("abcd")


@pytest.mark.spec("L3")
def test_a_record_that_does_not_verify_is_served_no_further():
    ledger = Ledger.create(MemoryStore(), system_host())
    reasons = []
    service = TeeService(Incidents(ledger), unfit=lambda: reasons.append("corrupt"))
    with serving(service) as target, calling(target) as tee:
        tee.MergeHypothesis(delta(node("a")))
        with ledger.store.transaction() as tables:
            key = "causal-node:a"
            record = tables.get(schema.nodes, key)["record"]
            record = record.replace(b'"causal_type"', b'"casual_type"')
            tables.update(schema.nodes, (key,), {"record": record})
        assert status_of(lambda: main_graph(tee)) is grpc.StatusCode.INTERNAL
        assert reasons == ["corrupt"]
        assert status_of(lambda: open_incident(tee)) is grpc.StatusCode.INTERNAL
        [standing] = ledger.read(lambda view: view.quarantines().standing)
        assert "causal-node:a" in standing.finding, "gateways of the ledger are red for it"
