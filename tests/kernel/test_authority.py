"""Authority as it reaches the record: who asks for a recompute, when it is due, what it gives."""

import pytest

from kernel.authority.cascade import MAX_CASCADE_DEPTH
from kernel.authority.graph import dependents_of
from kernel.authority.requests import PRIORITIES, RecomputeReadiness, due, ready_items
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger.store.memory import MemoryStore
from kernel.values.host import iso_time
from tests.kernel.build import (
    START_US,
    accept,
    adapt,
    code_of,
    create,
    drain,
    effect,
    envelope,
    everything,
    feeding_understandings,
    ledger_on,
    link,
    recompute,
    relink,
    submit,
    taking,
    understandings,
    unlink,
    work,
)

UNDERSTANDING, CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"
AUTHORITY_EAGER = pytest.mark.spec("INV-A-AUTHORITY-EAGER-1")


def understanding(name, **fields):
    return create(name, UNDERSTANDING, **fields)


def diamond(ledger):
    """A claim feeds a, a feeds b and c, both feed d; everything computed."""
    accept(
        ledger,
        create("claim", CLAIM, authority=1),
        *(understanding(name) for name in "abcd"),
        link("1", "claim", "a"),
        link("2", "a", "b"),
        link("3", "a", "c", "supporting"),
        link("4", "b", "d"),
        link("5", "c", "d", "tangential"),
    )
    drain(ledger)


def chain(ledger, length):
    names = [f"u{number:03}" for number in range(length)]
    accept(ledger, create("claim", CLAIM, authority=1))
    accept(ledger, *(understanding(name) for name in names))
    accept(
        ledger, *(link(f"{a}>{b}", a, b) for a, b in zip(["claim", *names], names, strict=False))
    )
    return names


def requested(ledger):
    """What is open: understandings in the order of the record."""
    with ledger.view() as view:
        return [request.item_key for request in view.open_requests()]


def priorities(ledger):
    with ledger.view() as view:
        return {request.item_key: request.priority for request in view.open_requests()}


def stored(ledger, name):
    with ledger.view() as view:
        return view.node(name)["payload"].get("cu_authority")


def receipts(ledger, operation_id):
    with ledger.view() as view:
        return view.receipts_of(operation_id)


# Who asks


@AUTHORITY_EAGER
def test_a_claim_asks_for_all_that_depend_on_it_parents_first(ledger):
    diamond(ledger)
    by = accept(ledger, adapt("claim", authority=0))
    with ledger.view() as view:
        requests = view.open_requests()
        cause = view.head().ec_sequence_number
    assert [request.item_key for request in requests] == ["a", "b", "c", "d"]
    for number, open_request in enumerate(requests):
        assert open_request.document == {
            "request_id": open_request.request_id,
            "target_cu_id": open_request.item_key,
            "trigger_kind": "input_cu_update" if number else "versioned_claim_update",
            "trigger_source_id": by,
            "priority": "background_normal",
            "enqueued_at": iso_time(open_request.enqueued_at_us),
        }
        assert (open_request.queue, open_request.cause_sequence) == ("authority-recompute", cause)


@pytest.mark.spec("§8.2")
@pytest.mark.parametrize(
    ("document", "expected", "kind"),
    [
        (adapt("claim", title="any field"), ["a", "b", "c", "d"], "versioned_claim_update"),
        (
            envelope("annotate", [effect("node_write", "claim")]),
            [*"abcd"],
            "versioned_claim_update",
        ),
        (adapt("b", title="t"), ["b", "d"], "input_cu_update"),
        (adapt("b", override_authority=0.5), ["b", "d"], "user_authority_override"),
        (adapt("claim", carve_out_class="x"), [*"abcd"], "carve_out_reclassification"),
        (link("6", "claim", "d"), ["d"], "edge_essentiality_change"),
        (unlink("4"), ["d"], "edge_essentiality_change"),
        (
            relink(effect("edge_reclassify", "2", edge_metadata={"essentiality": "supporting"})),
            ["b", "d"],
            "edge_essentiality_change",
        ),
        (understanding("e"), ["e"], "input_cu_update"),
        (create("claim2", CLAIM, authority=1), [], None),
        (create("note", "Note"), [], None),
        (adapt("note1", title="t"), [], None),
        (link("6", "a", "note1"), [], None),
        (
            envelope("corpus_membership_add", [effect("membership_write", "a", corpus_id="x")]),
            [],
            None,
        ),
    ],
)
def test_each_kind_of_change_asks_for_what_it_touches_and_for_no_more(
    ledger, document, expected, kind
):
    diamond(ledger)
    accept(ledger, create("note1", "Note"))
    accept(ledger, document)
    assert requested(ledger) == expected
    if expected:
        with ledger.view() as view:
            assert view.open_requests()[0].document["trigger_kind"] == kind


@AUTHORITY_EAGER
def test_a_retracted_input_counts_no_longer(ledger):
    diamond(ledger)
    assert stored(ledger, "a") > 0.5
    accept(ledger, taking("collapse", "claim", "1"))
    assert drain(ledger) == ["a", "b", "c", "d"]
    assert stored(ledger, "a") == 0.5


@AUTHORITY_EAGER
def test_several_changes_of_one_operation_ask_once_for_each_understanding(ledger):
    diamond(ledger)
    second = effect("node_write", "b", title="t")
    accept(ledger, envelope("field_adapt", [effect("node_write", "claim", authority=0), second]))
    assert requested(ledger) == ["a", "b", "c", "d"]


@AUTHORITY_EAGER
def test_an_edge_that_is_moved_asks_for_the_one_it_fed_and_the_one_it_feeds(ledger):
    diamond(ledger)
    accept(ledger, understanding("e"))
    drain(ledger)
    moved = effect(
        "edge_create",
        "4",
        source_node_id="b",
        target_node_id="e",
        edge_type="informs",
        edge_metadata={"essentiality": "core"},
    )
    accept(ledger, relink(effect("edge_remove", "4"), moved))
    assert sorted(requested(ledger)) == ["d", "e"]


def test_requests_of_any_operation_and_node_names_are_told_apart(ledger):
    for name, operation_id in (("b:c", "op:a"), ("c", "op:a:b")):
        document = understanding(name, envelope={"operation_id": operation_id})
        assert code_of(submit(ledger, document, submitter="orchestrator")) is None
    assert requested(ledger) == ["b:c", "c"]


@pytest.mark.spec("K5")
def test_a_refused_operation_asks_for_nothing(ledger):
    lost = link("x", "nobody", "a")["primitive_effects"]
    assert code_of(submit(ledger, create("a", UNDERSTANDING, *lost))) == "edge_endpoint_missing"
    assert requested(ledger) == []
    assert everything(ledger)["chain_head"][0]["request_sequence"] == 0


@pytest.mark.spec("K12")
def test_a_recompute_asks_for_nothing(ledger):
    accept(ledger, understanding("a"), understanding("b"), link("1", "a", "b"))
    with ledger.view() as view:
        document = recompute(view, "a")
    before = requested(ledger)
    work(ledger, document)
    assert requested(ledger) == [name for name in before if name != "a"]


@pytest.mark.spec("§17.6")
def test_every_request_is_told_in_passing(ledger):
    result = submit(ledger, understanding("a"))
    [row] = everything(ledger)["ephemeral_receipts"]
    [_, said] = result.emitted_receipts
    assert (row["receipt_id"], row["receipt_kind"]) == (said["receipt_id"], said["receipt_kind"])
    assert said["retention_class"] == "ephemeral"


# Priority


@pytest.mark.spec("§8.3")
@pytest.mark.parametrize("priority", PRIORITIES)
def test_requests_have_the_priority_that_their_operation_states(ledger, priority):
    diamond(ledger)
    accept(ledger, adapt("claim", envelope_changes={"recompute_priority": priority}))
    assert set(priorities(ledger).values()) == {priority}


@pytest.mark.parametrize("priority", [None, "whenever"])
def test_without_a_known_priority_a_request_is_background(ledger, priority):
    accept(ledger, understanding("a", envelope={"recompute_priority": priority}))
    assert priorities(ledger) == {"a": "background_normal"}


@pytest.mark.spec("K12")
def test_a_parent_is_as_urgent_as_its_most_urgent_descendant(ledger):
    diamond(ledger)
    accept(ledger, adapt("b", recompute_priority="user_active_session"))
    drain(ledger)
    accept(ledger, adapt("claim", authority=0))
    assert priorities(ledger) == {
        "a": "user_active_session",
        "b": "user_active_session",
        "c": "background_normal",
        "d": "background_normal",
    }


@pytest.mark.spec("K12")
def test_an_urgent_descendant_raises_the_parents_that_already_wait(ledger):
    diamond(ledger)
    accept(ledger, adapt("claim", authority=0))
    urgent = {"recompute_priority": "user_initiated_critical"}
    accept(ledger, adapt("c", envelope_changes=urgent))
    most = {}
    with ledger.view() as view:
        for request in view.open_requests():
            most[request.item_key] = min(
                most.get(request.item_key, 9), PRIORITIES.index(request.priority)
            )
    critical = PRIORITIES.index("user_initiated_critical")
    # b too: d, which waits for c, waits for b as well.
    assert most == dict.fromkeys("abcd", critical)


@pytest.mark.spec("K12")
def test_a_parent_that_comes_later_is_as_urgent_as_the_descendant_that_waits(ledger):
    diamond(ledger)
    urgent = {"recompute_priority": "user_initiated_critical"}
    accept(ledger, adapt("d", envelope_changes=urgent))
    accept(ledger, adapt("claim", authority=0))
    with ledger.view() as view:
        newest = {request.item_key: request.priority for request in view.open_requests()}
    assert newest["a"] == newest["b"] == newest["c"] == "user_initiated_critical"


# Coalescing and readiness


@pytest.mark.spec("K12")
def test_triggers_that_arrive_while_work_waits_become_one_recompute(ledger):
    diamond(ledger)
    for value in (0, 0.25, 0.75):
        accept(ledger, adapt("claim", authority=value))
    assert len(requested(ledger)) == 12
    assert drain(ledger) == ["a", "b", "c", "d"]
    rows = everything(ledger)
    outcomes = {row["request_id"]: row["operation_id"] for row in rows["outbox_outcomes"]}
    assert set(outcomes) == {row["request_id"] for row in rows["outbox"]}
    newest = sorted(rows["outbox"], key=lambda row: row["request_sequence"])[-12:]
    served = {(row["item_key"], outcomes[row["request_id"]]) for row in newest}
    assert sorted(item for item, _ in served) == ["a", "b", "c", "d"]


@pytest.mark.spec("§8.2")
def test_each_request_that_a_recompute_serves_gets_its_receipt(ledger):
    accept(ledger, understanding("a"), adapt("a", title="t"))
    with ledger.view() as view:
        ids = [request.request_id for request in view.open_requests()]
        document = recompute(view, "a")
    result = work(ledger, document)
    stored_receipts = receipts(ledger, result.operation_id)
    assert [
        (
            receipt["receipt_kind"],
            receipt["request_id"],
            receipt["target_cu_id"],
            receipt["new_authority_value"],
        )
        for receipt in stored_receipts
    ] == [("authority_recompute_completed", name, "a", 0.5) for name in ids]
    with ledger.view() as view:
        outcome = view.outcome_of(ids[0])
    assert outcome == {
        "request_id": ids[0],
        "outcome": "completed",
        "operation_id": result.operation_id,
        "closed_sequence": result.ec_sequence_number,
        "closed_at_us": START_US + 2,
    }


@pytest.mark.spec("K12")
def test_a_recompute_closes_what_was_caused_by_the_time_it_read_and_nothing_later(ledger):
    accept(ledger, create("claim", CLAIM, authority=1), understanding("a"))
    accept(ledger, link("1", "claim", "a"))
    with ledger.view() as view:
        document = recompute(view, "a")
    accept(ledger, adapt("claim", authority=0))
    assert code_of(work(ledger, document)) is None
    assert stored(ledger, "a") == 5 / 6
    assert requested(ledger) == ["a"]
    assert drain(ledger) == ["a"]
    assert stored(ledger, "a") == 1 / 6


def ready_now(ledger):
    with ledger.view() as view:
        return sorted(
            {ready_item.item_key for ready_item in ready_items(view, view.open_requests())}
        )


def state(ledger, name, as_of=None):
    with ledger.view() as view:
        return due(view, name, view.head().ec_sequence_number if as_of is None else as_of).readiness


@pytest.mark.spec("K12")
def test_an_understanding_is_ready_when_nothing_above_it_waits(ledger):
    diamond(ledger)
    accept(ledger, adapt("claim", authority=0))
    order = []
    while ready := ready_now(ledger):
        states = {name: state(ledger, name) for name in "abcd"}
        waiting = set(requested(ledger))
        assert {name for name in "abcd" if states[name] is RecomputeReadiness.READY} == set(ready)
        assert {name for name in "abcd" if states[name] is RecomputeReadiness.CLOSED} == {
            *"abcd"
        } - waiting
        order.append(ready)
        for name in ready:
            with ledger.view() as view:
                document = recompute(view, name)
            assert code_of(work(ledger, document)) is None
    assert order == [["a"], ["b", "c"], ["d"]]


@pytest.mark.spec("K12")
def test_what_was_read_before_a_parent_was_computed_cannot_be_recorded_after(ledger):
    diamond(ledger)
    accept(ledger, adapt("claim", authority=0))
    with ledger.view() as view:
        early = recompute(view, "b")
        read_at = view.head().ec_sequence_number
        document = recompute(view, "a")
    work(ledger, document)
    assert state(ledger, "b", read_at) is RecomputeReadiness.INPUT_PENDING
    assert state(ledger, "b") is RecomputeReadiness.READY
    assert code_of(work(ledger, early)) == "recompute_input_pending"
    assert drain(ledger) == ["b", "c", "d"]


@pytest.mark.spec("K12")
def test_a_moment_before_the_request_was_made_is_closed(ledger):
    accept(ledger, create("n", "Note"), understanding("a"))
    assert state(ledger, "a", 1) is RecomputeReadiness.CLOSED
    assert state(ledger, "a", 2) is RecomputeReadiness.READY
    assert state(ledger, "nobody") is RecomputeReadiness.CLOSED


@pytest.mark.spec("K12")
def test_a_trigger_recomputes_each_once_and_no_value_mixes_old_and_new(ledger):
    diamond(ledger)
    accept(ledger, adapt("claim", authority=0))
    assert drain(ledger) == ["a", "b", "c", "d"]
    a = 1 / 6
    b, c = (1 + 4 * a) / 6, (1 + 2 * a) / 4
    assert stored(ledger, "a") == pytest.approx(a, rel=1e-15)
    assert stored(ledger, "b") == pytest.approx(b, rel=1e-15)
    assert stored(ledger, "c") == pytest.approx(c, rel=1e-15)
    assert stored(ledger, "d") == pytest.approx((1 + 4 * b + c) / 7, rel=1e-15)


# What is stored


@pytest.mark.spec("§8.5")
def test_an_understanding_says_what_its_authority_was_computed_from(ledger):
    accept(ledger, create("claim", CLAIM, authority=1), understanding("a"), understanding("b"))
    accept(ledger, link("2", "claim", "b"), link("1", "a", "b", "tangential"))
    drain(ledger)
    with ledger.view() as view:
        payload = view.node("b")["payload"]
    assert payload["cu_authority_input_versions"] == [
        {
            "parent_node_id": "a",
            "parent_version": "2",
            "edge_essentiality": "tangential",
            "captured_at_authority": 0.5,
        },
        {
            "parent_node_id": "claim",
            "parent_version": "1",
            "edge_essentiality": "core",
            "captured_at_authority": 1,
        },
    ]
    assert payload["cu_authority"] == (1 + 4 + 0.5) / 7


@pytest.mark.spec("K13")
def test_an_override_replaces_the_value_and_reaches_what_is_below(ledger):
    diamond(ledger)
    accept(ledger, adapt("a", override_authority=0.125))
    drain(ledger)
    assert stored(ledger, "a") == 0.125
    assert stored(ledger, "b") == (1 + 4 * 0.125) / 6
    accept(ledger, adapt("a", override_authority=None))
    drain(ledger)
    assert stored(ledger, "a") == 5 / 6


def test_inputs_without_an_authority_are_left_out(ledger):
    accept(
        ledger,
        create("claim", CLAIM),
        create("note", "Note", authority=1),
        understanding("new"),
        understanding("a"),
        *(link(name, name, "a") for name in ("claim", "note", "new")),
    )
    with ledger.view() as view:
        value, inputs = authority_of(view, BetaPosteriorMean(), view.node("a"))
        assert (value, inputs.count, inputs.excerpt) == (0.5, 0, [])


def test_the_graph_answers_who_depends_and_who_feeds(ledger):
    diamond(ledger)
    accept(ledger, create("note", "Note"), link("6", "a", "note"))
    with ledger.view() as view:
        assert dependents_of(view, "a") == ["b", "c"]
        assert dependents_of(view, "claim") == ["a"]
        assert dependents_of(view, "d") == []
        assert feeding_understandings(view, "d") == {"a", "b", "c"}
        assert feeding_understandings(view, "a") == set()


# Cycles and depth


@pytest.mark.spec("§8.4")
def test_a_cycle_is_named_on_a_receipt_and_what_is_below_it_goes_on(ledger):
    diamond(ledger)
    by = accept(ledger, link("6", "b", "a"))
    [receipt] = receipts(ledger, by)
    assert receipt["receipt_kind"] == "cu_authority_cycle_detected"
    assert receipt["node_refs"] == ["a", "b"]
    assert receipt["trigger_source_id"] == by
    assert requested(ledger) == ["c", "d"]
    assert drain(ledger) == ["c", "d"]


@pytest.mark.spec("§8.4")
def test_a_cycle_that_is_broken_is_computed_again(ledger):
    diamond(ledger)
    accept(ledger, link("6", "d", "a"), adapt("claim", authority=0), unlink("6"))
    assert sorted(set(requested(ledger))) == ["a", "b", "c", "d"]
    drain(ledger)
    with ledger.view() as view:
        for node in understandings(view):
            value, _ = authority_of(view, BetaPosteriorMean(), node)
            assert node["payload"]["cu_authority"] == value
    assert stored(ledger, "a") == 1 / 6


@pytest.mark.spec("§8.4")
def test_members_of_a_cycle_that_already_wait_do_not_hold_each_other_back(ledger):
    accept(ledger, understanding("a"), understanding("b"), link("1", "a", "b"))
    accept(ledger, link("2", "b", "a"))
    assert ready_now(ledger) == ["a", "b"]
    assert state(ledger, "a") is state(ledger, "b") is RecomputeReadiness.READY
    assert sorted(drain(ledger)) == ["a", "b"]


@pytest.mark.spec("§8.4")
def test_a_cascade_ends_at_the_depth_cap_and_says_where():
    ledger, _ = ledger_on(MemoryStore())
    names = chain(ledger, MAX_CASCADE_DEPTH + 2)
    before = len(requested(ledger))
    by = accept(ledger, adapt("claim", authority=0))
    assert requested(ledger)[before:] == names[:MAX_CASCADE_DEPTH]
    [receipt] = receipts(ledger, by)
    assert receipt["receipt_kind"] == "cascade_depth_exceeded"
    assert receipt["node_refs"] == [names[MAX_CASCADE_DEPTH]]
