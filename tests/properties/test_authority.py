"""Authority whatever the graph, the order of the work and the age of what a worker read."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from actors.commit.batch import Waiting, run_units, whole
from actors.commit.recompute_units import RecomputeUnit
from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit, RequestRecomputeUnit
from actors.orchestrator.intents import (
    EnqueueRecompute,
    InputsStated,
    RecalculateAuthority,
)
from actors.orchestrator.orchestrator import Orchestrator
from kernel.authority import enqueue_pages, request_recording
from kernel.authority.cascade import MAX_CASCADE_DEPTH, plan_cascade
from kernel.authority.enqueue_pages import plan_deferred
from kernel.authority.graph import is_nightly
from kernel.authority.requests import (
    AUTHORITY_QUEUE,
    CASCADE_QUEUE,
    CASCADES,
    PRIORITIES,
    RecomputeReadiness,
    due,
    ready_items,
)
from kernel.authority.strategy import WEIGHTS, BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.model.authority_strategy import AuthorityInput
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import digest
from kernel.values.host import iso_time
from kernel.verify import verify
from tests.kernel.build import (
    START_US,
    adapt,
    code_of,
    create,
    effect,
    envelope,
    everything,
    link,
    memory_ledger,
    recompute,
    relink,
    submit,
    taking,
    understandings,
    unlink,
    work,
)
from workers.use_cases.authority_sweeps import backfill, decay_tick

UNIT = st.floats(0, 1) | st.sampled_from([0, 1, 0.5, 0.1, 1e-300])
ESSENTIALITIES = st.sampled_from(sorted(WEIGHTS))
INPUTS = st.lists(st.builds(AuthorityInput, st.just("n"), st.just("1"), ESSENTIALITIES, UNIT))

# The strategy


@pytest.mark.spec("K13")
@given(INPUTS, st.randoms(use_true_random=False))
def test_the_same_inputs_give_the_same_bits_in_any_order(inputs, random):
    shuffled = list(inputs)
    random.shuffle(shuffled)
    strategy = BetaPosteriorMean()
    assert strategy.compute(inputs).hex() == strategy.compute(iter(shuffled)).hex()


@pytest.mark.spec("K13")
@given(INPUTS)
def test_an_authority_is_the_posterior_mean_and_lies_between_0_and_1(inputs):
    weights = {"core": 4, "supporting": 2, "tangential": 1}
    alpha = 1 + sum(
        weights[input_.edge_essentiality] * Fraction(input_.captured_at_authority)
        for input_ in inputs
    )
    total = 2 + sum(weights[input_.edge_essentiality] for input_ in inputs)
    value = BetaPosteriorMean().compute(inputs)
    assert 0 < value < 1
    assert math.isclose(value, float(alpha / total), rel_tol=1e-15)


@pytest.mark.spec("K13")
@given(INPUTS, UNIT)
def test_an_override_is_the_value(inputs, override):
    assert BetaPosteriorMean().compute(inputs, override) == override


@given(INPUTS, UNIT, ESSENTIALITIES)
def test_a_further_input_draws_the_authority_towards_itself(inputs, value, essentiality):
    strategy = BetaPosteriorMean()
    before = strategy.compute(inputs)
    after = strategy.compute([*inputs, AuthorityInput("m", "1", essentiality, value)])
    assert min(before, value) - 1e-15 <= after <= max(before, value) + 1e-15


# The plan

NODES = [f"n{number:02}" for number in range(10)]
PAIRS = st.tuples(st.integers(0, 9), st.integers(0, 9))
ANY_GRAPH = st.sets(PAIRS, max_size=25)
DAG = st.sets(PAIRS.filter(lambda pair: pair[0] < pair[1]), max_size=25)
FIRST = st.sets(st.sampled_from(NODES), min_size=1, max_size=4)
RANKS = st.lists(st.integers(0, 4), min_size=10, max_size=10)


def children_of(pairs):
    children = {node: set() for node in NODES}
    for source, target in pairs:
        children[NODES[source]].add(NODES[target])
    return children


def reached(first, children):
    met, waiting = set(first), list(first)
    while waiting:
        for child in children[waiting.pop()] - met:
            met.add(child)
            waiting.append(child)
    return met


def plan_of(first, children, ranks=(3,) * 10):
    return plan_cascade(first, children.__getitem__, lambda node: ranks[NODES.index(node)])


@pytest.mark.spec("K12")
@given(ANY_GRAPH, FIRST, RANKS)
def test_a_plan_has_each_affected_once_parents_first_and_names_the_cycles(pairs, first, ranks):
    children = children_of(pairs)
    plan = plan_of(first, children, ranks)
    affected = reached(first, children)
    cyclic = {node for node in affected if node in reached(children[node], children)}
    order = [step.node_id for step in plan.steps]

    assert plan.cyclic == tuple(sorted(cyclic))
    assert len(order) == len(set(order))
    assert set(order) == affected - cyclic
    assert plan.beyond_cap == ()
    place = {node: number for number, node in enumerate(order)}
    for node in order:
        for child in children[node] & place.keys():
            assert place[node] < place[child]


@pytest.mark.spec("K12")
@given(DAG, FIRST, RANKS)
def test_a_parent_is_as_urgent_as_its_most_urgent_descendant(pairs, first, ranks):
    children = children_of(pairs)
    for step in plan_of(first, children, ranks).steps:
        below = reached([step.node_id], children)
        assert step.rank == min(ranks[NODES.index(node)] for node in below)


@given(DAG, FIRST, st.randoms(use_true_random=False))
def test_a_plan_is_the_same_in_whatever_order_the_graph_is_told(pairs, first, random):
    children = children_of(pairs)

    def shuffled(node):
        names = sorted(children[node])
        random.shuffle(names)
        return names

    given_first = sorted(first)
    random.shuffle(given_first)
    assert plan_cascade(given_first, shuffled, lambda _: 0) == plan_cascade(
        first, children.__getitem__, lambda _: 0
    )


@pytest.mark.spec("§8.4")
@given(st.integers(1, 3 * MAX_CASCADE_DEPTH), st.integers(0, 2))
def test_a_branch_ends_at_the_depth_cap_where_it_is_named(length, shortcut):
    def below(node):
        # A shortcut leads past the first nodes, so that depth is counted by the shortest way.
        further = [node + 1, node + 1 + shortcut] if node == 0 else [node + 1]
        return [f"{further_node:04}" for further_node in further if further_node < length]

    plan = plan_cascade(["0000"], lambda node: below(int(node)), lambda _: 0)
    depths = [
        max(1, number + 1 - (shortcut if number > shortcut else 0)) for number in range(length)
    ]
    kept = [f"{n:04}" for n, depth in enumerate(depths) if depth <= MAX_CASCADE_DEPTH]
    assert sorted(step.node_id for step in plan.steps) == kept
    assert plan.beyond_cap == ((f"{len(kept):04}",) if len(kept) < length else ())
    assert max(step.depth for step in plan.steps) <= MAX_CASCADE_DEPTH


# The record: changes in any order, workers in any order, reading now or at an earlier moment

CLAIMS = ["k0", "k1", "k2"]
UNDERSTANDINGS = ["u0", "u1", "u2", "u3", "u4"]
STRATEGY = BetaPosteriorMean()
STRATEGIES = ["eager_on_parent_update", "scheduled_nightly_only"]


class Recomputing(RuleBasedStateMachine):
    """Claims feed understandings, which feed later understandings; a worker keeps up, or not.

    Cascades are deferred where they are wider than `width`; whoever writes one down may be killed
    after any page.
    """

    @initialize(
        values=st.lists(UNIT, min_size=3, max_size=3),
        pairs=st.sets(st.tuples(st.integers(0, 7), st.integers(0, 4)), max_size=8),
        width=st.sampled_from([1, 2, 3, 1024]),
    )
    def begin(self, values, pairs, width):
        self.limits = request_recording.CASCADE_REQUESTS_MAX, enqueue_pages.PAGE_REQUESTS_MAX
        request_recording.CASCADE_REQUESTS_MAX, enqueue_pages.PAGE_REQUESTS_MAX = (
            width,
            max(1, width // 2),
        )
        self.ledger = memory_ledger()
        self.kernel, self.orchestrator = Kernel(), Orchestrator(self.ledger.host)
        self.readings = {}
        claims = [
            create(name, "VersionedClaim", authority=value)
            for name, value in zip(CLAIMS, values, strict=True)
        ]
        self.change(
            *claims, *(create(name, "ConsolidatedUnderstanding") for name in UNDERSTANDINGS)
        )
        for source, target in sorted(pairs):
            self.join(source, target, "core")

    def change(self, *documents):
        for document in documents:
            assert code_of(submit(self.ledger, document)) is None
            self.read()

    def read(self):
        """Remember what a worker reads of each understanding at this sequence."""
        with self.ledger.view() as view:
            self.readings[view.head().ec_sequence_number] = {
                node["node_id"]: authority_of(view, STRATEGY, node) for node in understandings(view)
            }

    @property
    def edges(self):
        edges = everything(self.ledger)["edges"]
        return [row["edge_id"] for row in edges if row["input_from"] is not None]

    # Changes

    @rule(
        source=st.integers(0, 7),
        fed=st.integers(0, 4),
        essentiality=ESSENTIALITIES,
    )
    def join(self, source, fed, essentiality):
        names = [*CLAIMS, *UNDERSTANDINGS]
        if source < fed + len(CLAIMS):
            name = f"{names[source]}>{UNDERSTANDINGS[fed]}"
            if name not in self.edges:
                self.change(link(name, names[source], UNDERSTANDINGS[fed], essentiality))

    @rule(claim=st.sampled_from(CLAIMS), value=UNIT, urgency=st.sampled_from(PRIORITIES))
    def update_a_claim(self, claim, value, urgency):
        changes = {"recompute_priority": urgency}
        self.change(adapt(claim, authority=value, envelope_changes=changes))

    @rule(claim=st.sampled_from(CLAIMS), node=st.sampled_from(UNDERSTANDINGS), value=UNIT)
    def update_a_claim_and_an_understanding(self, claim, node, value):
        second = effect("node_write", node, override_authority=value)
        self.change(envelope("field_adapt", [effect("node_write", claim, authority=value), second]))

    @rule(node=st.sampled_from(UNDERSTANDINGS), value=UNIT | st.none())
    def override(self, node, value):
        self.change(adapt(node, override_authority=value))

    @rule(node=st.sampled_from([*CLAIMS, *UNDERSTANDINGS]))
    def retract(self, node):
        with self.ledger.view() as view:
            edges = view.standing_edges(node, limit=99)
            corpora = ("corpus:test",) if view.standing_memberships(node, limit=1) else ()
        self.change(taking("collapse", node, *edges, corpora=corpora))

    @precondition(lambda self: self.edges)
    @rule(data=st.data())
    def separate(self, data):
        self.change(unlink(data.draw(st.sampled_from(self.edges))))

    @precondition(lambda self: self.edges)
    @rule(data=st.data(), essentiality=ESSENTIALITIES)
    def reclassify(self, data, essentiality):
        edge = data.draw(st.sampled_from(self.edges))
        metadata = {"essentiality": essentiality}
        effect_ = effect("edge_reclassify", edge, edge_metadata=metadata)
        self.change(envelope("document_relationship_update", [effect_]))

    @precondition(lambda self: self.edges)
    @rule(data=st.data(), fed=st.integers(0, 4))
    def move(self, data, fed):
        edge = data.draw(st.sampled_from(self.edges))
        moved = effect(
            "edge_create",
            edge,
            source_node_id=data.draw(st.sampled_from(CLAIMS)),
            target_node_id=UNDERSTANDINGS[fed],
            edge_type="informs",
            edge_metadata={"essentiality": "core"},
        )
        self.change(relink(effect("edge_remove", edge), moved))

    @rule(node=st.sampled_from(UNDERSTANDINGS), strategy=st.sampled_from(STRATEGIES))
    def wait_for_the_tick_or_not(self, node, strategy):
        self.change(adapt(node, cu_authority_strategy=strategy))

    @rule(claim=st.sampled_from(CLAIMS))
    def decay(self, claim):
        self.change(adapt(claim, last_decay_at=iso_time(START_US), carve_out_class="x"))

    # What is asked for

    def write(self, unit):
        with self.ledger.transaction() as transaction:
            result = unit.run(CommitContext(transaction, self.kernel, self.orchestrator))
        assert code_of(result) is None, result
        self.read()

    @rule(node=st.sampled_from(UNDERSTANDINGS), urgency=st.sampled_from(PRIORITIES))
    def ask(self, node, urgency):
        with self.ledger.view() as view:
            source = f"source:{view.head().ec_sequence_number}"
        self.write(RequestRecomputeUnit(node, source, urgency))

    @rule(sweep=st.sampled_from([decay_tick(START_US + 1000, 0), backfill()]), data=st.data())
    def sweep_and_be_killed(self, sweep, data):
        pages = sweep.pages(self.ledger)
        for page in pages[: data.draw(st.integers(0, len(pages)))]:
            self.write(sweep.unit(page))

    @property
    def cascades(self):
        with self.ledger.view() as view:
            return view.open_requests_of(CASCADE_QUEUE, CASCADES)

    @precondition(lambda self: hasattr(self, "ledger") and self.cascades)
    @rule(data=st.data())
    def write_down_and_be_killed(self, data):
        with self.ledger.view() as view:
            pages = plan_deferred(view, self.cascades[0])
        for page in pages[: data.draw(st.integers(0, len(pages)))]:
            self.write_page(page)

    def write_page(self, page):
        intent = EnqueueRecompute(intent_key=digest(page.model_dump()), asked_for=page)
        self.write(IntentUnit(intent, None, "system"))

    # Work

    @rule(data=st.data())
    def recompute_as_of_any_moment(self, data):
        with self.ledger.view() as view:
            waiting = view.open_requests(queue=AUTHORITY_QUEUE)
            if not waiting:
                return
            item = data.draw(st.sampled_from(sorted({r.item_key for r in waiting})))
            now = view.head().ec_sequence_number
            moments = [at for at, nodes in self.readings.items() if item in nodes]
            as_of = data.draw(st.sampled_from(moments[-6:]))
            document = recompute(view, item, as_of, self.readings[as_of][item])
        result = work(self.ledger, document)
        assert code_of(result) in {
            None,
            "recompute_input_pending",
            "recompute_request_closed",
        }
        self.read()
        if code_of(result) is None and as_of == now:
            self.check_whole(item)

    @rule(data=st.data(), value=UNIT)
    def report_what_was_not_so(self, data, value):
        """State, as of one moment, the inputs of another or an authority of one's own."""
        with self.ledger.view() as view:
            waiting = view.open_requests(queue=AUTHORITY_QUEUE)
            if not waiting:
                return
            item = data.draw(st.sampled_from(sorted({r.item_key for r in waiting})))
            moments = [at for at, nodes in self.readings.items() if item in nodes][-6:]
            as_of, other = (data.draw(st.sampled_from(moments)) for _ in range(2))
            true, elsewhere = self.readings[as_of][item], self.readings[other][item]
            false = data.draw(st.sampled_from([elsewhere, (value, true[1])]))
            if false == true:
                return
            document = recompute(view, item, as_of, false)
        before = everything(self.ledger)["nodes"]
        assert code_of(work(self.ledger, document)) in {
            "recompute_input_pending",
            "recompute_request_closed",
            "cu_authority_inputs_mismatch",
            "cu_authority_mismatch",
        }
        assert everything(self.ledger)["nodes"] == before

    @rule(data=st.data())
    def recompute_a_page_as_of_any_moment(self, data):
        """Several at once, some of them false: what comes of each is what comes of it alone."""
        with self.ledger.view() as view:
            items = sorted({request.item_key for request in view.open_requests()} - {CASCADES})
            if not items:
                return
            as_of = data.draw(st.sampled_from([*self.readings][-6:]))
            reading = self.readings[as_of]
            known = st.sampled_from([item for item in items if item in reading] or [None])
            reported, expected = [], []
            for item in data.draw(st.lists(known, max_size=5, unique=True)):
                if item is None:
                    return
                value, inputs = reading[item]
                stated = data.draw(st.sampled_from([value, value, 0.987]))
                state = due(view, item, as_of).readiness
                if state is not RecomputeReadiness.READY:
                    expected.append(state.value)
                else:
                    expected.append("completed" if stated == value else "rejected")
                intent = RecalculateAuthority(
                    intent_key=f"{item} at {as_of}, {len(self.readings)}",
                    target_cu_id=item,
                    as_of_sequence=as_of,
                    cu_authority=stated,
                    inputs=InputsStated.model_validate(inputs.document()),
                )
                reported.append(RecomputeUnit(intent, None))
        with self.ledger.transaction() as transaction:
            context = CommitContext(transaction, self.kernel, self.orchestrator)
            results = run_units(whole([Waiting(reported)])[0], context)
        assert [outcome for outcome, _ in results] == expected, results
        self.read()

    @rule(data=st.data())
    def recompute_what_is_ready(self, data):
        with self.ledger.view() as view:
            ready = sorted(
                {ready_item.item_key for ready_item in ready_items(view, view.open_requests())}
            )
            if not ready:
                assert self.cascades or not view.open_requests()
                return
            item = data.draw(st.sampled_from(ready))
            document = recompute(view, item)
        assert code_of(work(self.ledger, document)) is None
        self.read()
        self.check_whole(item)

    # What always holds

    def check_whole(self, item):
        """What was computed on the present is what the claims alone give: nothing is half done."""
        with self.ledger.view() as view:
            assert view.node(item)["payload"]["cu_authority"] == from_scratch(view, item)

    @invariant()
    def whatever_is_stale_is_asked_for(self):
        if self.cascades:
            return
        with self.ledger.view() as view:
            open_items = {request.item_key for request in view.open_requests()}
            for node in understandings(view):
                name = node["node_id"]
                if name in open_items or is_nightly(node):
                    continue
                value, _ = authority_of(view, STRATEGY, node)
                assert not upstream(view, name) & open_items
                assert node["payload"]["cu_authority"] == value == from_scratch(view, name)

    @invariant()
    def a_request_is_open_or_has_its_one_outcome(self):
        rows = everything(self.ledger)
        closed = [row["request_id"] for row in rows["outbox_outcomes"]]
        assert len(closed) == len(set(closed))
        assert set(closed) == {row["request_id"] for row in rows["outbox"] if not row["open"]}

    def drain(self):
        while self.cascades:
            with self.ledger.view() as view:
                page, *_ = plan_deferred(view, self.cascades[0])
            self.write_page(page)
        with self.ledger.view() as view:
            items = {request.item_key for request in view.open_requests()}
        for _ in items:  # coalesced: as many recomputes as there are understandings to do
            with self.ledger.view() as view:
                document = recompute(view, ready_items(view, view.open_requests())[-1].item_key)
            assert code_of(work(self.ledger, document)) is None
        with self.ledger.view() as view:
            assert not view.open_requests()

    def teardown(self):
        if not hasattr(self, "ledger"):
            return
        self.drain()
        self.whatever_is_stale_is_asked_for()
        sweep = decay_tick(START_US, 0)
        for page in sweep.pages(self.ledger):
            self.write(sweep.unit(page))
        self.drain()
        with self.ledger.view() as view:
            for node in understandings(view):
                name, stored = node["node_id"], node["payload"]["cu_authority"]
                assert stored == from_scratch(view, name, stops=lambda _: False)
            findings = verify(view).findings
            assert findings == (), findings[:3]
        self.a_request_is_open_or_has_its_one_outcome()
        request_recording.CASCADE_REQUESTS_MAX, enqueue_pages.PAGE_REQUESTS_MAX = self.limits


def upstream(view, name):
    """What a change may still reach an understanding from: not past what waits for the tick."""
    above, waiting = set(), [name]
    while waiting:
        for parent in view.input_sources(waiting.pop(), "ConsolidatedUnderstanding"):
            if parent not in above:
                above.add(parent)
                if not is_nightly(view.node(parent)):
                    waiting.append(parent)
    return above


def from_scratch(view, name, stops=is_nightly):
    """An authority computed from the claims alone, as if nothing had ever been stored.

    What waits for the tick has the authority that it had at the last one.
    """
    node = view.node(name)
    inputs = []
    for edge in view.input_edges(name):
        source = view.node(edge["source_node_id"])
        if source["state"] != "active":
            continue
        if source["node_kind"] == "VersionedClaim":
            value = source["payload"]["authority"]
        elif stops(source):
            value = source["payload"].get("cu_authority")
        else:
            value = from_scratch(view, source["node_id"], stops)
        if value is not None:
            essentiality = edge["edge_metadata"]["essentiality"]
            inputs.append(AuthorityInput("", "", essentiality, value))
    return STRATEGY.compute(inputs, node["payload"].get("override_authority"))


TestRecomputing = Recomputing.TestCase
TestRecomputing.settings = settings(
    max_examples=settings().max_examples // 2, stateful_step_count=25
)
TestRecomputing = pytest.mark.spec("INV-A-AUTHORITY-EAGER-1", "K12", "K32")(TestRecomputing)
