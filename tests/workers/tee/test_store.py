"""What a TeeStore does beyond the common behaviour, against a Tee that anchors nothing."""

from contextlib import closing

import grpc
import pytest

from kernel.belief.elimination_store import EliminationProvenance, EliminationStoreUnavailable
from kernel.belief.errors import BeliefError
from tests.workers.tee.fake_tee import FakeTee, calling, seed, serving, why
from workers.tee import tee_pb2 as wire
from workers.tee.store import IDS_A_CALL, TeeStore

WHY = EliminationProvenance("adapter://test", "probe:1")
NODES = frozenset({"svc-a", "svc-b", "svc-c"})
EDGE = "edge:svc-a|svc-b|DEPENDS_ON"
UNIVERSE = NODES | {EDGE}
STRUCK = ("MergeNodeTombstones", "MergeEdgeTombstones")


@pytest.fixture
def fake():
    return FakeTee()


@pytest.fixture
def target(fake):
    with serving(fake) as target:
        seed(target, UNIVERSE)
        yield target


@pytest.fixture
def store(target):
    with closing(TeeStore(target)) as store:
        store.create_session("s", UNIVERSE)
        yield store


def struck_calls(fake):
    return [call for call in fake.calls if call in STRUCK]


@pytest.mark.spec("seed 000 §8.2")
def test_the_prefix_of_an_id_says_which_tombstone_it_becomes(fake, store):
    assert store.eliminate("s", {"svc-c"}, WHY).applied == {"svc-c"}
    assert struck_calls(fake) == ["MergeNodeTombstones"]
    assert store.eliminate("s", {EDGE}, WHY).applied == {EDGE}
    assert struck_calls(fake) == ["MergeNodeTombstones", "MergeEdgeTombstones"]
    nodes, edges = fake.incidents["s"]
    assert set(nodes) == {"svc-c"}
    assert set(edges) == {"svc-a->svc-b:1"}
    assert store.get_eliminated("s") == {"svc-c", EDGE}


@pytest.mark.spec("seed 000 §8.2")
def test_an_edge_is_a_hypothesis_of_its_own_whatever_becomes_of_its_ends(target, store):
    store.eliminate("s", {"svc-a"}, WHY)
    with calling(target) as stub:
        live = stub.GetLiveView(wire.LiveViewRequest(incident_id="s"))
    assert list(live.edges) == []
    assert store.get_survivors("s") == UNIVERSE - {"svc-a"}
    assert store.eliminate("s", {EDGE}, WHY).applied == {EDGE}


def test_a_graph_that_grows_leaves_the_universe_of_a_session_as_it_was(target, store):
    seed(target, frozenset({"svc-new", "edge:svc-a|svc-new|PROPAGATES_TO"}))
    assert store.get_survivors("s") == UNIVERSE
    assert store.eliminate("s", {"svc-new"}, WHY).applied == frozenset()
    assert store.recover("s").hypothesis_ids == UNIVERSE


def test_what_others_strike_outside_of_the_universe_is_not_seen(target, store):
    with calling(target) as stub:
        request = {"incident_id": "s", "node_ids": ["unknown", "svc-b"], "provenance": why()}
        stub.MergeNodeTombstones(wire.NodeTombstoneRequest(**request))
    assert store.get_eliminated("s") == {"svc-b"}


def test_nothing_and_the_unknown_are_answered_without_a_call(fake, store):
    assert store.eliminate("s", set(), WHY).applied == frozenset()
    assert store.eliminate("s", {"unknown"}, WHY).already_eliminated == {"unknown"}
    assert struck_calls(fake) == []


@pytest.mark.parametrize(
    "hypotheses",
    [
        {"svc-a", "svc-nowhere"},
        {"svc-a", "edge:svc-a|svc-b|MANIFESTS_AS"},
        {"edge:svc-a|svc-b"},
        {"edge:svc-a|svc-b|EDGE_TYPE_DEPENDS_ON"},
        {"edge:svc|a|svc-b|DEPENDS_ON"},
        {"edge:|svc-b|DEPENDS_ON"},
    ],
)
def test_a_hypothesis_that_the_graph_does_not_hold_is_refused_and_no_incident_is_made(
    fake, store, hypotheses
):
    with pytest.raises(BeliefError) as refused:
        store.create_session("s2", hypotheses)
    assert refused.value.code == "INVALID_REQUEST"
    assert "s2" not in fake.incidents


def test_many_hypotheses_take_several_calls(fake, target):
    universe = frozenset(f"n-{number}" for number in range(IDS_A_CALL + 1))
    seed(target, universe)
    with closing(TeeStore(target)) as store:
        store.create_session("s", universe)
        assert store.eliminate("s", universe, WHY).applied == universe
    assert struck_calls(fake) == ["MergeNodeTombstones"] * 2


@pytest.mark.parametrize("after", [False, True])
def test_a_tee_that_fails_is_unavailable_and_asking_again_is_safe(fake, store, after):
    fake.fails["MergeEdgeTombstones"] = [(grpc.StatusCode.UNAVAILABLE, after)]
    with pytest.raises(EliminationStoreUnavailable) as failed:
        store.eliminate("s", {"svc-a", EDGE}, WHY)
    assert failed.value.code == "elimination_store_unavailable"
    store.eliminate("s", {"svc-a", EDGE}, WHY)
    assert store.get_eliminated("s") == {"svc-a", EDGE}


def test_a_tee_that_is_not_there_is_unavailable():
    with serving(FakeTee()) as target:
        pass
    with closing(TeeStore(target, timeout_s=5)) as store:
        with pytest.raises(EliminationStoreUnavailable):
            store.create_session("s", UNIVERSE)
        with pytest.raises(BeliefError) as refused:
            store.recover("s")
        assert refused.value.code == "SESSION_NOT_FOUND"
    with pytest.raises(EliminationStoreUnavailable):
        store.create_session("s", UNIVERSE)


def test_an_incident_that_the_tee_has_lost_is_not_found(fake, store):
    fake.incidents.clear()
    for call in (lambda: store.recover("s"), lambda: store.eliminate("s", {"svc-a"}, WHY)):
        with pytest.raises(BeliefError) as refused:
            call()
        assert refused.value.code == "SESSION_NOT_FOUND"
