"""Extractions that a worker performs: every report, and what the run and its request then are."""

from typing import Any

import pytest

from actors.commit.units import EnvelopeUnit, IntentUnit
from actors.commit.work_units import CancelRequestUnit, RequestWorkUnit, WorkReportUnit
from actors.orchestrator.intents import CreateSource, SynthesizeUnderstanding
from actors.orchestrator.untrusted_content import wrap_untrusted
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.model.model_output import CapturedOutput
from kernel.model.result import RejectedResult
from kernel.records.extraction import SOURCE_CHANGED, attempts_of, last_attempt, runs_of_source
from kernel.values.canonical import digest, sha256_hex
from kernel.values.untrusted import unwrap_untrusted
from kernel.verify import verify
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.dead_letters import requeue
from kernel.work.extraction_runs import replacement_of
from kernel.work.extractions.failures import FAILURES, RESOLVED
from kernel.work.extractions.reading import describe_run, describe_source, runs_in_state
from kernel.work.extractions.requests import request_extraction
from kernel.work.reports import ExtractionBegun, ExtractionFailed, ExtractionFinished
from kernel.work.requests import request_id_of, status_of
from tests.actors.harness import bench_on
from tests.kernel.attempts import given_up
from tests.kernel.build import FakeHost, create, effect, envelope, receipts_of_kind, submit
from tests.kernel.deciding import deciding
from tests.kernel.extractions import result, task, value

TEXT = "Motion by Ann Acme to dismiss, before Judge Bell."
CHANGED = "Motion by Ann Acme to dismiss, withdrawn."
RUN = "run-1"


class Extractions:
    """A ledger, and the reports of a worker."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.ledger = Ledger.create(MemoryStore(), self.host.host)
        self.do(IntentUnit(source(TEXT), None))

    def do(self, unit: Any) -> Any:
        with bench_on(self.ledger) as context:
            return unit.run(context)

    def ask(self, request: Any = None) -> str:
        [receipt] = self.do(RequestWorkUnit((request or task(),)))
        return str(receipt.request_id)

    def begin(self, request_id: str, extractor: str = "test") -> Any:
        report = ExtractionBegun(request_id=request_id, extractor=extractor)
        return self.do(WorkReportUnit(report))

    def finish(self, request_id: str, *values: Any, text: str = TEXT, **failed: str) -> Any:
        return self.hand_in(request_id, result(*values, **failed), text)

    def hand_in(self, request_id: str, document: Any, text: str = TEXT, **fields: Any) -> Any:
        report = ExtractionFinished(
            request_id=request_id,
            source_text_sha256=sha256_hex(text.encode()),
            result=document,
            claim_authority=0.5,
            **fields,
        )
        return self.do(WorkReportUnit(report))

    def fail(self, request_id: str, code: str) -> Any:
        return self.do(WorkReportUnit(ExtractionFailed(request_id=request_id, code=code)))

    def give_up(self, request_id: str) -> Any:
        report = given_up(request_id=request_id, error_signature="worker_ended_three_times")
        return self.do(WorkReportUnit(report))

    def cancel(self, request_id: str, reason: str) -> Any:
        return self.do(CancelRequestUnit(request_id, reason))

    def change_source(self, text: str = CHANGED) -> None:
        """A new version of the document, as the orchestrator writes one."""
        self.host.time_us += 60_000_000
        content = wrap_untrusted(text, source="doc-1", kind="docket_entry")
        adapted = envelope("field_adapt", [effect("node_write", "doc-1", content=content)])
        with bench_on(self.ledger) as context:
            outcome = context.kernel.submit(context.transaction, adapted, "orchestrator")
        assert not isinstance(outcome, RejectedResult), outcome

    def steps(self, run: str = RUN) -> list[tuple[str, str]]:
        with self.ledger.view() as view:
            steps = attempts_of(view, run, limit=100)
        return [(step["prior_state"], step["current_state"]) for step in steps]

    def last(self, run: str = RUN) -> dict[str, Any]:
        with self.ledger.view() as view:
            last = last_attempt(view, run)
        assert last is not None
        return last

    def status(self, request_id: str) -> Any:
        with self.ledger.view() as view:
            return status_of(view, request_id)

    def open(self) -> list[Any]:
        with self.ledger.view() as view:
            return view.open_requests(queue=EXTRACTION_QUEUE)

    def claims(self) -> int:
        with self.ledger.view() as view:
            return len(view.nodes_of_kind("VersionedClaim", after=None, limit=10))

    def node(self, node_id: str) -> Any:
        with self.ledger.view() as view:
            return view.node(node_id)


def source(text: str) -> CreateSource:
    return CreateSource(
        intent_key="doc-1",
        node_id="doc-1",
        corpus_id="corpus",
        content_kind="docket_entry",
        text=text,
        metadata={"ecf_entry_text": "x"},
    )


@pytest.fixture
def extractions():
    world = Extractions()
    yield world
    with world.ledger.view() as view:
        assert verify(view).findings == ()


@pytest.mark.spec("§16.3", "§16.4", "INV-MVC-CU-1")
def test_a_result_becomes_claims_with_spans_and_the_step_that_names_them(extractions):
    extractions.do(
        IntentUnit(
            SynthesizeUnderstanding(
                intent_key="u",
                node_id="u",
                corpus_id="corpus",
                title="t",
                source_spans=[{"source_ref": "doc-1", "offset": 0, "length": 6}],
            ),
            None,
        )
    )
    request = extractions.ask(task(understanding_id="u"))
    outcome, begun = extractions.begin(request)
    assert outcome == "recorded"
    outcome, ended = extractions.finish(
        request, value(TEXT, "Ann Acme", role="filer"), value(TEXT, "Bell", "judge")
    )
    assert (outcome, extractions.steps()) == (
        "completed",
        [("pending", "running"), ("running", "succeeded")],
    )
    last = extractions.last()
    assert last["parent_operation_id"] == begun.operation_id
    assert last["operation_id"] == ended.operation_id
    assert last["extractor"] == "test@1"
    claims = [extractions.node(ref) for ref in last["claim_refs"]]
    assert [unwrap_untrusted(claim["payload"]["text"]) for claim in claims] == ["Ann Acme", "Bell"]
    assert claims[0]["payload"]["span"] == {"source_ref": "doc-1", "offset": 10, "length": 8}
    extracted = claims[0]["payload"]["extracted"]
    assert (extracted["field"], unwrap_untrusted(extracted["role"])) == ("party", "filer")
    # A claim is caused by the step with which its run began, and feeds what the task names.
    with extractions.ledger.view() as view:
        envelope_of_claim = view.envelope(claims[0]["created_by_operation_id"])
        fed = view.open_requests(queue=AUTHORITY_QUEUE)
    assert begun.operation_id in envelope_of_claim["causal_parent_operation_ids"]
    assert {request.item_key for request in fed} == {"u"}
    status = extractions.status(request)
    assert (status.state, status.operation_id) == ("completed", ended.operation_id)
    assert status.result == {
        "extraction_run_id": RUN,
        "extraction_state": "succeeded",
        "claims": 2,
    }


@pytest.mark.spec("INV-EXT-3")
def test_a_partial_result_is_degraded_and_says_which_fields_failed_and_why(extractions):
    request = extractions.ask()
    extractions.begin(request)
    extractions.finish(request, value(TEXT, "Ann Acme"), judge="not_readable")
    last = extractions.last()
    assert last["current_state"] == "degraded"
    assert last["extraction_completeness"] == {
        "succeeded_fields": ["party"],
        "failed_fields": [{"field": "judge", "reason": "not_readable"}],
    }
    assert last["state_change_reason"] == "fields failed: judge: not_readable"
    assert len(last["claim_refs"]) == 1


@pytest.mark.spec("§16.4", "§16.8")
def test_a_degraded_run_is_entered_again_and_keeps_what_it_had(extractions):
    first = extractions.ask()
    extractions.begin(first)
    extractions.finish(first, value(TEXT, "Ann Acme"), judge="not_readable")
    kept = extractions.last()["claim_refs"]
    again = extractions.ask(task(key="again", cause="user_retry_with_chunked_strategy"))
    extractions.begin(again)
    extractions.finish(again, value(TEXT, "Ann Acme"), value(TEXT, "Bell", "judge"))
    assert extractions.steps() == [
        ("pending", "running"),
        ("running", "degraded"),
        ("degraded", "running"),
        ("running", "succeeded"),
    ]
    with extractions.ledger.view() as view:
        steps = attempts_of(view, RUN, limit=10)
    assert steps[2]["state_change_reason"] == "user_retry_with_chunked_strategy"
    parents = [step.get("parent_operation_id") for step in steps]
    assert parents == [None, *(step["operation_id"] for step in steps[:-1])]
    assert len({step["operation_id"] for step in steps}) == 4
    assert [*kept, steps[3]["claim_refs"][1]] == steps[3]["claim_refs"]


def test_a_report_that_comes_twice_or_late_changes_nothing(extractions):
    request = extractions.ask()
    assert extractions.finish(request) == ("early", None)
    assert extractions.fail(request, "extractor_failed") == ("early", None)
    assert extractions.begin(request)[0] == "recorded"
    # After a worker died, the next one takes the run as it stands.
    assert extractions.begin(request) == ("recorded", None)
    extractions.finish(request, value(TEXT, "Ann Acme"))
    assert extractions.finish(request, value(TEXT, "Bell")) == ("closed", None)
    assert extractions.begin(request) == ("closed", None)
    assert len(extractions.steps()) == 2


@pytest.mark.spec("INV-EXT-2")
@pytest.mark.parametrize("code", sorted(FAILURES))
def test_a_failure_blocks_for_its_reason_and_is_tried_again_as_the_table_says(extractions, code):
    failure, request = FAILURES[code], extractions.ask()
    for _ in failure.retries_s:
        extractions.begin(request)
        extractions.fail(request, code)
        status = extractions.status(request)
        assert status.state == "completed"
        assert status.result["block_reason"] == failure.block_reason
        assert extractions.last()["block_reason"] == failure.block_reason
        request = status.result["reentry_request_id"]
    extractions.begin(request)
    extractions.fail(request, code)
    status, last = extractions.status(request), extractions.last()
    if failure.retries_s:
        assert (status.state, status.reason) == ("dead_letter", code)
        assert last["current_state"] == "abandoned"
        assert extractions.open() == []
        return
    assert (last["current_state"], last["block_reason"]) == ("blocked", failure.block_reason)
    waiting = [open_request.document["content"]["cause"] for open_request in extractions.open()]
    expected = [RESOLVED[failure.block_reason]] if failure.waits_for_worker else []
    assert waiting == expected


def test_every_reason_with_tries_says_why_it_enters_again():
    tried = {
        failure.block_reason
        for failure in FAILURES.values()
        if failure.retries_s or failure.waits_for_worker
    }
    assert tried == RESOLVED.keys()


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"nonsense": 1}, "extraction_result_invalid"),
        (result(value(TEXT, "Ann Acme") | {"words": "Bob"}), "extraction_span_invented"),
        (result(value(TEXT, "Bell") | {"end": 5000}), "extraction_span_outside_text"),
        (result(value(TEXT, "Bell"), party="not_stated"), "extraction_completeness_contradicted"),
    ],
)
def test_a_result_that_the_text_does_not_prove_is_believed_by_nobody(extractions, document, code):
    request = extractions.ask()
    extractions.begin(request)
    assert extractions.hand_in(request, document)[0] == "completed"
    last = extractions.last()
    assert (last["current_state"], last["state_change_reason"]) == ("blocked", code)
    assert last["block_reason"] == "quality_hard_fail"
    assert "claim_refs" not in last


@pytest.mark.spec("INV-EXT-6")
@pytest.mark.parametrize("at", ["begin", "finish"])
def test_a_run_whose_source_changed_is_cancelled_and_begun_anew(extractions, at):
    request = extractions.ask()
    extractions.begin(request)
    extractions.change_source()
    if at == "begin":
        extractions.begin(request)
    else:
        extractions.finish(request, value(TEXT, "Ann Acme"))
    last = extractions.last()
    assert (last["current_state"], last["cancellation_reason"]) == ("cancelled", SOURCE_CHANGED)
    assert "claim_refs" not in last
    new = replacement_of(RUN)
    assert extractions.status(request).result["replaced_by"] == new
    [anew] = extractions.open()
    extractions.begin(anew.request_id)
    begun = extractions.last(new)
    assert begun["replaces_extraction_run_id"] == RUN
    assert begun["state_change_reason"] == "Extraction restarted because document was updated"
    extractions.finish(anew.request_id, value(CHANGED, "Ann Acme"), text=CHANGED)
    assert extractions.last(new)["current_state"] == "succeeded"
    assert len(extractions.steps()) == 2


@pytest.mark.spec("INV-EXT-6")
def test_a_write_that_leaves_the_text_as_it_was_ends_no_run(extractions):
    request = extractions.ask()
    extractions.begin(request)
    adapted = envelope("field_adapt", [effect("node_write", "doc-1", visibility_class="sealed")])
    extractions.do(EnvelopeUnit(adapted, "s"))
    extractions.finish(request, value(TEXT, "Ann Acme"))
    last = extractions.last()
    assert last["current_state"] == "succeeded"
    # What was read of it is as restricted as it is now.
    assert extractions.node(last["claim_refs"][0])["visibility_class"] == "sealed"


@pytest.mark.spec("INV-EXT-4")
def test_what_was_abandoned_is_entered_again_by_nobody_but_a_person(extractions):
    with extractions.ledger.transaction() as transaction:
        requested = request_extraction(transaction, "doc-1", "test", "binding", corpus_id="corpus")
    run, request = requested.extraction_run_id, requested.request_id
    extractions.begin(request)
    extractions.give_up(request)
    assert extractions.last(run)["current_state"] == "abandoned"
    assert extractions.status(request).state == "dead_letter"
    # A binding that fires again, a sweep, and a task of the same run.
    with extractions.ledger.transaction() as transaction:
        again = request_extraction(transaction, "doc-1", "test", "sweep", corpus_id="corpus")
    assert (again.extraction_run_id, again.state, again.duplicate) == (run, "abandoned", True)
    swept = extractions.ask(task(run, key="sweep"))
    assert extractions.begin(swept)[0] == "completed"
    assert extractions.status(swept).reason == "extraction_run_abandoned"
    assert extractions.open() == []
    # An explicit requeue begins anew, in a run of its own.
    with extractions.ledger.transaction() as transaction:
        [requeued] = requeue(transaction, EXTRACTION_QUEUE, [request], "ada", deciding(transaction))
    extractions.begin(requeued.request_id)
    [anew] = extractions.open()
    extractions.begin(anew.request_id)
    new = extractions.last(replacement_of(run))
    assert (new["current_state"], new["replaces_extraction_run_id"]) == ("running", run)
    assert extractions.last(run)["current_state"] == "abandoned"


def test_asking_for_an_artifact_is_one_run_for_each_text_of_it(extractions):
    def ask() -> Any:
        with extractions.ledger.transaction() as transaction:
            return request_extraction(transaction, "doc-1", corpus_id="corpus")

    first, second = ask(), ask()
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.extraction_run_id == second.extraction_run_id
    extractions.change_source()
    third = ask()
    assert third.extraction_run_id != first.extraction_run_id
    # A text that comes back while its run is cancelled for the change has a run of its own.
    extractions.begin(first.request_id)
    extractions.change_source(TEXT)
    extractions.begin(first.request_id)
    fourth = ask()
    assert fourth.extraction_run_id not in (first.extraction_run_id, third.extraction_run_id)
    with extractions.ledger.view() as view:
        assert runs_of_source(view, "doc-1", limit=10) == [first.extraction_run_id]


@pytest.mark.parametrize("state", ["pending", "running", "blocked"])
def test_taking_a_request_back_cancels_its_run(extractions, state):
    request = extractions.ask()
    if state != "pending":
        extractions.begin(request)
    if state == "blocked":
        extractions.fail(request, "extractor_failed")
        request = extractions.status(request).result["reentry_request_id"]
    assert extractions.cancel(request, "not wanted")[0] is True
    last = extractions.last()
    assert (last["prior_state"], last["current_state"]) == (state, "cancelled")
    assert last["cancellation_reason"] == "not wanted"
    assert extractions.status(request).state == "cancelled"
    assert extractions.open() == []


@pytest.mark.spec("INV-EXT-2")
def test_a_result_that_the_kernel_refuses_blocks_the_run_and_leaves_none_of_its_claims(extractions):
    request = extractions.ask(task(understanding_id="nobody"))
    extractions.begin(request)
    extractions.finish(request, value(TEXT, "Ann Acme"), value(TEXT, "Bell", "judge"))
    last = extractions.last()
    assert (last["block_reason"], last["state_change_reason"]) == (
        "policy_blocked",
        "intent_invalid",
    )
    assert extractions.claims() == 0


@pytest.mark.spec("INV-EXT-2", "§2.2")
def test_a_claim_that_is_refused_takes_the_others_with_it_and_leaves_its_receipt(extractions):
    request = extractions.ask()
    extractions.begin(request)
    second = value(TEXT, "Bell", "judge")
    named = [RUN, "judge", "Bell", None, second["start"], second["end"]]
    # Before such names were the runtime's, anybody could give them.
    submit(extractions.ledger, create(f"claim:{digest(named)}", "Note"), submitter="orchestrator")
    extractions.finish(request, value(TEXT, "Ann Acme"), second)
    last = extractions.last()
    assert (last["block_reason"], last["state_change_reason"]) == (
        "policy_blocked",
        "node_already_exists",
    )
    refusals = receipts_of_kind(extractions.ledger, "envelope_validation_failed")
    assert [refusal["reason_code"] for refusal in refusals] == ["node_already_exists"]
    assert extractions.claims() == 0


def test_a_source_that_is_gone_blocks_its_run(extractions):
    request = extractions.ask(task(source="nobody"))
    assert extractions.begin(request)[0] == "completed"
    last = extractions.last()
    assert (last["current_state"], last["block_reason"]) == ("blocked", "source_unavailable")
    assert extractions.open() == []


@pytest.mark.spec("INV-MVC-3", "§6.4")
def test_what_a_model_answered_is_recorded_with_the_step_that_it_led_to(extractions):
    request = extractions.ask()
    extractions.begin(request, "model")
    output = CapturedOutput(
        answer=b"said",
        model_version="m-1",
        model_provider="local",
        prompt_hash="a" * 64,
        parameter_hash="b" * 64,
        source_refs=("doc-1",),
        answered_at="2026-02-09T00:00:00.000000Z",
        tier_2_prompt_cache_used=False,
        token_usage={},
    )
    document = result(value(TEXT, "Ann Acme"))
    _, ended = extractions.hand_in(request, document, outputs=(output,))
    with extractions.ledger.view() as view:
        [stated] = view.envelope(ended.operation_id)["recorded_model_outputs"]
        assert view.blob(stated["output_payload_blob_ref"]) == b"said"
    assert stated["recorded_by_operation_id"] == ended.operation_id


def test_requests_of_a_run_that_ended_well_are_done_at_once(extractions):
    request = extractions.ask()
    extractions.begin(request)
    extractions.finish(request)
    again = extractions.ask(task(key="again"))
    assert extractions.begin(again) == ("completed", None)
    assert extractions.status(again).result["extraction_state"] == "succeeded"
    assert request_id_of(EXTRACTION_QUEUE, "again") == again
    assert len(extractions.steps()) == 2


@pytest.mark.spec("INV-EXT-7", "INV-EXT-3")
def test_a_field_is_current_failed_or_stale_and_says_which(extractions):
    def fields() -> dict[str, Any]:
        with extractions.ledger.view() as view:
            return describe_source(view, "doc-1")

    assert fields() == {
        "source_ref": "doc-1",
        "extraction_state": None,
        "extraction_completeness": None,
        "fields": {},
        "runs": [],
    }
    first = extractions.ask()
    extractions.begin(first)
    extractions.finish(
        first,
        value(TEXT, "Ann Acme"),
        value(TEXT, "Bell", "judge"),
        value(TEXT, "dismiss", "motion"),
    )
    assert {name: field["status"] for name, field in fields()["fields"].items()} == dict.fromkeys(
        ("party", "judge", "motion"), "current"
    )
    # The document changes: until it was read again, what was read of it is shown as stale.
    extractions.change_source()
    stale = fields()["fields"]
    assert {field["framing"] for field in stale.values()} == {
        "previous extraction; current data unavailable"
    }
    second = extractions.ask(task("run-2"))
    extractions.begin(second)
    assert fields()["extraction_state"] == "running"
    extractions.finish(second, value(CHANGED, "Ann Acme"), text=CHANGED, judge="not_readable")
    shown = fields()
    assert shown["extraction_state"] == "degraded"
    assert shown["extraction_completeness"]["failed_fields"][0]["field"] == "judge"
    by_name = shown["fields"]
    assert by_name["party"]["status"] == "current"
    assert by_name["party"]["values"][0]["span"]["offset"] == CHANGED.index("Ann Acme")
    judge = by_name["judge"]
    assert (judge["status"], judge["failure_reason"]) == ("stale", "not_readable")
    assert judge["framing"] == "previous extraction; current data unavailable"
    assert (judge["values"][0]["words"], judge["extraction_run_id"]) == ("Bell", RUN)
    # The present text was read and does not say it: there is nothing to be stale.
    assert "motion" not in by_name


@pytest.mark.spec("INV-EXT-2")
def test_runs_are_listed_by_the_state_in_which_they_are_now(extractions):
    for run in ("a", "b", "c"):
        request = extractions.ask(task(run))
        extractions.begin(request)
        extractions.fail(request, "extraction_source_too_large")
    again = extractions.ask(task("b", key="again"))
    extractions.begin(again)
    with extractions.ledger.view() as view:
        page = runs_in_state(view, "blocked", after="", limit=1)
        rest = runs_in_state(view, "blocked", after=page.next_after or "", limit=5)
        described = describe_run(view, "a")
        assert describe_run(view, "nobody") is None
    listed = [(row["extraction_run_id"], row["block_reason"]) for row in (*page.runs, *rest.runs)]
    assert listed == [("a", "context_window_exhausted"), ("c", "context_window_exhausted")]
    assert rest.next_after is None
    assert described is not None
    assert [step["current_state"] for step in described["steps"]] == ["running", "blocked"]
    assert (described["source_ref"], described["extractor"]) == ("doc-1", "test")


def test_what_producers_state_of_their_own_steps_breaks_no_view(extractions):
    odd = {"claim_refs": ["doc-1", "nobody"], "source_text_sha256": "x", "source_ref": 7}
    first = effect(
        "extraction_state_transition",
        "odd",
        attempt_number=1,
        prior_state="pending",
        current_state="running",
        state_change_reason="r",
        **odd,
    )
    extractions.do(EnvelopeUnit(envelope("extraction_state_change", [first]), "s"))
    with extractions.ledger.view() as view:
        described = describe_run(view, "odd")
    assert described is not None
    assert described["values"] == []
