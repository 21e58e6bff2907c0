"""Legal requests for work, of operators, and of workers that hand in what they did."""

from collections.abc import Callable
from typing import Any

from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from tests.extraction_steps import extraction_step
from tests.fuzz.legal_request import ANY, OK, QUEUES, TOKEN, Build, LegalRequest, Names, fixed, post
from tests.kernel.attempts import failed, lost, snoozed
from tests.kernel.build import op_id

# Asked-for work


def _content(names: Names, queue: str) -> dict[str, Any]:
    if queue == BINDING_QUEUE:
        return {
            "binding_id": f"b-{names.own}",
            "source_event_id": f"e-{names.own}",
            "capacity_priority": "background",
        }
    return extraction_step(f"run-{names.own}")


def _work(count: int, statuses: frozenset[int]) -> Build:
    def build(names: Names) -> LegalRequest:
        queue = names.chance.choice((BINDING_QUEUE, EXTRACTION_QUEUE))
        requests = []
        for place in range(count):
            own = Names(f"{names.own}-{place}", names.session, names.chance)
            requests.append({"request_key": own.own, "content": _content(own, queue), "delay_s": 0})
        return post("requests", f"/v1/queues/{queue}/requests", {"requests": requests}, statuses)

    return build


def _queue(verb: str, body: Callable[[Names], Any]) -> Build:
    def build(names: Names) -> LegalRequest:
        path = f"/v1/queues/{names.chance.choice(QUEUES)}/{verb.replace('OWN', names.own)}"
        return post(f"queues/{verb}", path, body(names))

    return build


enqueue, enqueue_bulk = _work(1, ANY), _work(40, ANY)
enqueue_legal, enqueue_bulk_legal = _work(1, OK), _work(40, OK)
outcomes = _queue("outcomes", lambda names: {"request_ids": [names.own], "wait_s": 0.01})
cancel = _queue("requests/OWN/cancel", lambda _: {"reason": "why"})
prioritize = _queue(
    "requests/OWN/prioritize", lambda _: {"priority": "background", "reason": "why"}
)
pause = _queue("pause", lambda _: {"priority": "critical"})
resume = _queue("resume", lambda _: {"priority": "critical"})
requeue = _queue("requeue", lambda names: {"request_ids": [names.own]})
dismiss = _queue("dismiss", lambda names: {"request_ids": [names.own], "reason": "settled"})


def _bulk(names: Names) -> dict[str, Any]:
    """Return what is to be done to the requests under a key of the request's own."""
    verb = names.chance.choice(["cancel", "requeue", "dismiss"])
    return {"verb": verb, "filter": {"request_key": names.own}}


bulk_preview = fixed("bulk-operations:preview", "/v1/bulk-operations:preview", _bulk)
bulk = fixed("bulk-operations", "/v1/bulk-operations", lambda names: _bulk(names) | {"reason": "w"})
bulk_stop = fixed("bulk-operations/7/stop", "/v1/bulk-operations/7/stop", lambda _: {})


# Undoing, replaying, authorities


roll_back = fixed(
    "rollbacks",
    "/v1/rollbacks",
    lambda names: names.chance.choice(
        [
            {"tier": 1, "operation_id": op_id(names.own)},
            {"tier": 2, "epoch_id": "epoch", "user_confirmation_token": names.own},
        ]
    ),
)
roll_back_dry = fixed(
    "rollbacks/dry-run",
    "/v1/rollbacks/dry-run",
    lambda names: names.chance.choice(
        [{"tier": 1, "operation_id": op_id(names.own)}, {"tier": 2, "epoch_id": "epoch"}]
    ),
)
replay = fixed(
    "audit/replay",
    "/v1/audit/replay",
    lambda names: {
        "from_sequence": 1,
        "to_sequence": 4,
        "strategy": "record_only",
        "audit_context": {"caller_kind": "other", "caller_attribution": names.own},
    },
)
tick = fixed("authority/tick", "/v1/authority/tick", lambda _: {"threshold_hours": 100_000})
backfill = fixed("authority/backfill", "/v1/authority/backfill", lambda _: None)
recompute = fixed(
    "authority/recompute",
    "/v1/authority/cu-shared/recompute",
    lambda names: {"trigger_source_id": names.own, "priority": "background_normal"},
)


# What workers hand in


def _handed_in(path: str, body: Callable[[Names], Any]) -> Build:
    def build(names: Names) -> LegalRequest:
        tokens = [f"Bearer {TOKEN}"] * 4 + ["Bearer wrong", TOKEN, "", "Basic eDp5"]
        headers = {"Authorization": names.chance.choice(tokens)}
        return post(f"internal/{path}", f"/internal/{path}", body(names), headers=headers)

    return build


recomputed = _handed_in(
    "recomputed",
    lambda names: {
        "urgent": names.chance.random() < 0.3,
        "results": [
            {
                "session_id": names.session,
                "intent": {
                    "intent_kind": "recalculate_authority",
                    "intent_key": names.own,
                    "target_cu_id": "cu-shared",
                    "as_of_sequence": 3,
                    "cu_authority": 0.5,
                    "inputs": {
                        "count": 1,
                        "digest": "0" * 64,
                        "excerpt": [
                            {
                                "parent_node_id": "claim-shared",
                                "parent_version": "1",
                                "edge_essentiality": "core",
                                "captured_at_authority": 0.75,
                            }
                        ],
                    },
                },
            }
        ],
        "traceparents": [["00-" + "a" * 32 + "-" + "b" * 16 + "-01"]],
    },
)
policy = _handed_in(
    "retry-policy",
    lambda _: {"queue": BINDING_QUEUE, "policy": {"attempts": 3, "elapsed_ms_max": None}},
)
reports = _handed_in(
    "work",
    lambda names: {
        "queue": BINDING_QUEUE,
        "urgent": names.chance.random() < 0.3,
        "reports": [
            {"report_kind": "transition_due", "request_id": names.own},
            failed(names.own, names.own[:64]).model_dump(mode="json"),
            snoozed(names.own, names.own[:64], 1000).model_dump(mode="json"),
            lost(names.own, names.own[:64], 1).model_dump(mode="json"),
            {
                "report_kind": "binding_evaluated",
                "request_id": names.own,
                "outcome": {
                    "outcome_id": names.own,
                    "source_event_id": "e",
                    "binding_id": "b",
                    "target_kind": "corpus_document_membership",
                    "outcome_state": "succeeded",
                    "outcome_target_ref": "t",
                    "outcome_reason_code": "binding_fired",
                },
                "evaluated_on": {
                    "binding": "in_force",
                    "binding_generation_id": "1",
                    "artifact_ref": "a",
                    "artifact_version": 1,
                    "artifact_digest": "a" * 64,
                    "standing": "absent",
                    "target_ref": "t",
                },
                "particulars": {
                    "disposition": "granted",
                    "case_metadata": {"assigned_judge": "J"},
                    "related_filing": {
                        "relationship_type": "rules_on",
                        "target_artifact_ref": "b",
                        "identity_confidence": 0.9,
                        "evidence": "number",
                    },
                    "stretches": [{"offset": 0, "length": 7}],
                },
            },
            {"report_kind": "binding_suspended", "request_id": names.own},
            {
                "report_kind": "capacity_rejected",
                "request_id": names.own,
                "capacity_signal_at_rejection": {
                    "ec_capacity_lease_state": "full",
                    "queue_depth": 1,
                    "inflight_operations": 1,
                },
            },
        ],
    },
)
chain_audit = _handed_in(
    "crons/chain-audit",
    lambda _: {
        "ec_sequence_number": 1,
        "row_hash": "ab" * 32,
        "receipt_sequence": 1,
        "receipt_hash": "cd" * 32,
    },
)
retention = _handed_in("crons/retention-sweep", lambda _: {})
