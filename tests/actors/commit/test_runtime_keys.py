"""No key, and no name, that a caller states meets one of the runtime's own (§2.5, K6).

In every course here a caller comes first: right before the runtime submits an envelope, or records
one of the kernel's own, he submits another under the very same key.
"""

import ast
import pydoc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.commit.implication_units import ImplicationRunUnit
from actors.commit.recompute_units import RecomputeUnit
from actors.commit.review_units import AutoConfirmUnit, BatchReviewUnit, TakeItemUnit
from actors.commit.thought_units import StartAuditSessionUnit
from actors.commit.units import ExternalReportUnit, IntentUnit, RequestRecomputeUnit
from actors.commit.work_units import CancelRequestUnit, PauseUnit
from actors.errors import IntentInvalid
from actors.orchestrator import orchestrator
from actors.orchestrator.intents import (
    AdaptFields,
    CreateBinding,
    CreateClaim,
    Implication,
    SourceSpan,
    purpose_of,
)
from actors.orchestrator.orchestrator import idempotency_key
from actors.orchestrator.resolvers import RESOLVERS
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger.ledger import GENESIS_POLICY, Document, Ledger
from kernel.migration.review_items import discard
from kernel.model.envelope import ItemDecision
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.rollback.errors import RollbackRefused
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import digest
from kernel.values.idempotency_keys import RESERVED, RUNTIME_FORM, RUNTIME_PURPOSES, runtime_key
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.dead_letters import requeue
from kernel.work.errors import WorkRefused
from kernel.work.extraction_runs import replacement_of, run_of
from kernel.work.extractions.requests import request_extraction
from kernel.work.pauses import PauseDecision
from kernel.work.requests import reentry_key, requeue_key
from tests.actors.commit.test_extraction_units import TEXT, Extractions
from tests.actors.commit.test_recompute_pages import NAMES, record, reported
from tests.actors.commit.test_review_units import batch, item, propose
from tests.actors.harness import bench_on
from tests.actors.intents import source
from tests.actors.orchestrator.test_orchestrator import BINDING, EVERY_KIND, report_of
from tests.actors.orchestrator.test_orchestrator import ledger as of_every_kind
from tests.evidence import candidate, with_filings
from tests.extraction_steps import state_change
from tests.kernel.attempts import given_up
from tests.kernel.binding_world import ask, bound, furnish, report, work
from tests.kernel.build import (
    accept,
    adapt,
    code_of,
    create,
    effect,
    envelope,
    everything,
    findings,
    link,
    memory_ledger,
    receipts_of_kind,
    submit,
)
from tests.kernel.deciding import deciding
from tests.kernel.every import move, states
from tests.kernel.extractions import task, value
from tests.kernel.held import a_conflict
from tests.kernel.implied import go_round
from tests.kernel.lites import lite, migrated
from tests.kernel.reports import artifact, asked_outside
from tests.kernel.simulations import simulate
from tests.kernel.test_conflicts import ConflictWorld
from tests.kernel.test_rollback import build_again, undo, undo_epoch

KEY = pytest.mark.spec("§2.5", "K6")


OWN_ENVELOPES = (
    "kernel.transaction.checks.conflicts.merge_envelope",
    "kernel.transaction.checks.conflicts.contradiction_envelope",
    "kernel.transaction.checks.causality.halt_of_loop",
)
"""What writes the envelopes that the kernel records beside another."""


class Squatter:
    """A caller who submits under each key of the runtime's right before the runtime does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[str] = []
        self._submit = Kernel.submit
        monkeypatch.setattr(Kernel, "submit", self._wrapped())
        for place in OWN_ENVELOPES:
            monkeypatch.setattr(place, self._before(pydoc.locate(place)))

    def _before(self, write: Callable[..., Document]) -> Callable[..., Document]:
        """Take the key of an envelope of the kernel's own before it is recorded."""

        def written(transaction: Any, *stated: Any) -> Document:
            document = write(transaction, *stated)
            self.take(Kernel(), transaction, document["idempotency_key"])
            return document

        return written

    def _wrapped(self) -> Callable[..., Any]:
        def submit(
            kernel: Kernel, transaction: Any, document: Any, submitter: Any, **rest: Any
        ) -> Any:
            key = document["idempotency_key"] if isinstance(document, dict) else ""
            if submitter == "orchestrator" and key.startswith(RUNTIME_FORM):
                self.take(kernel, transaction, key)
            return self._submit(kernel, transaction, document, submitter, **rest)

        return submit

    def take(self, kernel: Kernel, transaction: Any, key: str) -> None:
        names = {"idempotency_key": key, "policy_generation_id": transaction.policy_generation_id()}
        taking = create(f"taken-{len(self.keys)}", "Note") | names
        result = self._submit(kernel, transaction, taking, "caller")
        assert code_of(result) == RESERVED
        assert transaction.receipt(result.receipt_id)["idempotency_key"] == key
        self.keys.append(key)

    def purposes(self) -> set[str]:
        return {key.split(":")[1] for key in self.keys}


@pytest.fixture
def squatter(monkeypatch: pytest.MonkeyPatch) -> Squatter:
    return Squatter(monkeypatch)


# The runtime's operations, each with a caller who comes first


def tier_1_inverse() -> Ledger:
    ledger = memory_ledger()
    operation_id = accept(ledger, create("n", "Note"))
    undone = undo(ledger, operation_id).submission.operation_id
    undo(ledger, undone)
    undo(ledger, operation_id)
    return ledger


def an_epoch() -> Ledger:
    ledger = memory_ledger()
    joined = envelope("corpus_membership_add", [effect("membership_write", "n", corpus_id="c")])
    inside = [
        adapt("n", title="t"),
        joined,
        move("n", "candidate", "confirmed", "user_confirm_event"),
    ]
    opened = states("epoch_open", "epoch_opened", epoch_id="e")
    closed = states("epoch_close", "epoch_closed", epoch_id="e")
    accept(ledger, create("n", "Note"), opened)
    accept(ledger, *(document | {"epoch_id": "e"} for document in inside), closed)
    undone = undo_epoch(ledger, "e")
    assert len(undone.inverse_operation_ids) == 2
    assert len(undone.compensations_applied) == 1
    return ledger


def a_rebuild() -> Ledger:
    ledger = memory_ledger()
    accept(ledger, create("n", "Note"))
    build_again(ledger)
    return ledger


def a_simulation() -> Ledger:
    ledger = memory_ledger()
    note = create("n", "Note")
    first = simulate(ledger, note, simulation_key="k")
    again = simulate(ledger, note, simulation_key="k")
    assert (first.outcome, again.submission.duplicate) == ("previewed", True)
    return ledger


def a_merge() -> Ledger:
    world = ConflictWorld()
    world.state("field_value_disagree", "merge_with_provenance")
    world.pair({"title": "a"}, {"title": "b"})
    assert world.node("n")["payload"]["merge_provenance"]
    return world.ledger


def a_contradiction() -> Ledger:
    world = ConflictWorld()
    world.state("field_value_disagree", "emit_contradiction_edge")
    world.pair({"title": "a"}, {"title": "b"})
    assert len(world.contradictions()) == 1
    return world.ledger


def a_halted_loop() -> Ledger:
    ledger = memory_ledger()
    go_round(ledger, ["n"], accept(ledger, create("n", "Note")), 11)
    assert receipts_of_kind(ledger, "implication_detection_cycle_exceeded")
    return ledger


def a_discarded_item() -> Ledger:
    ledger = memory_ledger()
    migrated(ledger, lite(create("m", "Note"), operation_id="held", source_refs=None))
    [receipt] = receipts_of_kind(ledger, "needs_migration_review")
    with ledger.transaction() as transaction:
        assert code_of(discard(Kernel(), transaction, receipt["receipt_id"], "a reason")) is None
    return ledger


def a_taken_item() -> Ledger:
    ledger = memory_ledger()
    decision = ItemDecision(decided_by="ada", grounds="a reason")
    unit = TakeItemUnit(a_conflict(ledger), decision)
    with bench_on(ledger) as context:
        assert code_of(unit.run(context)) is None
    return ledger


def a_cycle() -> Ledger:
    ledger = memory_ledger()
    kinds = ("extraction_task", "corpus_document_membership")
    furnish(ledger, *(bound(kind, kind) for kind in kinds))
    for request_id in ask(ledger, *kinds):
        assert work(ledger, request_id)[0] == "completed"
    assert len(receipts_of_kind(ledger, "binding_evaluation_manifest")) == 1
    return ledger


def a_cycle_that_is_given_up() -> Ledger:
    ledger = memory_ledger()
    furnish(ledger, bound("b", "extraction_task"))
    [request_id] = ask(ledger, "b")
    assert report(ledger, given_up(request_id=request_id, error_signature="x"))[0] == "completed"
    assert len(receipts_of_kind(ledger, "binding_evaluation_manifest")) == 1
    return ledger


def a_cycle_that_is_cancelled() -> Ledger:
    ledger = memory_ledger()
    furnish(ledger, bound("b", "extraction_task"))
    [request_id] = ask(ledger, "b")
    with bench_on(ledger) as context:
        assert CancelRequestUnit(request_id, "a reason").run(context)[0]
    assert len(receipts_of_kind(ledger, "binding_evaluation_manifest")) == 1
    return ledger


def an_extraction() -> Ledger:
    extractions = Extractions()
    request = extractions.ask()
    extractions.begin(request)
    extractions.finish(request, value(TEXT, "Ann Acme"))
    assert extractions.status(request).state == "completed"
    assert extractions.claims() == 1
    return extractions.ledger


def recomputes() -> Ledger:
    ledger = memory_ledger()
    accept(ledger, *(create(f"k{name}", "VersionedClaim", authority=0.5) for name in NAMES))
    accept(ledger, *(create(name, "ConsolidatedUnderstanding") for name in NAMES))
    accept(ledger, *(link(f"k{name}>{name}", f"k{name}", name) for name in NAMES))
    for names in (NAMES[:1], NAMES[1:]):
        assert {outcome for outcome, _ in record(ledger, reported(ledger, names))} == {"completed"}
    with bench_on(ledger) as context:
        receipt = RequestRecomputeUnit(NAMES[0], "a reader", "background_normal").run(context)
    assert not isinstance(receipt, RejectedResult)
    assert record(ledger, reported(ledger, NAMES[:1]))[0][0] == "completed"
    with ledger.view() as view:
        assert view.open_requests(queue=AUTHORITY_QUEUE) == []
    return ledger


def reviews() -> Ledger:
    ledger = with_filings(memory_ledger())
    propose(ledger, "n1", "n2")
    accept(ledger, candidate(ledger))
    with bench_on(ledger) as context:
        answer = BatchReviewUnit(batch(item("n1"), item("n2", "reject"))).run(context)
        assert answer["success_count"] == 2
        assert isinstance(AutoConfirmUnit("relationship", "r").run(context), SubmissionResult)
    return ledger


def a_pause() -> Ledger:
    ledger = memory_ledger()
    decision = PauseDecision(EXTRACTION_QUEUE, None, "ada", "a reason")
    with bench_on(ledger) as context:
        assert PauseUnit(decision, paused=True).run(context)
    return ledger


def a_thought() -> Ledger:
    ledger = memory_ledger()
    with bench_on(ledger) as context:
        StartAuditSessionUnit("s", "task").run(context)
    return ledger


def an_effect_outside() -> Ledger:
    ledger = memory_ledger()
    asked_outside(ledger, artifact("out"))
    intent = report_of(ledger)
    with bench_on(ledger) as context:
        assert ExternalReportUnit(intent).run(context) == "recorded"
        assert ExternalReportUnit(intent).run(context) == "closed"
    return ledger


COURSES: dict[Callable[[], Ledger], set[str]] = {
    tier_1_inverse: {"tier_1_inverse"},
    an_epoch: {"tier_2_inverse", "compensation", "epoch_rollback"},
    a_rebuild: {"rebuild"},
    a_simulation: {"simulation"},
    a_merge: {"conflict_merge"},
    a_contradiction: {"conflict_contradiction"},
    a_halted_loop: {"implication_halt"},
    a_discarded_item: {"review_discard"},
    a_taken_item: {"review_take"},
    a_cycle: {"emit_manifest", "fire_binding", "record_fire"},
    a_cycle_that_is_given_up: {"emit_manifest"},
    a_cycle_that_is_cancelled: {"emit_manifest", "record_decision"},
    an_extraction: {"record_extraction_transition", "record_extracted_claim"},
    recomputes: {"recalculate_authority", "recalculate_page", "enqueue_recalculate_authority"},
    reviews: {"review_membership", "record_batch_review", "adjudicate"},
    a_pause: {"record_decision"},
    a_thought: {"state_thought"},
    an_effect_outside: {"report_external_effect"},
}
"""What the runtime does, and for what it makes keys on the way."""


@KEY
@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.__name__)
def test_the_runtime_goes_on_whoever_states_its_keys_first(squatter, course):
    ledger = course()
    assert squatter.purposes() >= COURSES[course]
    assert findings(ledger) == ()


OF_RUNTIME = [kind for kind in EVERY_KIND if kind in RUNTIME_PURPOSES]
"""The kinds of intents that the runtime alone asks for."""


@KEY
@pytest.mark.parametrize("kind", OF_RUNTIME)
def test_an_intent_of_the_runtime_goes_on_whoever_states_its_key_first(squatter, kind):
    ledger = of_every_kind.__wrapped__()
    intent = EVERY_KIND[kind](ledger)
    with bench_on(ledger) as context:
        # What was halted goes on when a person says so.
        actor: Any = "user" if kind == "resume_implications" else "system"
        result = IntentUnit(intent, None, actor).run(context)
    assert isinstance(result, SubmissionResult), result
    assert squatter.keys[-1].startswith(f"{RUNTIME_FORM}{kind}:")


@KEY
@pytest.mark.parametrize("kind", ["create_source", "observe_disposition", "create_claim"])
def test_what_a_detector_emits_goes_on_whoever_states_its_key_first(squatter, kind):
    ledger = of_every_kind.__wrapped__()
    with ledger.view() as view:
        through = view.head().ec_sequence_number
        [*_, newest] = view.log_rows()
    implication = Implication(
        intent=EVERY_KIND[kind](ledger), implied_by_operation_ids=(newest["operation_id"],)
    )
    with bench_on(ledger) as context:
        run = ImplicationRunUnit("d", 0, through, (implication,)).run(context)
    assert (len(run.operation_ids), run.refused) == (1, ())
    own = "observe_disposition" if kind == "observe_disposition" else "producer_intent"
    assert squatter.purposes() >= {"record_implication_run", own}


@KEY
@pytest.mark.parametrize("purpose", RUNTIME_PURPOSES)
def test_a_key_of_the_runtime_is_refused_of_a_caller_and_taken_of_the_runtime(purpose):
    ledger, key = memory_ledger(), runtime_key(purpose, "what it is of")
    theirs, own = (create(name, "Note") | {"idempotency_key": key} for name in "ab")
    refused = submit(ledger, theirs)
    assert (refused.rejection.check, code_of(refused)) == ("V2", RESERVED)
    assert refused.rejection.field == "idempotency_key"
    [receipt] = receipts_of_kind(ledger, "envelope_validation_failed")
    assert (receipt["reason_code"], receipt["idempotency_key"]) == (RESERVED, key)
    first = submit(ledger, own, submitter="orchestrator")
    again = submit(ledger, own, submitter="orchestrator")
    assert (code_of(first), again.operation_id, again.duplicate) == (None, first.operation_id, True)
    assert findings(ledger) == ()


@KEY
@pytest.mark.spec("K24")
def test_a_key_of_the_runtime_in_a_log_of_old_is_held_for_a_reviewer():
    ledger = memory_ledger()
    key = runtime_key("emit_manifest", "m")
    migration = migrated(ledger, lite(create("m", "Note"), operation_id="o", idempotency_key=key))
    assert (migration.migrated, migration.held) == (0, 1)
    [review] = receipts_of_kind(ledger, "needs_migration_review")
    assert (review["reason_code"], review["field"]) == (RESERVED, "idempotency_key")
    own = create("n", "Note") | {"idempotency_key": key}
    assert code_of(submit(ledger, own, submitter="orchestrator")) is None


@KEY
def test_every_purpose_is_one_that_the_runtime_makes_keys_for():
    """Those of intents are their kinds; the others stand in the code, each where it is used."""
    kinds = {kind for kind in map(type_of_kind, EVERY_KIND) if kind is not None}
    written = {purpose for path in source_files() for purpose in purposes_in(path)}
    tiers = {"tier_1_inverse", "tier_2_inverse"}
    assert kinds | written | tiers == set(RUNTIME_PURPOSES)
    with pytest.raises(AssertionError):
        runtime_key("another")


def type_of_kind(kind: str) -> str | None:
    [type_] = (each for each in RESOLVERS if each.model_fields["intent_kind"].default == kind)
    assert purpose_of(type_, "system") is not None
    return purpose_of(type_, "user")


def source_files() -> Iterator[Path]:
    root = Path(__file__).parents[3]
    for package in ("kernel", "actors", "workers", "queues"):
        yield from (root / package).rglob("*.py")


def purposes_in(path: Path) -> Iterator[str]:
    """The purposes that stand in a file: where a key is made, and where a kind has none itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if named and node.func.id in ("runtime_key", "_key"):
            texts = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
            yield from (text.value for text in texts if text.value in RUNTIME_PURPOSES)
        elif isinstance(node, ast.Return):
            texts = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
            yield from (text.value for text in texts if text.value == "producer_intent")


@KEY
def test_every_key_that_is_written_in_the_code_is_made_for_a_purpose_or_its_authors():
    made = {written for path in source_files() for written in keys_written_in(path)}
    assert made <= {
        *("runtime_key", "idempotency_key"),
        # A parameter of what writes an envelope down.
        *("key", "source.idempotency_key"),
        # What is on the record, or what its author has stated.
        *("envelope.idempotency_key", "lite.idempotency_key", "record['idempotency_key']"),
    }


def keys_written_in(path: Path) -> Iterator[str]:
    """The function or the name of every idempotency key that a document in a file is given."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            for name, made in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant) and name.value == "idempotency_key":
                    yield ast.unparse(made.func if isinstance(made, ast.Call) else made)


# What was so before keys had scopes: the text that anybody could compute


@KEY
def test_the_text_under_which_an_undoing_could_be_blocked_is_a_callers_like_any_other():
    ledger = memory_ledger()
    operation_id = accept(ledger, create("n", "Note"))
    text = digest([operation_id, "tier_1_inverse", ""])
    assert code_of(submit(ledger, create("m", "Note") | {"idempotency_key": text})) is None
    undo(ledger, operation_id)


@KEY
@pytest.mark.parametrize("kind", OF_RUNTIME)
def test_the_text_under_which_an_intent_of_the_runtime_could_be_blocked_is_a_callers(kind):
    ledger = of_every_kind.__wrapped__()
    intent = EVERY_KIND[kind](ledger)
    actor: Any = "user" if kind == "resume_implications" else "system"
    with bench_on(ledger) as context:
        built = context.orchestrator.construct(
            intent,
            context.transaction,
            actor=actor,
            session_id=None,
            answer_refs=["ab" * 32 for _ in getattr(intent, "outputs", ())],
        )
        named = [actor, built["semantic_intent"], sorted(built["target_refs"])]
        text = digest([*named, built["policy_generation_id"], intent.intent_key])
        taken = create("taken", "Note") | {"idempotency_key": text}
        assert code_of(context.kernel.submit(context.transaction, taken, "caller")) is None
        result = IntentUnit(intent, None, actor).run(context)
    assert isinstance(result, SubmissionResult), result


@KEY
def test_a_producers_intent_has_the_key_that_it_always_had():
    """So whoever asks again across an update of the program is answered as he was."""
    named = ["user", "field_adapt", ["n"], GENESIS_POLICY, "k"]
    intent = AdaptFields(intent_key="k", node_id="n", fields={"title": "t"})
    assert idempotency_key(intent, "user", "field_adapt", ("n",), GENESIS_POLICY) == digest(named)


@KEY
@pytest.mark.parametrize("name", ["undo", "report", "review", "recompute", "step"])
def test_what_an_earlier_program_recorded_is_not_done_again(monkeypatch, name):
    """It knew no scopes, so its rows have other keys: what was done says that it was done."""
    extractions = Extractions()
    ledger = extractions.ledger
    propose(ledger, "n", "m")
    accept(ledger, create("u", "ConsolidatedUnderstanding"))
    asked_outside(ledger, artifact("out"))
    [unit] = reported(ledger, ["u"])
    outcome, request = report_of(ledger), extractions.ask()
    with ledger.view() as view:
        [*_, note] = (row for row in view.log_rows() if row["semantic_intent"] == "create")

    def do() -> object:
        with bench_on(ledger) as context:
            if name == "report":
                return ExternalReportUnit(outcome).run(context)
            if name == "review":
                return BatchReviewUnit(batch(item("m"))).run(context)["duplicate"]
        if name == "undo":
            return undo(ledger, note["operation_id"])
        if name == "recompute":
            return record(ledger, [unit])[0][0]
        return extractions.begin(request)[1]

    with monkeypatch.context() as earlier:
        for place in ("actors.orchestrator.orchestrator", "kernel.rollback.envelopes"):
            earlier.setattr(f"{place}.runtime_key", lambda _, *parts: digest([*parts]))
        orchestrator.kept_key.cache_clear()
        do()
    orchestrator.kept_key.cache_clear()
    before = everything(ledger)["kernel_event_log"]
    if name == "undo":
        with pytest.raises(RollbackRefused, match="undone"):
            do()
    else:
        assert do() in ("closed", True, None)
    assert everything(ledger)["kernel_event_log"] == before
    assert findings(ledger) == ()


# Workers


@KEY
@pytest.mark.spec("K18")
def test_a_worker_names_no_key_of_a_recompute():
    ledger = memory_ledger()
    accept(ledger, create("c", "VersionedClaim", authority=0.5))
    accept(ledger, create("u", "ConsolidatedUnderstanding"), link("c>u", "c", "u"))

    def reported_as(key: str) -> Any:
        [unit] = reported(ledger, ["u"])
        return RecomputeUnit(unit.intent.model_copy(update={"intent_key": key}), None)

    for authority in (0.5, 0.6, 0.7):
        accept(ledger, adapt("c", authority=authority))
        [(outcome, _)] = record(ledger, [reported_as("always the same")])
        assert outcome == "completed"


# Names that the runtime derives


def claim_of(run_id: str) -> str:
    """The name of the claim of the first party in the text."""
    at = TEXT.index("Ann Acme")
    return f"claim:{digest([run_id, 'party', 'Ann Acme', None, at, at + len('Ann Acme')])}"


def stated_first(name: str) -> dict[str, Any]:
    """What a caller may do with the name of a claim before it is there."""
    of_node = {"source_node_id": "doc-1", "target_node_id": "doc-1", "edge_type": "informs"}
    joined = effect("membership_write", name, corpus_id="corpus", to_state="candidate")
    edge = effect("edge_create", f"edge:{name}->u", **of_node)
    return {
        "node": create(name, "Note"),
        "membership": envelope("corpus_membership_add", [joined]),
        "edge": envelope("document_relationship_create", [edge]),
    }


@pytest.mark.spec("§16.4")
@pytest.mark.parametrize("what", ["node", "membership", "edge"])
def test_the_claim_of_an_extraction_is_nobodys_to_write_first(what):
    extractions = Extractions()
    name = claim_of("run-1")
    refused = submit(extractions.ledger, stated_first(name)[what])
    assert (refused.rejection.check, code_of(refused)) == ("V1", "envelope_actor_unauthorized")
    assert refused.rejection.field.endswith("target_ref")
    request = extractions.ask()
    extractions.begin(request)
    extractions.finish(request, value(TEXT, "Ann Acme"))
    assert extractions.claims() == 1
    # Once it is there, others go on with it.
    accept(extractions.ledger, adapt(name, authority=0.25))


@pytest.mark.spec("§16.4")
def test_no_intent_of_a_producer_takes_the_name_of_an_extracted_claim():
    extractions = Extractions()
    name = claim_of("run-1")
    words = {"source_ref": "doc-1", "offset": 0, "length": 6}
    for intent in (
        source(name),
        CreateClaim(
            intent_key="k",
            node_id=name,
            corpus_id="corpus",
            span=SourceSpan(**words),
            text=TEXT[:6],
            authority=0.5,
        ),
        CreateBinding(intent_key="k", binding_id=name, **BINDING),
    ):
        with pytest.raises(IntentInvalid):
            extractions.do(IntentUnit(intent, None))


@pytest.mark.spec("§16.4")
def test_the_run_of_an_extraction_is_nobodys_to_begin_or_to_ask_for_first():
    extractions = Extractions()
    ledger = extractions.ledger
    with ledger.view() as view:
        run_id, _ = run_of(view, "doc-1", corpus_id="corpus")
    step = extraction_step(run_id)
    assert code_of(submit(ledger, step)) == "envelope_actor_unauthorized"
    for stated in (task(run_id, "doc-1"), task(run_id, "doc-1", "mine"), task("x", key=run_id)):
        with pytest.raises(WorkRefused) as caught:
            extractions.ask(stated)
        assert caught.value.code == "work_request_key_reserved"
    with ledger.transaction() as transaction:
        requested = request_extraction(transaction, "doc-1", corpus_id="corpus")
    assert (requested.extraction_run_id, requested.duplicate) == (run_id, False)
    # Somebody may enter the run again once it was asked for.
    extractions.ask(task(run_id, "doc-1", "once more"))


@pytest.mark.spec("K19", "INV-EXT-4")
@pytest.mark.parametrize("name", ["requeue", "reentry", "replacement"])
def test_what_the_runtime_asks_for_itself_is_nobodys_to_ask_for_first(name):
    extractions = Extractions()
    request = extractions.ask()
    key = {
        "requeue": requeue_key(request),
        "reentry": reentry_key("run-1", 2),
        "replacement": replacement_of("run-1"),
    }[name]
    with pytest.raises(WorkRefused) as caught:
        extractions.ask(task("x", key=key))
    assert (caught.value.code, caught.value.field) == ("work_request_key_reserved", "request_key")
    assert caught.value.index == 0
    extractions.begin(request)
    if name == "reentry":
        extractions.fail(request, "model_unavailable")
    elif name == "replacement":
        extractions.change_source()
        extractions.finish(request, value(TEXT, "Ann Acme"))
    else:
        extractions.give_up(request)
        with ledger_of(extractions).transaction() as transaction:
            [receipt] = requeue(
                transaction, EXTRACTION_QUEUE, [request], "ada", deciding(transaction)
            )
        assert not receipt.duplicate
    assert len(extractions.open()) == 1


def ledger_of(extractions: Extractions) -> Ledger:
    return extractions.ledger


def extraction_step(run_id: str) -> dict[str, Any]:
    return envelope(
        "extraction_state_change",
        [effect("extraction_state_transition", run_id, **state_change())],
    )
