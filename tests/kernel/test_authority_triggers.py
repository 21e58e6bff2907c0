"""Who asks for a recompute without being set off by a change, and what is too wide at once."""

import pytest

from actors.commit.recompute_units import RecomputeUnit
from actors.commit.units import IntentUnit, RequestRecomputeUnit
from actors.orchestrator.intents import EnqueueRecompute, InputsStated, RecalculateAuthority
from kernel.authority import enqueue_pages, request_recording
from kernel.authority.enqueue_pages import plan_deferred
from kernel.authority.requests import (
    AUTHORITY_QUEUE,
    CASCADE_QUEUE,
    CASCADES,
    RecomputeReadiness,
    due,
    freed_requests,
    ready_items,
)
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.sweeps import BackfillProgress, NightlyTick, tick_source
from kernel.authority.value import authority_of
from kernel.model.stated_receipts import EnqueuedRequest, RecomputeRequested
from kernel.values.canonical import digest
from kernel.values.host import iso_time
from kernel.verify import verify
from tests.actors.harness import bench_on
from tests.kernel.build import (
    HOUR_US,
    START_US,
    adapt,
    belief_anchor,
    code_of,
    create,
    drain,
    effect,
    envelope,
    link,
    recompute,
    submit,
    taking,
    understandings,
    work,
)
from tests.world import World
from workers.use_cases.authority_sweeps import (
    Sweep,
    backfill,
    backfill_progress,
    decay_tick,
    expect_accepted,
)

UNDERSTANDING, CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"
NIGHTLY = {"cu_authority_strategy": "scheduled_nightly_only"}
DAY_US = 24 * HOUR_US


@pytest.fixture
def world():
    return AuthorityWorld()


class AuthorityWorld(World):
    """What asks for authorities, and what is asked for."""

    def write(self, unit):
        with bench_on(self.ledger) as context:
            return unit.run(context)

    def sweep(self, sweep: Sweep):
        return [self.write(sweep.unit(page)) for page in sweep.pages(self.ledger)]

    def tick(self, threshold_hours=0):
        return self.sweep(decay_tick(self.host.time_us, threshold_hours))

    def open(self):
        return super().open(AUTHORITY_QUEUE)

    def open_keys(self):
        return [request.item_key for request in self.open()]

    def stored(self, name):
        return self.node(name)["payload"].get("cu_authority")

    def cascade(self):
        with self.ledger.view() as view:
            return view.open_requests_of(CASCADE_QUEUE, CASCADES)

    def pages(self):
        with self.ledger.view() as view:
            return plan_deferred(view, view.open_requests_of(CASCADE_QUEUE, CASCADES)[0])

    def record(self, page):
        intent = EnqueueRecompute(intent_key=digest(page.model_dump()), asked_for=page)
        return self.write(IntentUnit(intent, None, "system"))

    def whole(self):
        """Verified, and every authority is what its inputs give."""
        with self.ledger.view() as view:
            result = verify(view)
            assert result.ok, result.findings
            for node in understandings(view):
                assert (
                    node["payload"]["cu_authority"]
                    == authority_of(view, BetaPosteriorMean(), node)[0]
                )

    def chain(self, names="abc", **fields):
        self.accept(create("claim", CLAIM, authority=1))
        self.accept(*(create(name, UNDERSTANDING, **fields) for name in names))
        pairs = zip(["claim", *names], names, strict=False)
        self.accept(*(link(f"{source}>{two}", source, two) for source, two in pairs))
        drain(self.ledger)


# Set off by a change (§8.2)

RECLASSIFIED = effect("edge_reclassify", "a>b", edge_metadata={"essentiality": "tangential"})


@pytest.mark.spec("§8.2")
@pytest.mark.parametrize(
    ("document", "kind", "reached"),
    [
        pytest.param(adapt("claim", authority=0), "versioned_claim_update", "abc", id="T1"),
        pytest.param(adapt("a", title="t"), "input_cu_update", "abc", id="T2"),
        pytest.param(
            envelope("document_relationship_update", [RECLASSIFIED]),
            "edge_essentiality_change",
            "bc",
            id="T4",
        ),
        pytest.param(adapt("b", override_authority=0.9), "user_authority_override", "bc", id="T5"),
        pytest.param(
            adapt("claim", carve_out_class="privileged"),
            "carve_out_reclassification",
            "abc",
            id="T6",
        ),
    ],
)
def test_each_trigger_reaches_what_depends_on_it(world, document, kind, reached):
    """T3 and T7 are sweeps, further down."""
    world.chain()
    by = world.accept(document)
    assert world.open_keys() == [*reached]
    [first, *below] = [request.document for request in world.open()]
    assert first["trigger_kind"] == kind
    assert {request["trigger_kind"] for request in below} == {"input_cu_update"}
    assert {request["trigger_source_id"] for request in (first, *below)} == {by}
    drain(world.ledger)
    world.whole()
    if kind == "user_authority_override":
        assert world.stored("b") == 0.9
        assert world.stored("c") == (1 + 4 * 0.9) / 6


# Asked for by somebody (§8.2)


@pytest.mark.spec("§8.2")
def test_who_asks_for_a_recompute_gets_the_request_and_all_below_is_asked_for(world):
    world.chain()
    answer = world.write(RequestRecomputeUnit("b", "my reason", "user_initiated_critical"))
    assert world.open_keys() == ["b", "c"]
    first = world.open()[0].document
    assert answer["request"] == first
    assert first["trigger_kind"] == "user_request"
    assert {request.document["trigger_source_id"] for request in world.open()} == {"my reason"}
    # What is below is as urgent: it is asked for with the priority of the request (§8.2).
    assert [request.priority for request in world.open()] == ["user_initiated_critical"] * 2
    drain(world.ledger)
    world.whole()


@pytest.mark.spec("§8.4")
def test_the_same_source_asks_once(world):
    world.chain()
    first = world.write(RequestRecomputeUnit("b", "why", "background_normal"))
    again = world.write(RequestRecomputeUnit("b", "why", "background_normal"))
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again["request"] == first["request"]
    assert world.open_keys() == ["b", "c"]
    world.host.time_us += 25 * HOUR_US  # the window of the key is over, the request still waits
    later = world.write(RequestRecomputeUnit("b", "why", "background_normal"))
    assert later["request"] == first["request"]
    assert world.open_keys() == ["b", "c"]
    drain(world.ledger)
    world.host.time_us += 25 * HOUR_US
    world.write(RequestRecomputeUnit("b", "why", "background_normal"))
    assert world.open_keys() == ["b", "c"]


@pytest.mark.spec("§8.2")
def test_a_recompute_is_caused_by_the_operation_that_asked_for_it(world):
    world.chain("a")
    outcome = world.write(RequestRecomputeUnit("a", "why", "background_normal"))
    with world.ledger.view() as view:
        [request] = ready_items(view, view.open_requests())
    result = reporter(world, request.item_key)
    with world.ledger.view() as view:
        parents = view.envelope(result.operation_id)["causal_parent_operation_ids"]
    assert outcome["operation_id"] in parents


def reporter(world, target):
    with world.ledger.view() as view:
        value, inputs = authority_of(view, BetaPosteriorMean(), view.node(target))
        sequence = view.head().ec_sequence_number
    intent = RecalculateAuthority(
        intent_key=f"{target}@{sequence}",
        target_cu_id=target,
        as_of_sequence=sequence,
        cu_authority=value,
        inputs=InputsStated.model_validate(inputs.document()),
    )
    outcome, result = world.write(RecomputeUnit(intent, None))
    assert outcome == "completed"
    return result


@pytest.mark.parametrize("target", ["claim", "nobody"])
def test_only_an_understanding_has_an_authority_to_recompute(world, target):
    world.chain()
    result = world.write(RequestRecomputeUnit(target, "why", "background_normal"))
    assert code_of(result) == "authority_target_unknown"
    assert world.open_keys() == []


@pytest.mark.spec("K18")
def test_a_caller_does_not_speak_the_verb(world):
    world.chain()
    payload = {"trigger_source_id": "x", "requests": [], "cascades": False}
    stated = effect("receipt_only", **payload)
    stated |= {"receipt_subkind": "authority_recompute_enqueued"}
    document = envelope("enqueue_recalculate_authority", [stated], target_refs=["b"])
    assert code_of(submit(world.ledger, document)) == "envelope_actor_unauthorized"


@pytest.mark.parametrize(
    "changes",
    [
        {"requests": [{"target_cu_id": "a", "trigger_kind": "user_request", "priority": "soon"}]},
        {"cascades": True},
        {"further": 1},
        {
            "cascades": True,
            "requests": [
                {
                    "target_cu_id": "a",
                    "trigger_kind": "versioned_claim_update",
                    "priority": "background_normal",
                }
            ],
        },
    ],
)
def test_what_is_asked_for_in_another_form_is_refused(world, changes):
    world.chain()
    payload = {"trigger_source_id": "x", "requests": [], **changes}
    stated = effect("receipt_only", **payload)
    stated |= {"receipt_subkind": "authority_recompute_enqueued"}
    document = envelope("enqueue_recalculate_authority", [stated], target_refs=["b"])
    refused = code_of(work(world.ledger, document))
    assert refused in {"authority_enqueue_invalid", "receipt_body_invalid"}
    assert world.open_keys() == []


# Strategies (§8.5)


@pytest.mark.spec("INV-A-AUTHORITY-EAGER-1")
@pytest.mark.parametrize(
    ("strategy", "code"),
    [
        ("lazy_on_query", "cu_authority_strategy_non_conformant"),
        ("whenever", "cu_authority_strategy_invalid"),
        (None, "cu_authority_strategy_invalid"),
        ("eager_on_parent_update", None),
        ("scheduled_nightly_only", None),
    ],
)
def test_an_authority_is_never_computed_on_reading(world, strategy, code):
    document = create("a", UNDERSTANDING, cu_authority_strategy=strategy)
    assert code_of(submit(world.ledger, document)) == code


@pytest.mark.spec("§8.5")
def test_what_waits_for_the_tick_is_asked_for_by_the_tick_with_all_below(world):
    world.chain()
    world.accept(adapt("b", **NIGHTLY))
    before = world.stored("b"), world.stored("c")
    world.accept(adapt("claim", authority=0))
    assert world.open_keys() == ["a"]
    drain(world.ledger)
    assert (world.stored("b"), world.stored("c")) == before
    with world.ledger.view() as view:
        result = verify(view)
    assert result.ok
    assert result.authorities_pending == 1
    world.tick()
    assert world.open_keys() == ["b", "c"]
    assert {request.document["trigger_kind"] for request in world.open()} == {
        "authority_decay_tick",
        "input_cu_update",
    }
    drain(world.ledger)
    world.whole()
    assert world.tick() == []


@pytest.mark.spec("§8.5")
def test_what_no_longer_waits_for_the_tick_is_asked_for_at_once(world):
    world.chain()
    world.accept(adapt("b", **NIGHTLY), adapt("claim", authority=0))
    drain(world.ledger)
    world.accept(adapt("b", cu_authority_strategy="eager_on_parent_update"))
    assert world.open_keys() == ["b", "c"]
    drain(world.ledger)
    world.whole()


# T3: the decay tick


@pytest.mark.spec("§8.2")
def test_t3_the_tick_asks_below_a_decay_event_that_has_aged_past_the_threshold_once(world):
    world.chain()
    world.accept(adapt("claim", last_decay_at=iso_time(START_US)))
    drain(world.ledger)
    world.host.time_us = START_US + 7 * DAY_US - HOUR_US
    assert world.tick(7 * 24) == []
    world.host.time_us += 2 * HOUR_US
    [result] = world.tick(7 * 24)
    assert world.open_keys() == ["a", "b", "c"]
    [direct, *below] = [request.document for request in world.open()]
    assert direct["trigger_kind"] == "authority_decay_tick"
    assert direct["trigger_source_id"] == tick_source(world.host.time_us)
    assert {request["trigger_kind"] for request in below} == {"input_cu_update"}
    assert {request.priority for request in world.open()} == {"background_low_priority"}
    with world.ledger.view() as view:
        sent = view.envelope(result.operation_id)
    assert sent["actor"] == "system"
    assert sent["affected_subgraph_descriptor"]["scope_kind"] == "global_sweep"
    assert world.tick(7 * 24) == []  # it is asked for
    for name in "abc":
        reporter(world, name)
    assert world.tick(7 * 24) == []  # it was computed since


@pytest.mark.parametrize("stated", ["yesterday", 5, "2026-01-01"])
def test_a_decay_event_is_at_a_time(world, stated):
    document = create("claim", CLAIM, last_decay_at=stated)
    assert code_of(submit(world.ledger, document)) == "last_decay_at_invalid"


@pytest.mark.spec("§8.2")
def test_the_newest_decay_event_counts_and_only_of_inputs_that_are_active(world):
    world.chain("a")
    world.accept(
        create("other", CLAIM, authority=1, last_decay_at=iso_time(START_US + 5 * DAY_US)),
        link("other>a", "other", "a"),
        adapt("claim", last_decay_at=iso_time(START_US)),
    )
    drain(world.ledger)
    tick = NightlyTick(START_US + 8 * DAY_US, 7 * DAY_US, BetaPosteriorMean())
    with world.ledger.view() as view:
        assert not tick.is_due(view, view.node("a"))
    world.accept(taking("collapse", "other", "other>a"))
    drain(world.ledger)
    with world.ledger.view() as view:
        assert tick.is_due(view, view.node("a"))


# T7: the backfill


def bare(world):
    """A chain of understandings without authorities, and nobody who asks for them."""
    world.accept(create("claim", CLAIM, authority=1))
    world.accept(*(create(name, UNDERSTANDING, **NIGHTLY) for name in "abcd"))
    pairs = zip(["claim", *"abc"], "abcd", strict=True)
    world.accept(*(link(f"{source}>{two}", source, two) for source, two in pairs))
    assert world.open_keys() == []


@pytest.mark.spec("§8.6")
def test_t7_the_backfill_asks_for_every_authority_that_is_missing_parents_first(world):
    bare(world)
    [result] = world.sweep(backfill())
    assert world.open_keys() == [*"abcd"]
    with world.ledger.view() as view:
        sent = view.envelope(result.operation_id)
    assert sent["actor"] == "migration"
    assert {request.document["trigger_kind"] for request in world.open()} == {"migration_backfill"}
    assert {request.priority for request in world.open()} == {"background_low_priority"}
    for name in "abcd":
        answer = reporter(world, name)
        with world.ledger.view() as view:
            done = view.envelope(answer.operation_id)
        assert done["actor"] == "migration"
        assert result.operation_id in done["causal_parent_operation_ids"]
        assert done["recorded_model_outputs"] == [] if "recorded_model_outputs" in done else True
    world.whole()
    assert world.sweep(backfill()) == []


@pytest.mark.spec("§8.6")
def test_the_backfill_goes_on_where_it_was_killed(world, monkeypatch):
    monkeypatch.setattr(enqueue_pages, "PAGE_REQUESTS_MAX", 1)
    bare(world)
    sweep = backfill()
    pages = sweep.pages(world.ledger)
    for page in pages[:2]:  # killed after two of four
        expect_accepted(world.write(sweep.unit(page)))
    assert backfill_progress(world.ledger) == BackfillProgress(4, 0, 2)
    drain(world.ledger)
    assert backfill_progress(world.ledger).document() == {
        "understandings": 4,
        "materialized": 2,
        "requested": 0,
        "share": 0.5,
        "ready": False,
    }
    world.sweep(sweep)
    assert world.open_keys() == ["c", "d"]
    drain(world.ledger)
    assert backfill_progress(world.ledger).ready
    world.whole()


@pytest.mark.spec("§8.6")
@pytest.mark.parametrize(("done", "ready"), [(99, False), (100, True)])
def test_a_deployment_is_ready_above_99_percent(done, ready):
    assert BackfillProgress(100, done, 0).ready is ready
    assert BackfillProgress(0, 0, 0).ready


# Cascades too wide for one transaction


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr(request_recording, "CASCADE_REQUESTS_MAX", 3)
    monkeypatch.setattr(enqueue_pages, "PAGE_REQUESTS_MAX", 2)


def wide(world):
    """A claim feeds a and b, which feed c to g in a chain; h is beside them."""
    world.chain("acdefg")
    world.accept(create("b", UNDERSTANDING), create("h", UNDERSTANDING))
    world.accept(
        link("claim>b", "claim", "b"), link("b>c", "b", "c"), link("claim>h", "claim", "h")
    )
    write_down(world)
    drain(world.ledger)


def write_down(world):
    while world.cascade():
        for page in world.pages():
            expect_accepted(world.record(page))


@pytest.mark.spec("K12")
@pytest.mark.usefixtures("narrow")
def test_a_cascade_that_is_too_wide_is_deferred_and_written_down_in_pages(world):
    wide(world)
    root = world.accept(
        adapt(
            "claim", authority=0, envelope_changes={"recompute_priority": "high_access_frequency"}
        )
    )
    assert world.open_keys() == []
    with world.ledger.view() as view:
        [receipt] = view.receipts_of(root)
    assert receipt["receipt_kind"] == "authority_cascade_deferred"
    write_down(world)
    assert sorted(world.open_keys()) == sorted("abcdefgh")
    assert {request.document["trigger_source_id"] for request in world.open()} == {root}
    assert {request.priority for request in world.open()} == {"high_access_frequency"}
    kinds = {request.item_key: request.document["trigger_kind"] for request in world.open()}
    assert {name for name, kind in kinds.items() if kind == "versioned_claim_update"} == {*"abh"}
    order = drain(world.ledger)
    assert sorted(order) == sorted("abcdefgh")  # each once
    world.whole()


@pytest.mark.spec("K12")
@pytest.mark.usefixtures("narrow")
def test_nothing_is_due_while_a_cascade_is_written_down(world):
    wide(world)
    world.accept(adapt("g", title="t"))
    with world.ledger.view() as view:
        assert [ready_item.item_key for ready_item in ready_items(view, view.open_requests())] == [
            "g"
        ]
        before = view.head().ec_sequence_number
        early = recompute(view, "g")
    world.accept(adapt("claim", authority=0))
    during = before + 1
    with world.ledger.view() as view:
        late = recompute(view, "g")
        assert ready_items(view, view.open_requests()) == []
        assert due(view, "g", during).readiness is RecomputeReadiness.INPUT_PENDING
        assert due(view, "g", before).readiness is RecomputeReadiness.READY
    assert code_of(work(world.ledger, late)) == "recompute_input_pending"
    assert code_of(work(world.ledger, early)) is None
    write_down(world)
    with world.ledger.view() as view:
        # What was read meanwhile may not be recorded afterwards either.
        assert due(view, "g", during).readiness in (
            RecomputeReadiness.CLOSED,
            RecomputeReadiness.INPUT_PENDING,
        )
    drain(world.ledger)
    world.whole()


@pytest.mark.usefixtures("narrow")
def test_a_cascade_is_written_down_by_whoever_comes_next(world):
    """Killed after a page; the next one asks for what is not on the record yet."""
    wide(world)
    world.accept(adapt("claim", authority=0))
    first, *_ = world.pages()
    expect_accepted(world.record(first))
    assert len(world.open_keys()) == 2
    assert sum(len(page.requests) for page in world.pages()) == 6
    write_down(world)
    assert sorted(world.open_keys()) == sorted("abcdefgh")
    drain(world.ledger)
    world.whole()


@pytest.mark.usefixtures("narrow")
def test_a_page_that_comes_too_late_is_refused(world):
    wide(world)
    world.accept(adapt("claim", authority=0))
    pages = world.pages()
    write_down(world)
    count = len(world.open_keys())
    late = pages[0].model_copy(update={"closes_cascade": True})
    assert code_of(world.record(late)) == "authority_cascade_closed"
    assert len(world.open_keys()) == count


@pytest.mark.usefixtures("narrow")
def test_cascades_are_written_down_one_after_the_other(world):
    wide(world)
    world.accept(adapt("claim", authority=0), adapt("claim", authority=0.5))
    assert len(world.cascade()) == 2
    write_down(world)
    assert len(world.open_keys()) == 16
    assert len(drain(world.ledger)) == 8
    world.whole()


@pytest.mark.usefixtures("narrow")
def test_what_a_deferred_cascade_leaves_out_is_named_on_a_receipt(world):
    wide(world)
    world.accept(link("g>f", "g", "f"))
    write_down(world)
    drain(world.ledger)
    world.accept(adapt("claim", authority=0))
    [page, *rest] = world.pages()
    assert page.cyclic == ["f", "g"]
    assert all(not deferred.cyclic for deferred in rest)
    result = world.record(page)
    with world.ledger.view() as view:
        kinds = {
            receipt["receipt_kind"]: receipt for receipt in view.receipts_of(result.operation_id)
        }
    assert kinds["cu_authority_cycle_detected"]["node_refs"] == ["f", "g"]
    write_down(world)
    assert sorted(world.open_keys()) == sorted("abcdeh")


def test_what_is_freed_is_what_waited_for_the_last_one_above(world):
    world.chain()
    world.accept(create("x", UNDERSTANDING), link("x>c", "x", "c"), adapt("claim", authority=0))
    with world.ledger.view() as view:
        assert freed_requests(view, ["a"]) == []
    reporter(world, "a")
    reporter(world, "x")
    with world.ledger.view() as view:
        assert {request.item_key for request in freed_requests(view, ["a", "x"])} == {"b"}


def test_a_page_names_each_request_once():
    request = EnqueuedRequest(
        target_cu_id="a", trigger_kind="user_request", priority="background_normal"
    )
    page = RecomputeRequested(trigger_source_id="x", requests=[request])
    assert RecomputeRequested.model_validate(page.model_dump(exclude_none=True)) == page


# Urgency (§8.3, §8.8)


@pytest.mark.spec("§8.8")
def test_what_is_changed_in_an_active_session_is_urgent_and_what_is_below_is_not(world):
    world.chain()
    assert code_of(work(world.ledger, belief_anchor("s"))) is None
    world.accept(adapt("claim", authority=0, envelope_changes={"session_id": "s"}))
    assert {request.item_key: request.priority for request in world.open()} == {
        "a": "user_active_session",
        "b": "background_normal",
        "c": "background_normal",
    }
    drain(world.ledger)
    world.host.time_us += HOUR_US
    world.accept(adapt("claim", authority=1, envelope_changes={"session_id": "s"}))
    assert {request.priority for request in world.open()} == {"background_normal"}


@pytest.mark.spec("§8.3")
def test_an_understanding_that_is_read_often_says_so_itself(world):
    world.chain()
    world.accept(adapt("b", recompute_priority="high_access_frequency"))
    drain(world.ledger)
    world.accept(adapt("claim", authority=0))
    assert {request.item_key: request.priority for request in world.open()} == {
        "a": "high_access_frequency",
        "b": "high_access_frequency",
        "c": "background_normal",
    }
