"""Which pairs come of bindings, artifacts and phases (§13.2, §13.3, §13.4), in whatever order."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings.artifacts import COMPLETED_PHASES, read_artifact
from kernel.records.binding_pairs import pair_of_request
from kernel.rollback.execute import rollback_operation
from kernel.values.canonical import digest
from kernel.work import pair_routing
from kernel.work.outcomes import close
from tests.kernel.bindings.machine import BINDING_IDS, KERNEL, BindingMachine
from tests.kernel.bindings.routed import (
    CONVERSION,
    NORMALIZATION,
    RESOLUTION,
    brought,
    completed,
    created,
    disabled,
    expected,
    open_evaluations,
    pairs_of,
    route_marks,
    selector,
    states_of,
    updated,
)
from tests.kernel.build import (
    accept,
    adapt,
    code_of,
    create,
    effect,
    envelope,
    findings,
    ledger_on,
    submit,
    taking,
)

lifecycle = pytest.mark.spec("004 §13.2")
phases = pytest.mark.spec("004 §13.3")
stages = pytest.mark.spec("004 §13.4")

IN_COURT = selector("court_id", "ca9")
AT_INTAKE = selector("source_kind", "docket")
MOTIONS = selector("filing_unit_kind", "motion")
PAPERS = selector("content_type", "text/plain")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request, tmp_path, monkeypatch):  # sizes of pages are rules: kept until verified
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        store = pytest.importorskip("kernel.ledger.postgres.store").PostgresStore(url)
    else:
        is_memory = request.param == "memory"
        store = MemoryStore() if is_memory else SqliteStore(tmp_path / "ledger.db")
    founded, _ = ledger_on(store)
    accept(founded, create("corpus", "Corpus"))
    yield founded
    assert findings(founded) == ()
    founded.close()


def end(ledger: Ledger, pair_end="fired"):
    """Close the open evaluations; return how many."""
    requests = open_evaluations(ledger)
    with ledger.transaction() as transaction:
        for request in requests:
            close(transaction, request.request_id, "completed", pair_end=pair_end)
    return len(requests)


# --- §13.3: "a binding using only intake-time selectors evaluates at intake; …" -------------------


@phases
@pytest.mark.parametrize(
    ("selectors", "waits_through"),
    [
        ([AT_INTAKE], []),
        ([AT_INTAKE, PAPERS], [None]),
        ([AT_INTAKE, MOTIONS], [None, CONVERSION]),
        ([AT_INTAKE, IN_COURT], [None, CONVERSION, NORMALIZATION]),
        ([AT_INTAKE, PAPERS, MOTIONS, IN_COURT], [None, CONVERSION, NORMALIZATION]),
    ],
)
@pytest.mark.parametrize("comes_first", ["binding", "artifact"])
def test_a_pair_is_ready_once_the_artifact_has_passed_the_phase_it_needs(
    ledger, selectors, waits_through, comes_first
):
    artifact = brought("a1", source_kind="docket", source_id="ca9:1", source_path="1/2")
    documents = [created("b1", *selectors), artifact]
    accept(ledger, *(documents if comes_first == "binding" else reversed(documents)))
    for phase in (None, CONVERSION, NORMALIZATION, RESOLUTION):
        if phase is not None:
            accept(ledger, completed(ledger, "a1", phase))
        waits = phase in waits_through
        state = "pending_intake" if waits else "ready_to_evaluate"
        assert states_of(ledger) == {("b1", "a1"): state}
        assert len(open_evaluations(ledger)) == (0 if waits else 1)


@stages
def test_nothing_is_written_for_a_pair_whose_intake_selectors_do_not_match(ledger):
    accept(ledger, created("b1", AT_INTAKE), created("b2", selector("source_kind", "mail")))
    accept(ledger, created("b3", IN_COURT), created("b4", AT_INTAKE, exclude=[AT_INTAKE]))
    accept(ledger, brought("a1", source_kind="docket"))
    assert states_of(ledger) == {
        ("b1", "a1"): "ready_to_evaluate",
        ("b3", "a1"): "pending_intake",
    }


@stages
def test_the_request_says_what_is_to_be_evaluated_and_why(ledger):
    accept(ledger, created("b1", AT_INTAKE), brought("a1", source_kind="docket"))
    [request] = open_evaluations(ledger)
    with ledger.view() as view:
        event = read_artifact(view.node("a1")).source_event_id
        cause = view.log_row_at(request.cause_sequence)
    assert cause["semantic_intent"] == "create"
    assert (request.item_key, request.priority) == (event, "background")
    assert request.document["content"] == {
        "binding_id": "b1",
        "binding_generation_id": "1",
        "source_event_id": event,
        "artifact_ref": "a1",
        "target_kind": "court_disposition_observation",
        "capacity_priority": "background",
        "schema_version": 1,
    }


@phases
def test_a_binding_created_updated_or_enabled_after_the_fact_is_evaluated_at_once(ledger):
    accept(ledger, brought("a1", source_kind="docket"), brought("a2", source_kind="mail"))
    accept(ledger, created("b1", AT_INTAKE))
    assert end(ledger) == 1
    accept(ledger, updated("b1", 2, selector("source_kind", "mail")))
    assert end(ledger) == 1
    accept(ledger, disabled("b1"), brought("a3", source_kind="mail"))
    assert end(ledger) == 0
    accept(ledger, updated("b1", 3, selector("source_kind", "mail"), state="active"))
    assert sorted(
        request.document["content"]["artifact_ref"] for request in open_evaluations(ledger)
    ) == ["a2", "a3"]


@phases
def test_other_fields_are_evaluated_again_by_whom_they_concern(ledger):
    accept(ledger, created("b1", PAPERS), created("b2", AT_INTAKE), created("b3", MOTIONS))
    accept(ledger, brought("a1", source_kind="docket"))
    accept(ledger, completed(ledger, "a1", CONVERSION, content_type="text/plain"))
    accept(ledger, completed(ledger, "a1", NORMALIZATION, filing_unit_kind="motion"))
    assert end(ledger) == 3
    accept(ledger, completed(ledger, "a1", CONVERSION, content_type="application/pdf"))
    [request] = open_evaluations(ledger)
    assert request.document["content"]["binding_id"] == "b1"
    with ledger.view() as view:
        pairs = [row for row in pairs_of(view) if row["binding_id"] == "b1"]
    assert [row["state"] for row in pairs] == ["fired", "ready_to_evaluate"]


@phases
def test_a_new_version_is_an_event_of_its_own_and_starts_at_intake(ledger):
    accept(ledger, created("b1", PAPERS), created("b2", AT_INTAKE))
    accept(ledger, brought("a1", source_kind="docket"))
    accept(ledger, completed(ledger, "a1", CONVERSION, content_type="text/plain"))
    end(ledger)
    accept(ledger, adapt("a1", content="another text"))
    with ledger.view() as view:
        event = read_artifact(view.node("a1")).source_event_id
        states = {
            (row["binding_id"], row["source_event_id"] == event): row for row in pairs_of(view)
        }
        by_event = {row["source_event_id"] for row in pairs_of(view)}
    assert {key: row["state"] for key, row in states.items()} == {
        ("b1", False): "fired",
        ("b2", False): "fired",
        ("b1", True): "pending_intake",
        ("b2", True): "ready_to_evaluate",
    }
    stale = completed(ledger, "a1", CONVERSION)
    stated = stale["primitive_effects"][0]["payload"][COMPLETED_PHASES]
    stated["source_event_id"] = min(by_event - {stated["source_event_id"]})
    assert code_of(submit(ledger, stale, submitter="orchestrator")) == "artifact_event_superseded"


@phases
def test_a_phase_that_came_to_the_same_before_is_not_completed_again(ledger):
    accept(ledger, brought("a1"))
    accept(ledger, completed(ledger, "a1", CONVERSION, content_type="text/plain"))
    again = completed(ledger, "a1", CONVERSION, content_type="text/plain")
    assert code_of(submit(ledger, again, submitter="orchestrator")) == "artifact_phase_completed"


@phases
def test_a_binding_waits_for_the_fields_that_its_target_states(ledger):
    accept(ledger, created("b1", AT_INTAKE, target_kind="case_metadata_update"))
    accept(ledger, brought("a1", source_kind="docket"))
    accept(ledger, completed(ledger, "a1", CONVERSION))
    accept(ledger, completed(ledger, "a1", NORMALIZATION))
    assert not open_evaluations(ledger)
    accept(ledger, completed(ledger, "a1", RESOLUTION, case_ref="azb:09-1"))
    assert states_of(ledger) == {("b1", "a1"): "ready_to_evaluate"}
    end(ledger)
    accept(ledger, completed(ledger, "a1", RESOLUTION, case_ref="azb:09-2"))
    assert states_of(ledger) == {("b1", "a1"): "ready_to_evaluate"}


@phases
@pytest.mark.parametrize("phase", [NORMALIZATION, RESOLUTION])
def test_phases_complete_in_order(ledger, phase):
    accept(ledger, brought("a1"))
    result = submit(ledger, completed(ledger, "a1", phase), submitter="orchestrator")
    assert code_of(result) == "artifact_phase_not_next"


@phases
@pytest.mark.parametrize(
    ("stated", "code", "field"),
    [
        ("no object", "artifact_phase_invalid", "payload.completed_phases"),
        ({}, "artifact_event_superseded", "payload.completed_phases.source_event_id"),
        ({NORMALIZATION: {}}, "artifact_phase_not_next", "payload.completed_phases"),
        ({"post_mortem": {}}, "artifact_phase_not_next", "payload.completed_phases"),
        ({CONVERSION: {}, NORMALIZATION: {}}, "artifact_phase_not_next", None),
        ({CONVERSION: "x"}, "artifact_phase_invalid", f"payload.completed_phases.{CONVERSION}"),
        ({CONVERSION: {"court_id": "ca9"}}, "artifact_phase_invalid", None),
        ({CONVERSION: {"content_type": 7}}, "artifact_phase_invalid", None),
        ({CONVERSION: {"content_type": ""}}, "artifact_phase_invalid", None),
        ({CONVERSION: {"content_type": "x" * 513}}, "artifact_phase_invalid", None),
    ],
)
def test_a_completion_that_is_none_is_refused_and_changes_nothing(ledger, stated, code, field):
    accept(ledger, created("b1", PAPERS), brought("a1"))
    if isinstance(stated, dict) and stated:
        with ledger.view() as view:
            event = read_artifact(view.node("a1")).source_event_id
        stated = {"source_event_id": event} | stated
    document = adapt("a1", **{COMPLETED_PHASES: stated})
    result = submit(ledger, document, submitter="orchestrator")
    assert code_of(result) == code
    assert field in (None, result.rejection.field)
    assert states_of(ledger) == {("b1", "a1"): "pending_intake"}


@lifecycle
def test_undoing_an_event_undoes_its_pairs(ledger):
    accept(ledger, created("b1", AT_INTAKE), created("b2", PAPERS))
    operation_id = accept(ledger, brought("a1", source_kind="docket"))
    with ledger.transaction() as transaction:
        rollback_operation(KERNEL, transaction, operation_id)
    assert states_of(ledger) == {}
    assert not open_evaluations(ledger)


@lifecycle
def test_undoing_a_completion_lets_its_pairs_wait_again(ledger):
    accept(ledger, created("b1", PAPERS), brought("a1"))
    operation_id = accept(ledger, completed(ledger, "a1", CONVERSION))
    with ledger.transaction() as transaction:
        rollback_operation(KERNEL, transaction, operation_id)
    assert states_of(ledger) == {("b1", "a1"): "pending_intake"}
    assert not open_evaluations(ledger)


@stages
def test_what_is_beyond_a_page_is_left_under_a_mark(ledger, monkeypatch):
    monkeypatch.setattr(pair_routing, "PAIRS_AT_ONCE", 2)
    monkeypatch.setattr(pair_routing, "ARTIFACTS_AT_ONCE", 2)
    accept(ledger, *(created(f"b{n}", AT_INTAKE, priority=n) for n in range(5)))
    accept(ledger, brought("a1", source_kind="docket"))
    assert sorted(states_of(ledger)) == [("b3", "a1"), ("b4", "a1")]  # the highest priority first
    assert route_marks(ledger) == 2
    assert len(open_evaluations(ledger)) == 5
    accept(ledger, *(brought(f"a{n}", source_kind="docket") for n in range(2, 6)))
    route_marks(ledger)
    end(ledger)
    accept(ledger, created("b9", AT_INTAKE))
    assert len(open_evaluations(ledger)) == 2
    assert route_marks(ledger) == 2
    assert len(open_evaluations(ledger)) == 5


@stages
def test_more_waiting_pairs_than_a_page_are_released_by_pages(ledger, monkeypatch):
    monkeypatch.setattr(pair_routing, "PAIRS_AT_ONCE", 2)
    accept(ledger, *(created(f"b{n}", PAPERS) for n in range(5)), brought("a1"))
    route_marks(ledger)
    accept(ledger, completed(ledger, "a1", CONVERSION))
    assert len(open_evaluations(ledger)) == 2
    route_marks(ledger)
    assert len(open_evaluations(ledger)) == 5
    accept(ledger, taking("retract", "a1"))
    route_marks(ledger)
    assert not open_evaluations(ledger)


# --- any order, in one transaction or in several --------------------------------------------------

ARTIFACTS = ["a1", "a2"]
VALUES = st.sampled_from(["x", "y"])
SELECTORS = st.sampled_from(
    [
        [selector("source_kind", "x")],
        [selector("source_kind", "x"), selector("source_path", "*")],
        [selector("content_type", "x")],
        [selector("source_kind", "x"), selector("content_type", "y")],
        [selector("filing_role", "x"), selector("content_type", "x")],
    ]
)


class Routing(BindingMachine):
    """Everything that moves a pair, in any order; the records themselves say what should be."""

    @initialize(pairs_at_once=st.sampled_from([1, 256]), artifacts_at_once=st.sampled_from([1, 9]))
    def begin(self, pairs_at_once, artifacts_at_once):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(pair_routing, "PAIRS_AT_ONCE", pairs_at_once)
        self.patch.setattr(pair_routing, "ARTIFACTS_AT_ONCE", artifacts_at_once)
        self.start()

    def binding(self, binding_id, selectors, state):
        with self.ledger.view() as view:
            node = view.node(binding_id)
            query = TableQuery(
                pair_routing.schema.binding_generation_snapshots, {"binding_id": binding_id}
            )
            rows = view.tables.scan(query)
        if node is None:
            return created(binding_id, *selectors)
        fields = {"state": "active"} if state else {"title": "t"}
        number = max((row["generation"] for row in rows), default=0) + 1
        return updated(binding_id, number, *selectors, **fields)

    @rule(binding_id=BINDING_IDS, selectors=SELECTORS, state=st.booleans())
    def write_binding(self, binding_id, selectors, state):
        self.accept(self.binding(binding_id, selectors, state))

    @rule(artifact_ref=st.sampled_from(ARTIFACTS), kind=VALUES)
    def bring(self, artifact_ref, kind):
        self.accept(brought(artifact_ref, source_kind=kind, source_path=kind))

    @rule(
        binding_id=BINDING_IDS,
        selectors=SELECTORS,
        artifact_ref=st.sampled_from(ARTIFACTS),
        kind=VALUES,
    )
    def write_binding_and_bring_in_one_transaction(self, binding_id, selectors, artifact_ref, kind):
        document = brought(artifact_ref, source_kind=kind, source_path=kind)
        self.accept(self.binding(binding_id, selectors, state=False), document)

    @rule(artifact_ref=st.sampled_from(ARTIFACTS), content=VALUES)
    def change_version(self, artifact_ref, content):
        self.accept(adapt(artifact_ref, content=content))

    @rule(
        artifact_ref=st.sampled_from(ARTIFACTS),
        phase=st.sampled_from([CONVERSION, NORMALIZATION]),
        value=VALUES,
    )
    def complete(self, artifact_ref, phase, value):
        name = "content_type" if phase == CONVERSION else "filing_role"
        with self.ledger.view() as view:
            is_there = read_artifact(view.node(artifact_ref)) is not None
        if is_there:
            self.accept(completed(self.ledger, artifact_ref, phase, **{name: value}))

    @rule(artifact_ref=st.sampled_from(ARTIFACTS), verb=st.sampled_from(["soft_delete", "restore"]))
    def take_away_or_restore(self, artifact_ref, verb):
        state = "active" if verb == "restore" else "soft_deleted"
        self.accept(envelope(verb, [effect("node_write", artifact_ref, state=state)]))

    @rule(data=st.data(), pair_end=st.sampled_from(["fired", "matched_no_fire", "no_match"]))
    def evaluate(self, data, pair_end):
        requests = open_evaluations(self.ledger)
        if not requests:
            return
        request = data.draw(st.sampled_from(requests))
        with self.ledger.view() as view:
            pair = pair_of_request(view, request.request_id)
            stands = (pair.binding_id, pair.binding_generation_id, pair.source_event_id)
            pair_end = pair_end if stands in expected(view) else None
        with self.ledger.transaction() as transaction:
            close(transaction, request.request_id, "completed", pair_end=pair_end)

    @invariant()
    def each_pair_is_where_its_binding_and_its_artifact_are(self):
        if not hasattr(self, "ledger"):
            return
        route_marks(self.ledger)
        requests = {request.request_id for request in open_evaluations(self.ledger)}
        with self.ledger.view() as view:
            newest = {}
            for row in pairs_of(view):
                key = (row["binding_id"], row["binding_generation_id"], row["source_event_id"])
                newest[key] = row
            wanted = expected(view)
            assert wanted.keys() <= newest.keys()
            standing = {
                artifact.source_event_id
                for artifact in (read_artifact(view.node(ref)) for ref in ARTIFACTS)
                if artifact is not None
            }
        for key, inputs in wanted.items():
            row = newest[key]
            if inputs is None:
                assert row["state"] == "pending_intake"
                assert row["request_id"] is None
            else:
                assert row["state"] != "pending_intake"
                by_kind = [[kind, inputs[kind]] for kind in sorted(inputs)]
                assert row["inputs_digest"] == digest(by_kind)
        for key, row in newest.items():
            if row["state"] == "pending_intake":
                assert key[2] in standing
            if row["state"] == "ready_to_evaluate" and key[2] not in standing:
                raise AssertionError("an evaluation of what does not stand any more")
            if key in wanted and row["state"] == "ready_to_evaluate":
                requests.discard(row["request_id"])

    def teardown(self):
        if hasattr(self, "patch"):
            assert findings(self.ledger) == ()
            self.patch.undo()


TestRouting = lifecycle(phases(stages(Routing.TestCase)))
TestRouting.settings = settings(max_examples=settings().max_examples, stateful_step_count=25)
