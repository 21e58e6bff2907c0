"""Legal requests of every route: what sessions grow from, and what hostile requests begin as.

A request follows from a seed and a number alone, whatever was answered before, so one request can
be looked at without its run. Requests that have to succeed keep to names and sessions of their own
(`legal`), because a hostile one may lock, undo and seal what it finds.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from tests.extraction_steps import extraction_step
from tests.kernel.build import create, op_id
from tests.kernel.every import every_kind
from tests.system.gateways import ONTOLOGY

TOKEN: Final = "fuzz-" + "0" * 16
HYPOTHESES: Final = tuple(f"h{number:04d}" for number in range(1000))
SHARED: Final = tuple(str(UUID(int=number, version=4)) for number in range(1, 9))
"""Sessions that hostile requests know, half of them at each gateway or thereabouts."""

LEGAL: Final = tuple(str(UUID(int=number, version=4)) for number in range(11, 19))
"""Sessions that they do not know."""

QUEUES: Final = ("authority-recompute", BINDING_QUEUE, EXTRACTION_QUEUE)
TEXT: Final = "MOTION to dismiss for failure to state a claim. " * 4
LEGAL_PREFIX: Final = "legal-"
OK: Final = frozenset({200})


@dataclass(frozen=True, slots=True)
class LegalRequest:
    """A request, before anything is made of it."""

    route: str
    method: str
    path: str
    body: Any = None
    """What is sent as JSON; None for none."""

    headers: Mapping[str, str] = field(default_factory=dict)
    statuses: frozenset[int] = OK
    """What a request whose success depends on nothing is answered with; empty: whatever it is."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a request uses."""

    own: str
    """In everything that is new; no other request has it."""

    session: str
    chance: Random

    def new_session(self) -> str:
        """Return the id of a session that nobody has declared."""
        return str(UUID(int=self.chance.getrandbits(128), version=4))


Build = Callable[[Names], LegalRequest]
ANY: Final = frozenset[int]()


def _post(
    route: str, path: str, body: Any, statuses: frozenset[int] = ANY, **options: Any
) -> LegalRequest:
    return LegalRequest(route, "POST", path, body, statuses=statuses, **options)


def _get(route: str, path: str, statuses: frozenset[int] = OK) -> LegalRequest:
    return LegalRequest(route, "GET", path, statuses=statuses)


# Belief sessions


def declare(names: Names) -> LegalRequest:
    body = {
        "session_id": names.new_session(),
        "ontology": ONTOLOGY,
        "hypotheses": list(HYPOTHESES[:20]),
        "metadata": {"own": names.own, "list": [1, 2.5, None]},
        "stability_window": 1,
        "allow_force": True,
    }
    return _post("declare", "/v1/sessions", body, frozenset({201}))


def declare_shared(session: str) -> LegalRequest:
    """Declare a session that later requests go to."""
    body = {"session_id": session, "ontology": ONTOLOGY, "hypotheses": list(HYPOTHESES)}
    return _post("declare", "/v1/sessions", body, frozenset({201}))


def _verb(verb: str, body: Callable[[Names], Any], statuses: frozenset[int] = ANY) -> Build:
    def build(names: Names) -> LegalRequest:
        path = f"/v1/sessions/{names.session}/{verb.replace('OWN', names.own)}"
        return _post(verb, path, body(names), statuses)

    return build


eliminate = _verb(
    "eliminate",
    lambda names: {
        "source_id": "adapter://fuzz",
        "observation_id": names.own,
        "eliminated": [names.chance.choice(HYPOTHESES[1:])],
        "justification": {"why": [names.own, {"score": 0.5}]},
    },
    OK,
)
obligation = _verb(
    "obligations", lambda names: {"obligation_id": names.own, "min_total_eliminations": 2}
)
leave = _verb("obligations/OWN/exit", lambda names: {"context": {"c": [names.own]}})
conclude = _verb("conclusions", lambda names: {"conclusion_id": names.own, "context": {"c": 1}})
terminate = _verb("terminate", lambda names: {"context": {"force": False, "c": names.own}})


# Operations


def intents(own: str, corpus: str) -> list[dict[str, Any]]:
    """Return an intent of each kind that a producer has, which hang together."""
    source, understanding, claim = f"source-{own}", f"cu-{own}", f"claim-{own}"
    span = {"source_ref": source, "offset": 0, "length": 20}
    listed: list[dict[str, Any]] = [
        {
            "intent_kind": "create_source",
            "node_id": source,
            "content_kind": "motion",
            "text": TEXT,
            "metadata": {"from": "clerk", "more": {"a": [1, None]}},
            "prompt_injection_risk_flags": ["flag"],
        },
        {
            "intent_kind": "synthesize_cu",
            "node_id": understanding,
            "title": "What was moved",
            "source_spans": [span],
        },
        {
            "intent_kind": "create_claim",
            "node_id": claim,
            "span": span,
            "text": TEXT[:20],
            "authority": 0.75,
            "understanding_id": understanding,
            "essentiality": "core",
            "recompute_priority": "background_normal",
        },
        {
            "intent_kind": "link_input",
            "source_node_id": source,
            "target_node_id": understanding,
            "essentiality": "supporting",
        },
        {"intent_kind": "field_adapt", "node_id": claim, "fields": {"note": {"seen": [True]}}},
    ]
    with_corpus = {"create_source", "synthesize_cu", "create_claim"}
    return [
        intent
        | {"intent_key": f"{own}-{place}"}
        | ({"corpus_id": corpus} if intent["intent_kind"] in with_corpus else {})
        for place, intent in enumerate(listed)
    ]


operate = _verb("operations", lambda names: {"intents": intents(names.own, "fuzzed")})
operate_legal = _verb("operations", lambda names: {"intents": intents(names.own, "legal")}, OK)


def stream(names: Names) -> LegalRequest:
    """Send a stream of one line."""
    line = names.chance.choice(intents(names.own, "fuzzed"))
    return _post("operations:bulk", f"/v1/sessions/{names.session}/operations:bulk", line)


def stream_legal(names: Names) -> LegalRequest:
    """Send a stream of one line that depends on nothing."""
    line = intents(names.own, "legal")[0]
    return _post("operations:bulk", f"/v1/sessions/{names.session}/operations:bulk", line, OK)


@cache
def course() -> tuple[str, ...]:
    """Return the envelopes that name every kind and speak every verb, as JSON."""
    return tuple(json.dumps(document) for document in every_kind())


def envelope_of(names: Names) -> dict[str, Any]:
    """Return an envelope of the course under a name of its own."""
    document: dict[str, Any] = json.loads(names.chance.choice(course()))
    document["operation_id"] = op_id(names.own)
    document["idempotency_key"] = f"key-{names.own}"
    return document


def legal_envelope(names: Names) -> dict[str, Any]:
    """Return an envelope that is accepted on any record."""
    named = {"operation_id": op_id(names.own), "idempotency_key": f"key-{names.own}"}
    return create(f"note-{names.own}", "Note", title=names.own, envelope=named)


submit = _verb("envelopes", envelope_of)
submit_legal = _verb("envelopes", legal_envelope, OK)


def course_step(place: int) -> LegalRequest:
    """Return the submission of a step of the course as it is, for hostile requests to find."""
    return _post("envelopes", f"/v1/sessions/{SHARED[0]}/envelopes", json.loads(course()[place]))


simulate_intent = _verb(
    "simulations",
    lambda names: {
        "intent": names.chance.choice(intents(names.own, "fuzzed")),
        "retention": "durable",
        "simulation_key": names.own,
        "policy": {
            "policy_id": "p",
            "forbidden_external_effects": ["token_refresh"],
            "allowed_external_effects": ["ephemeral_local_llm_call"],
            "on_violation": "block_with_receipt",
        },
    },
)
simulate_envelope = _verb("simulations", lambda names: {"envelope": envelope_of(names)})
simulate_legal = _verb("simulations", lambda names: {"envelope": legal_envelope(names)}, OK)
synthesize = _verb(
    "syntheses",
    lambda names: {
        "intent_kind": "synthesize_cu_by_model",
        "intent_key": names.own,
        "node_id": f"model-{names.own}",
        "corpus_id": "fuzzed",
        "query": "denied",
        "source_refs": ["source-shared"],
        "may_search": names.chance.random() < 0.5,
    },
)


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
        return _post("requests", f"/v1/queues/{queue}/requests", {"requests": requests}, statuses)

    return build


def _queue(verb: str, body: Callable[[Names], Any]) -> Build:
    def build(names: Names) -> LegalRequest:
        path = f"/v1/queues/{names.chance.choice(QUEUES)}/{verb.replace('OWN', names.own)}"
        return _post(f"queues/{verb}", path, body(names))

    return build


enqueue, enqueue_bulk = _work(1, ANY), _work(40, ANY)
enqueue_legal, enqueue_bulk_legal = _work(1, OK), _work(40, OK)
outcomes = _queue("outcomes", lambda names: {"request_ids": [names.own], "wait_s": 0.01})
cancel = _queue("requests/OWN/cancel", lambda _: {"reason": "why"})
pause = _queue("pause", lambda _: {"priority": "critical"})
resume = _queue("resume", lambda _: {"priority": "critical"})
requeue = _queue("requeue", lambda names: {"request_ids": [names.own]})
dismiss = _queue("dismiss", lambda names: {"request_ids": [names.own], "reason": "settled"})


# Undoing, replaying, authorities


def _fixed(route: str, path: str, body: Callable[[Names], Any]) -> Build:
    return lambda names: _post(route, path, body(names))


roll_back = _fixed(
    "rollbacks",
    "/v1/rollbacks",
    lambda names: names.chance.choice(
        [
            {"tier": 1, "operation_id": op_id(names.own)},
            {"tier": 2, "epoch_id": "epoch", "user_confirmation_token": names.own},
        ]
    ),
)
roll_back_dry = _fixed(
    "rollbacks/dry-run",
    "/v1/rollbacks/dry-run",
    lambda names: names.chance.choice(
        [{"tier": 1, "operation_id": op_id(names.own)}, {"tier": 2, "epoch_id": "epoch"}]
    ),
)
replay = _fixed(
    "audit/replay",
    "/v1/audit/replay",
    lambda names: {
        "from_sequence": 1,
        "to_sequence": 4,
        "strategy": "record_only",
        "audit_context": {"caller_kind": "other", "caller_attribution": names.own},
    },
)
tick = _fixed("authority/tick", "/v1/authority/tick", lambda _: {"threshold_hours": 100_000})
backfill = _fixed("authority/backfill", "/v1/authority/backfill", lambda _: None)
recompute = _fixed(
    "authority/recompute",
    "/v1/authority/cu-shared/recompute",
    lambda names: {"trigger_source_id": names.own, "priority": "background_normal"},
)


# What workers hand in


def _handed_in(path: str, body: Callable[[Names], Any]) -> Build:
    def build(names: Names) -> LegalRequest:
        tokens = [f"Bearer {TOKEN}"] * 4 + ["Bearer wrong", TOKEN, "", "Basic eDp5"]
        headers = {"Authorization": names.chance.choice(tokens)}
        return _post(f"internal/{path}", f"/internal/{path}", body(names), headers=headers)

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
dead_letter = _handed_in(
    "dead-letters", lambda names: {"item_key": f"item-{names.own}", "error_signature": "e"}
)
reports = _handed_in(
    "work",
    lambda names: {
        "queue": BINDING_QUEUE,
        "urgent": names.chance.random() < 0.3,
        "reports": [
            {"report_kind": "transition_due", "request_id": names.own},
            {"report_kind": "given_up", "request_id": names.own, "error_signature": "e"},
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


# Reading

_READ_ALWAYS: Final = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/",
    "/snapshot.json",
    "/openapi.json",
    "/v1/log?after=0&limit=5",
    "/v1/shards",
    "/v1/queues",
    "/v1/nodes/source-shared",
    "/v1/audit/operations?limit=5&semantic_intent=create&since=2026-01-01T00:00:00Z",
    "/v1/audit/operations?entity=cu-shared&from_sequence=1&to_sequence=900&declared=true&limit=3",
    "/v1/audit/authority/cu-shared",
    "/v1/audit/adjudications?state=open&after=0&limit=5",
    "/v1/audit/migration-reviews?state=settled&limit=5",
    "/v1/audit/costs?limit=5&since=2026-01-01T00:00:00Z&until=2027-01-01T00:00:00Z",
    "/v1/audit/costs/totals?limit=50",
    "/v1/authority/backfill",
    "/v1/queues/binding-evaluation/dead-letters?limit=5&after=&error_signature=e",
    *(f"/v1/sessions/{session}?survivors=3" for session in SHARED),
    *(f"/v1/sessions/{session}/audit?limit=5" for session in SHARED),
)
_READ_PERHAPS: Final = (
    "/v1/operations/op-OWN",
    "/v1/audit/ancestors/op-OWN?after=0&limit=5",
    "/v1/audit/rollback-preview/op-OWN",
    "/v1/queues/binding-evaluation/requests/OWN",
    "/v1/queues/binding-evaluation/requests/OWN/outcome?wait_s=0.01",
    "/v1/sessions/SESSION/audit?since_event_id=OWN",
    "/static/v/page.css",
    "/internal/crons/none",
)
_READ_MISSING: Final = frozenset({"/v1/audit/migration-reviews?state=settled&limit=5", "/readyz"})
"""What may be answered otherwise than with 200."""


def read(names: Names) -> LegalRequest:
    """Read something that is there."""
    path = names.chance.choice([path for path in _READ_ALWAYS if path not in _READ_MISSING])
    return _get(path.partition("?")[0], path)


def read_perhaps(names: Names) -> LegalRequest:
    """Read something that may not be there."""
    path = names.chance.choice(_READ_PERHAPS + _READ_ALWAYS)
    route = path.partition("?")[0]
    return _get(route, path.replace("OWN", names.own).replace("SESSION", names.session), ANY)


HOSTILE_BASES: Final[Mapping[Build, float]] = MappingProxyType(
    {
        **dict.fromkeys((submit,), 6.0),
        **dict.fromkeys((operate,), 4.0),
        **dict.fromkeys((stream,), 2.0),
        **dict.fromkeys((simulate_envelope,), 3.0),
        **dict.fromkeys((simulate_intent, eliminate, declare, read_perhaps), 2.0),
        **dict.fromkeys((enqueue, recomputed, reports), 2.0),
        **dict.fromkeys((obligation, leave, conclude, terminate, enqueue_bulk, outcomes), 1.0),
        **dict.fromkeys(
            (cancel, pause, resume, requeue, dismiss, roll_back, roll_back_dry, replay), 1.0
        ),
        **dict.fromkeys((recompute, dead_letter, retention, synthesize), 1.0),
        **dict.fromkeys((tick, backfill), 0.3),
        # It reads the whole record.
        **dict.fromkeys((chain_audit,), 0.03),
    }
)
"""What hostile requests begin as, and how often."""

MUST_SUCCEED: Final[tuple[Build, ...]] = (
    *[operate_legal, stream_legal, submit_legal, eliminate, read] * 3,
    *(declare, simulate_legal, enqueue_legal, enqueue_bulk_legal),
)


def legal_request(seed: int, number: int) -> LegalRequest:
    """Return a request that has to succeed."""
    chance = Random(f"legal {seed} {number}")
    names = Names(f"{LEGAL_PREFIX}{seed}-{number}", chance.choice(LEGAL), chance)
    return chance.choice(MUST_SUCCEED)(names)


def shared_records() -> list[LegalRequest]:
    """Return what is asked before anything hostile: sessions, nodes and a step of each kind."""
    requests = [declare_shared(session) for session in (*SHARED, *LEGAL)]
    body = {"intents": intents("shared", "fuzzed")}
    requests.append(_post("operations", f"/v1/sessions/{SHARED[1]}/operations", body, OK))
    return [*requests, *(course_step(place) for place in range(len(course())))]
