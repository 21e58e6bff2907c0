"""An honest ledger of everything that the kernel does, for verification to look at."""

from dataclasses import replace
from typing import TypeVar
from unittest.mock import patch

from actors.commit.thought_units import (
    ChainVerifiedUnit,
    EndAuditSessionUnit,
    FinalizeUnit,
    OpenRoundUnit,
    RecordThoughtUnit,
    Sealing,
    StartAuditSessionUnit,
)
from actors.commit.work_units import RequestWorkUnit, WorkReportUnit
from kernel.algebra.effects import EFFECT_KINDS
from kernel.authority.requests import close_requests, ready_items
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.belief.record import BeliefBatch, record_belief
from kernel.belief.session import BeliefSession
from kernel.belief.terms import OntologyBundle
from kernel.ledger.receipts import append_receipt
from kernel.model.receipt import Receipt
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.proof.signing_keys import KeyKind, SeedKey
from kernel.proof.thought_chain import ThoughtType
from kernel.records.access.actions import Grant
from kernel.records.access.records import (
    AccessDecision,
    create_key,
    grant,
    revoke_key,
    withdraw,
)
from kernel.replay.replay_receipts import replay_operation
from kernel.retention.model_retention import collect_answers, due_answers
from kernel.rollback.confirmation import Confirmations
from kernel.rollback.execute import rollback_epoch, rollback_operation
from kernel.thoughts.reading import read_chain
from kernel.transaction.kernel import Kernel
from kernel.values.model_registry import ActiveModels
from kernel.values.priorities import QueuePriority
from kernel.work.bulk_operations import BulkRequest, advance, begin, preview
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.outcomes import close, reject_for_capacity
from kernel.work.pair_routing import ARTIFACTS_AT_ONCE
from kernel.work.pauses import PauseDecision, pause, resume
from kernel.work.registrations import QueueRegistration, register
from kernel.work.reports import CapacityRejected
from kernel.work.request_search import RequestSearch
from kernel.work.requests import WorkRequest, enqueue
from tests.actors.harness import bench_on
from tests.kernel.archives import release
from tests.kernel.binding_world import of_nobody
from tests.kernel.bindings.routed import created as created_binding
from tests.kernel.bindings.routed import selector
from tests.kernel.build import (
    adapt,
    advance_policy,
    create,
    effect,
    envelope,
    envelope_of_anchor,
    link,
    submit,
    submit_answered,
)
from tests.kernel.deciding import deciding
from tests.kernel.every import every_kind, states
from tests.kernel.implied import begin_run, go_round, halt, resumption

HOUR_US = 3600 * 1_000_000


T = TypeVar("T")


def accepted(result):
    assert isinstance(result, SubmissionResult), result
    return result


def recorded(result: T | RejectedResult) -> T:
    assert not isinstance(result, RejectedResult), result
    return result


def recompute(ledger, node_id):
    with ledger.view() as view:
        node = view.node(node_id)
        value, inputs = authority_of(view, BetaPosteriorMean(), node)
        as_of = view.head().ec_sequence_number
    document = envelope(
        "recalculate_authority",
        [
            effect(
                "node_write",
                node_id,
                cu_authority=value,
                **inputs.payload(),
            ),
            effect(
                "index_update",
                node_id,
                index_name="authority_index",
                entry={"cu_authority": value},
            ),
        ],
        actor="system",
        recompute_as_of_sequence=as_of,
    )
    accepted(submit(ledger, document, submitter="orchestrator"))


def drain(ledger, keep=()):
    """Recompute what is ready until nothing is, but for the nodes to keep waiting."""
    while True:
        with ledger.view() as view:
            ready = ready_items(view, view.open_requests())
        due = [request.item_key for request in ready if request.item_key not in keep]
        if not due:
            return
        recompute(ledger, due[0])


def give_up(ledger, node_id, outcome):
    with ledger.transaction() as transaction:
        transaction.next_commit_time_us()
        closed = close_requests(
            transaction,
            node_id,
            transaction.head_now.ec_sequence_number,
            outcome=outcome,
            operation_id=None,
            closed_sequence=transaction.head_now.ec_sequence_number,
            closed_at_us=transaction.head_now.committed_at_us,
            error_signature="KeyError at compute",
        )
        assert closed
        for request_id in closed:
            body = {
                "request_id": request_id,
                "target_cu_id": node_id,
                "error_signature": "KeyError at compute",
            }
            receipt = Receipt("authority_recompute_dead_lettered", body)
            append_receipt(transaction, f"receipt:{transaction.host.new_id()}", receipt, None)


ASKED_OPEN = 4
"""How many requests of work are left open: three of producers, one of a pair."""


def extract(ledger):
    """Two extractions that run, of which one reads a text that was changed since."""
    step = {"attempt_number": 1, "prior_state": "pending", "current_state": "running"}
    for name in ("read-1", "read-2"):
        accepted(submit(ledger, create(name, "Note", content="as it was")))
        facts = {"source_ref": name, "request_id": f"request:{name}", "state_change_reason": "r"}
        begun = effect("extraction_state_transition", f"run:{name}", **step, **facts)
        accepted(submit(ledger, envelope("extraction_state_change", [begun])))
    accepted(submit(ledger, adapt("read-1", content="as it is")))


def ask_for_work(ledger):
    """Requests of both queues: closed in every way, put back for capacity, left open."""
    step = {"prior_state": "pending", "current_state": "running", "state_change_reason": "r"}
    requests = [
        WorkRequest(
            BINDING_QUEUE,
            f"b-{n}",
            {"binding_id": f"b-{n}", "source_event_id": "e"},
            tags={"customer": "acme", "n": str(n)} if n % 2 else {},
        )
        for n in range(4)
    ]
    requests.append(
        WorkRequest(EXTRACTION_QUEUE, "x", {"extraction_run_id": "r", "attempt_number": 1, **step})
    )
    with ledger.transaction() as transaction:
        ids = [receipt.request_id for receipt in enqueue(transaction, requests)]
        close(transaction, ids[0], "completed", result={"outcome_state": "succeeded"})
        signal = {"ec_capacity_lease_state": "none", "queue_depth": 3, "inflight_operations": 1}
        rejected = CapacityRejected(request_id=ids[1], capacity_signal_at_rejection=signal)
        assert reject_for_capacity(transaction, rejected)
        close(transaction, ids[2], "dead_letter", reason="binding_evaluation_failed")
        close(transaction, ids[4], "cancelled", reason="no longer wanted")
        for queue, priority in ((BINDING_QUEUE, "background"), (EXTRACTION_QUEUE, None)):
            decision = PauseDecision(queue, priority, "ada", "an exchange")
            assert pause(transaction, decision, deciding(transaction))
        assert pause(transaction, PauseDecision(BINDING_QUEUE), deciding(transaction))
        assert resume(transaction, PauseDecision(BINDING_QUEUE), deciding(transaction))
        for name in ("resize", "stamp"):
            assert register(transaction, registration_of_queue(name), (), is_new=True)
    give_access(ledger)
    for state in ("running", "finished"):
        search = RequestSearch(tag="customer=nobody")
        with ledger.transaction() as transaction:
            counted = preview(transaction, "cancel", search)
            request = BulkRequest("cancel", search, "an exchange", "ada")
            bulk = begin(transaction, request, counted, deciding(transaction))
        with ledger.transaction() as transaction:
            advance(transaction, bulk, replace(bulk, cursor=0, state=state))
    leave_to_a_person(ledger)
    evaluate(ledger)


def give_access(ledger):
    """Grants and keys that stand, and one of each that has ended."""
    decision = AccessDecision("person:eve", "the team has grown")
    with ledger.transaction() as transaction:
        decide = deciding(transaction)
        for name in ("ada", "bob", "eve"):
            assert grant(transaction, Grant(f"person:{name}", "auditor"), decision, decide)
            key = (name, "0" * 64)
            create_key(transaction, key, f"person:{name}", 1 << 60, decision, decide)
        withdraw(transaction, Grant("person:bob", "auditor"), decision, decide)
        assert revoke_key(transaction, "bob", decision, decide) == ("bob",)


def registration_of_queue(name):
    """What a worker states of a queue that takes images."""
    properties = {"image_id": {"type": "string"}}
    content = {"type": "object", "properties": properties}
    rows = (QueuePriority("background", "background", 60),)
    return QueueRegistration(name, content, "image_id", rows, "background")


def leave_to_a_person(ledger):
    """Two outcomes that a person has to look at."""
    result = {"outcome_state": "user_review_required"}
    with ledger.transaction() as transaction:
        for name in ("h-0", "h-1"):
            content = {"binding_id": "b", "source_event_id": name}
            [recorded] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, name, content)])
            close(transaction, recorded.request_id, "completed", result=result)


def evaluate(ledger):
    """A cycle of evaluations that has its manifest, and one that has not."""
    requests = [
        WorkRequest(BINDING_QUEUE, name, {"binding_id": "b", "source_event_id": name[0]})
        for name in ("f-0", "g-0", "g-1")
    ]
    with bench_on(ledger) as context:
        ids = [receipt.request_id for receipt in RequestWorkUnit(tuple(requests)).run(context)]
        for request_id, event in zip(ids[:2], "fg", strict=True):
            outcome, _ = WorkReportUnit(of_nobody(request_id, "b", event)).run(context)
            assert outcome == "completed"


def route(ledger):
    """Pairs that wait, that are ready and that fired, and two bindings that are routed half way."""
    names = [f"entry-{number:02}" for number in range(ARTIFACTS_AT_ONCE + 1)]
    fields = {
        "node_kind": "SourceArtifact",
        "content": "c",
        "acquisition_shape": "ingested",
        "prompt_injection_isolation_wrapper_applied": True,
        "metadata_wrapper_applied": True,
    }
    kinds = {"entry-00": {"source_kind": "docket"}, "entry-01": {"source_kind": "docket"}}
    effects = [effect("node_write", name, **fields, **kinds.get(name, {})) for name in names]
    member = effect("membership_write", names[0], corpus_id="c", to_state="candidate")
    accepted(submit(ledger, envelope("create", [*effects, member]), submitter="orchestrator"))
    docket = selector("source_kind", "docket")
    accepted(submit(ledger, created_binding("b-routed-1", docket, over="n")))
    paper = selector("content_type", "text/plain")
    accepted(submit(ledger, created_binding("b-routed-2", docket, paper, over="n")))
    with ledger.transaction() as transaction:
        first, _ = transaction.open_requests(queue=BINDING_QUEUE)[-2:]
        assert close(transaction, first.request_id, "completed", pair_end="fired")


EXTERNAL = sum(
    "external_effect_descriptor" in stated
    for document in every_kind()
    for stated in document["primitive_effects"]
)
"""How many effects of the course wait to be performed outside."""


SNAPSHOT_AT = 2


class Believer:
    """A belief session whose batches go onto the record."""

    def __init__(self, ledger, session_id, count):
        self.ledger, self.session_id = ledger, session_id
        ontology = OntologyBundle("space", "v1", "graph", "v1")
        names = [f"h-{number:03d}" for number in range(count)]
        self.session, event = BeliefSession.declare(
            session_id,
            ontology,
            names,
            event_id=f"{session_id}:0",
            ts=self.ts(0),
            metadata={"case_name": "T"},
        )
        self.record([event])

    @staticmethod
    def ts(number):
        return f"2026-02-09T10:00:00.{number:06d}Z"

    def eliminate(self, *ids):
        self.eliminate_at_once(ids)

    def eliminate_at_once(self, *batches):
        """Eliminate several times, in one transaction."""
        events = []
        for ids in batches:
            number = self.session.n_events
            result = self.session.eliminate(
                "src",
                f"o-{number}",
                ids,
                event_id=f"{self.session_id}:{number}",
                ts=self.ts(number),
            )
            events.append(result.event)
        self.record(events)

    def record(self, events):
        due = self.session.n_events == SNAPSHOT_AT
        snapshot = self.session.take_snapshot(0) if due else None
        batch = BeliefBatch.after(self.session, events, "T", snapshot)
        with self.ledger.transaction() as transaction:
            record_belief(transaction, batch)
        anchor = envelope_of_anchor([batch.anchored_events().model_dump()])
        accepted(submit(self.ledger, anchor, submitter="orchestrator"))


def write_honestly(ledger, host):
    """Submit about sixty envelopes of every sort, refused ones among them."""
    cu, claim = "ConsolidatedUnderstanding", "VersionedClaim"
    believer = Believer(ledger, "s-1", 30)
    for document in every_kind():
        accepted(submit(ledger, document, submitter="orchestrator"))
    accepted(submit(ledger, create("claim-1", claim, authority=0.9)))
    accepted(submit(ledger, create("claim-2", claim, authority=0.25)))
    for name in ("cu-a", "cu-b", "cu-c", "cu-d", "cu-e"):
        accepted(submit(ledger, create(name, cu, text=f"understanding {name} \u00e9\U0001f600")))
    refused = create("cu-x", cu, policy_generation_id="old")
    refused["policy_generation_id"] = "PG-0"
    assert isinstance(submit(ledger, refused), RejectedResult)
    assert isinstance(submit(ledger, "nonsense"), RejectedResult)
    for number, (source, target, how) in enumerate(
        [
            ("claim-1", "cu-a", "core"),
            ("claim-2", "cu-a", "tangential"),
            ("cu-a", "cu-b", "supporting"),
            ("cu-a", "cu-c", "core"),
            ("cu-b", "cu-d", "core"),
            ("cu-c", "cu-d", "supporting"),
        ]
    ):
        accepted(submit(ledger, link(f"edge-{number}", source, target, how)))
    drain(ledger, keep=("cu-e",))
    give_up(ledger, "cu-e", "dead_letter")
    believer.eliminate("h-001", "h-007")
    urgent = envelope(
        "annotate",
        [effect("node_write", "claim-1", authority=0.7, scale=1.5e300, tiny=-2.5e-9)],
        recompute_priority="user_initiated_critical",
        session_id="session-1",
    )
    ask_for_work(ledger)
    accepted(submit(ledger, urgent))
    assert submit(ledger, urgent).duplicate
    recompute(ledger, "cu-a")
    give_up(ledger, "cu-b", "dead_letter")
    accepted(
        submit(
            ledger,
            envelope(
                "document_relationship_update",
                [
                    effect("edge_reclassify", "edge-4", edge_metadata={"essentiality": "core"}),
                    effect("edge_remove", "edge-5"),
                ],
            ),
        )
    )
    search = envelope("search_run_record", [effect("receipt_only", query="q", hits=3)])
    accepted(submit(ledger, search))
    tainted = create(
        "secret",
        "Document",
        visibility_class="sealed",
        envelope={
            "source_visibility_taint": ["public_open", "sealed"],
            "resolved_output_visibility_class": "sealed",
        },
    )
    accepted(submit(ledger, tainted))
    stale = envelope(
        "annotate",
        [
            effect("node_write", "claim-2", note="x"),
            effect("materialized_view_invalidation", "view-1", node_ref="claim-2"),
            effect("index_update", "claim-2", index_name="by_note", entry={"note": "x"}),
        ],
    )
    accepted(submit(ledger, stale))
    host.time_us += 25 * HOUR_US
    again = envelope(
        "annotate",
        [effect("materialized_view_recompute", "view-1"), effect("node_write", "claim-2", n=1)],
        idempotency_key=stale["idempotency_key"],
    )
    accepted(submit(ledger, again))
    member = effect("membership_write", "claim-1", corpus_id="corpus:test", to_state="confirmed")
    accepted(submit(ledger, envelope("corpus_membership_confirm", [member])))
    ask_models(ledger, host)
    believer.eliminate("h-000", "h-002", "nobody")
    believer.eliminate("h-029")
    Believer(ledger, "s-2", 3)
    disagree(ledger)
    route(ledger)
    extract(ledger)
    drain(ledger)
    undo_half_an_epoch(ledger)
    undo_a_mistake(ledger, "claim-2")
    drain(ledger)
    imply(ledger)
    think(ledger)
    accepted(submit(ledger, create("cu-f", cu), create("cu-g", cu))[0])
    recompute(ledger, "cu-g")
    # Of cu-f, one request stays open.


def imply(ledger):
    """Two detectors run, what they emit is counted, and one of them is halted at the end."""
    notes = [create(name, "Note") for name in ("implied-a", "implied-b")]
    for note in notes:
        accepted(submit(ledger, note))
    for result in go_round(ledger, ["implied-a", "implied-b"], notes[0]["operation_id"], 2):
        accepted(result)
    begin_run(ledger, "another")
    for document in (halt("another"), resumption("detector:another"), halt(), halt("another")):
        accepted(submit(ledger, document, submitter="orchestrator"))


def think(ledger):
    """Three sessions of thoughts in two rounds: two finalized, one of them ended, and one open."""
    sealing = Sealing((SeedKey("example.com/agent", KeyKind.ED25519, b"a" * 32),), 1)
    for session_id, count in (("audit-1", 5), ("audit-2", 2), ("audit-3", 3)):
        with bench_on(ledger) as context:
            StartAuditSessionUnit(session_id, "task-1").run(context)
            for number in range(1, count + 1):
                kind: ThoughtType = "analysis" if number < count else "reflection"
                content = f"thought {number} of {session_id}"
                unit = RecordThoughtUnit(session_id, f"t-{number}", kind, content)
                assert recorded(unit.run(context))["sequence"] == number
        with ledger.view() as view:
            read = read_chain(view, session_id)
        if session_id == "audit-3":
            continue
        with bench_on(ledger) as context:
            verified = recorded(ChainVerifiedUnit(session_id, *read).run(context))
            assert verified["verified_count"] == count
            assert recorded(FinalizeUnit(session_id, sealing).run(context))["merkle_root"]
    with bench_on(ledger) as context:
        assert recorded(EndAuditSessionUnit("audit-1").run(context))["state"] == "ended"
        assert recorded(OpenRoundUnit().run(context))["round_number"] == 3


def undo_a_mistake(ledger, node_id):
    mistake = envelope("annotate", [effect("node_write", node_id, note="a mistake")])
    accepted(submit(ledger, mistake))
    with ledger.transaction() as transaction:
        accepted(rollback_operation(Kernel(), transaction, mistake["operation_id"]).submission)


def write_briefly(ledger, host):
    """Fill every table that the kernel writes, with two rows where the honest ledger has several.

    Verifying it takes a fifth of the time, so that a test can change one thing after the other.
    """
    believer = Believer(ledger, "s-1", 6)
    for document in brief_course():
        accepted(submit(ledger, document, submitter="orchestrator"))
    stale = effect("materialized_view_invalidation", "view-1", node_ref="n")
    note = [effect("node_write", "n", note="x"), stale]
    accepted(submit(ledger, envelope("annotate", note, session_id="session-1")))
    for name in ("h-001", "h-002", "nobody"):
        believer.eliminate(name)
    Believer(ledger, "s-2", 3)
    for name in ("cu-a", "cu-b", "cu-c"):
        accepted(submit(ledger, create(name, "ConsolidatedUnderstanding")))
    accepted(submit(ledger, link("edge-a", "n", "cu-a")))
    accepted(submit(ledger, link("edge-b", "cu-a", "cu-b")))
    drain(ledger, keep=("cu-c",))
    give_up(ledger, "cu-c", "dead_letter")
    ask_for_work(ledger)
    ask_models(ledger, host)
    disagree(ledger)
    route(ledger)
    extract(ledger)
    undo_half_an_epoch(ledger)
    undo_a_mistake(ledger, "n")
    imply(ledger)
    think(ledger)


_WHOLE = {
    *("create", "filing_unit_write", "source_binding_update", "extraction_state_change"),
    *("corpus_membership_add", "corpus_membership_reject", "membership_state_transition"),
    *("membership_state_transition_reject_and_re_propose", "membership_revoke"),
    *("binding_generation_advance", "binding_generation_revert"),
}
"""Verbs of which every step is kept."""


def brief_course():
    """The steps of the course that fill every typed store but that of the policies."""
    kept, missing = [], {kind.store for kind in EFFECT_KINDS.values()} - {"policy_snapshots"}
    for document in every_kind():
        kinds = {stated["effect_kind"] for stated in document["primitive_effects"]}
        stores = {EFFECT_KINDS[kind].store for kind in kinds}
        if stores & missing or document["semantic_intent"] in _WHOLE:
            kept.append(document)
            missing -= stores
    return kept


def undo_half_an_epoch(ledger):
    """An epoch that goes back in pages, and of which one has gone back."""
    inside = [create(name, "Note") | {"epoch_id": "half"} for name in ("half-1", "half-2")]
    accepted(submit(ledger, states("epoch_open", "epoch_opened", epoch_id="half"), *inside)[-1])
    accepted(submit(ledger, states("epoch_close", "epoch_closed", epoch_id="half")))
    with (
        patch("kernel.rollback.plan.PAGE_OPERATIONS_MAX", 1),
        ledger.transaction() as transaction,
    ):
        page = rollback_epoch(Kernel(), transaction, "half", confirmations=Confirmations({}))
    assert page.operations_left == 1


def ask_models(ledger, host):
    """Three answers on record, one of them collected again, and replays of every retention."""
    documents = [adapt("n", note=str(number)) for number in range(3)]
    for document in documents:
        accepted(submit_answered(ledger, document, b"an answer"))
    registry = ActiveModels({"claude-opus-4-7": "claude-opus-4-7"})
    with ledger.transaction() as transaction:
        for document in documents:
            replay_operation(transaction, document["operation_id"], "record_only", registry)
        replay_operation(transaction, "nowhere", "record_only", registry)
    release(ledger, documents[1]["operation_id"])
    host.time_us += 8 * 24 * HOUR_US
    with ledger.transaction() as transaction:
        due = due_answers(transaction, ActiveModels({}), host.time_us)
        assert due is not None
        assert len(collect_answers(transaction, due)) == 1
    accepted(submit(ledger, adapt("n", note="later")))


def disagree(ledger):
    """Two writes that had not seen each other of every outcome, in a run that has a budget."""
    policy = "PG-4"
    advance_policy(
        ledger,
        policy,
        kernel_cost_governance={
            "per_run_write_budget": 1,
            "daily_write_quota_per_kind": {"create": 1},
        },
    )
    run = {"policy_generation_id": policy, "run_id": "run-1"}
    accepted(submit(ledger, create("rival", "Note", envelope=run, reply_id="r")))
    other = envelope("annotate", [effect("node_write", "rival", reply_id="s")], **run)
    accepted(submit(ledger, other, unseen=True))
    receipts = []
    for field, values in (("cites_refs", (["a"], ["a", "b"])), ("source_refs", (["a"], ["b"]))):
        for number, value in enumerate(values):
            note = effect("node_write", "rival", **{field: value})
            result = submit(ledger, envelope("annotate", [note], **run), unseen=True)
            assert isinstance(result, RejectedResult if number else SubmissionResult)
            if isinstance(result, RejectedResult):
                receipts.append(result.receipt_id)
    settled = envelope("annotate", [effect("node_write", "rival", settled=True)], **run)
    accepted(submit(ledger, settled | {"adjudicates_receipt_ids": [receipts[0]]}))
    kind = "policy_snapshot_revert"
    back = envelope(kind, [effect(kind, policy)], policy_generation_id=policy)
    accepted(submit(ledger, back, submitter="orchestrator"))
