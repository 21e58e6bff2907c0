"""Legal requests of every route: what sessions grow from, and what hostile requests begin as.

A request follows from a seed and a number alone, whatever was answered before, so one request can
be looked at without its run. Requests that have to succeed keep to names and sessions of their own
(`legal`), because a hostile one may lock, undo and seal what it finds.
"""

import json
from collections.abc import Mapping
from functools import cache
from random import Random
from types import MappingProxyType
from typing import Any, Final

from tests.fuzz import legal_records as records
from tests.fuzz import legal_requested as work
from tests.fuzz.legal_reads import read, read_perhaps
from tests.fuzz.legal_request import (
    HYPOTHESES,
    LEGAL,
    LEGAL_PREFIX,
    LEGAL_THOUGHTS,
    OK,
    SHARED,
    TEXT,
    THOUGHTS,
    Build,
    LegalRequest,
    Names,
    post,
    verb,
)
from tests.kernel.build import create, op_id
from tests.kernel.every import every_kind
from tests.system.gateways import ONTOLOGY

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
    return post("declare", "/v1/sessions", body, frozenset({201}))


def declare_shared(session: str) -> LegalRequest:
    """Declare a session that later requests go to."""
    body = {"session_id": session, "ontology": ONTOLOGY, "hypotheses": list(HYPOTHESES)}
    return post("declare", "/v1/sessions", body, frozenset({201}))


eliminate = verb(
    "eliminate",
    lambda names: {
        "source_id": "adapter://fuzz",
        "observation_id": names.own,
        "eliminated": [names.chance.choice(HYPOTHESES[1:])],
        "justification": {"why": [names.own, {"score": 0.5}]},
    },
    OK,
)
obligation = verb(
    "obligations", lambda names: {"obligation_id": names.own, "min_total_eliminations": 2}
)
leave = verb("obligations/OWN/exit", lambda names: {"context": {"c": [names.own]}})
conclude = verb("conclusions", lambda names: {"conclusion_id": names.own, "context": {"c": 1}})
succeed = verb("succeed", lambda names: {"reason": "why", "undone": [], "cause": {"c": names.own}})
terminate = verb("terminate", lambda names: {"context": {"force": False, "c": names.own}})


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


operate = verb("operations", lambda names: {"intents": intents(names.own, "fuzzed")})
operate_legal = verb("operations", lambda names: {"intents": intents(names.own, "legal")}, OK)


def stream(names: Names) -> LegalRequest:
    """Send a stream of one line."""
    line = names.chance.choice(intents(names.own, "fuzzed"))
    return post("operations:bulk", f"/v1/sessions/{names.session}/operations:bulk", line)


def stream_legal(names: Names) -> LegalRequest:
    """Send a stream of one line that depends on nothing."""
    line = intents(names.own, "legal")[0]
    return post("operations:bulk", f"/v1/sessions/{names.session}/operations:bulk", line, OK)


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


submit = verb("envelopes", envelope_of)
submit_legal = verb("envelopes", legal_envelope, OK)


def course_step(place: int) -> LegalRequest:
    """Return the submission of a step of the course as it is, for hostile requests to find."""
    return post("envelopes", f"/v1/sessions/{SHARED[0]}/envelopes", json.loads(course()[place]))


simulate_intent = verb(
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
simulate_envelope = verb("simulations", lambda names: {"envelope": envelope_of(names)})
simulate_legal = verb("simulations", lambda names: {"envelope": legal_envelope(names)}, OK)
synthesize = verb(
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


def submit_witnessed(names: Names) -> LegalRequest:
    """Submit an envelope and ask for its proof and its witnesses."""
    return records.witnessed(submit_legal(names))


HOSTILE_BASES: Final[Mapping[Build, float]] = MappingProxyType(
    {
        **dict.fromkeys((submit, read_perhaps), 6.0),
        **dict.fromkeys((operate,), 4.0),
        **dict.fromkeys((simulate_envelope,), 3.0),
        **dict.fromkeys((stream, simulate_intent, eliminate, declare), 2.0),
        **dict.fromkeys((work.enqueue, work.recomputed, work.reports), 2.0),
        **dict.fromkeys((obligation, leave, conclude, terminate, synthesize), 1.0),
        **dict.fromkeys(
            (work.enqueue_bulk, work.outcomes, work.cancel, work.pause, work.prioritize), 1.0
        ),
        **dict.fromkeys((work.resume, work.requeue, work.dismiss, work.roll_back), 1.0),
        **dict.fromkeys((work.bulk_preview, work.bulk, work.bulk_stop), 0.5),
        **dict.fromkeys((work.roll_back_dry, work.replay, work.recompute), 1.0),
        **dict.fromkeys((work.policy, work.retention), 1.0),
        **dict.fromkeys((records.think, records.change_bindings, records.review_batch), 1.0),
        **dict.fromkeys((records.start_own_thoughts, records.verify_thoughts), 0.5),
        **dict.fromkeys((records.finalize_thoughts, records.end_thoughts), 0.3),
        **dict.fromkeys((records.open_round, records.seal_round, records.seal_run), 0.3),
        **dict.fromkeys((records.erase_thought, records.erase_answer, records.set_hold), 0.5),
        **dict.fromkeys(
            (records.lift_hold, records.decide, records.dismiss_outcome, records.take_item), 0.5
        ),
        **dict.fromkeys((records.put_back, records.resume_implications), 0.3),
        **dict.fromkeys((records.lift_quarantine, records.report_damage), 0.3),
        **dict.fromkeys((records.accept_head, succeed), 0.3),
        **dict.fromkeys((records.create_key, records.grant, records.withdraw), 0.3),
        **dict.fromkeys((records.rotate_key, records.revoke_key), 0.3),
        **dict.fromkeys((records.arrive,), 1.0),
        **dict.fromkeys((records.record_handover, submit_witnessed), 0.5),
        **dict.fromkeys((work.tick, work.backfill, records.archive), 0.3),
        # It reads the whole record.
        **dict.fromkeys((work.chain_audit,), 0.03),
    }
)
"""What hostile requests begin as, and how often."""

MUST_SUCCEED: Final[tuple[Build, ...]] = (
    *[operate_legal, stream_legal, submit_legal, eliminate, read] * 3,
    *(declare, simulate_legal, work.enqueue_legal, work.enqueue_bulk_legal),
    *(read, submit_witnessed, records.think_legal, records.start_own_thoughts),
)


def legal_request(seed: int, number: int) -> LegalRequest:
    """Return a request that has to succeed."""
    chance = Random(f"legal {seed} {number}")
    names = Names(f"{LEGAL_PREFIX}{seed}-{number}", chance.choice(LEGAL), chance)
    return chance.choice(MUST_SUCCEED)(names)


def shared_records() -> list[LegalRequest]:
    """Return what is asked before anything hostile: sessions, nodes and a step of each kind."""
    requests = [declare_shared(session) for session in (*SHARED, *LEGAL)]
    requests += [records.start_thoughts(session) for session in (*THOUGHTS, *LEGAL_THOUGHTS)]
    body = {"intents": intents("shared", "fuzzed")}
    requests.append(post("operations", f"/v1/sessions/{SHARED[1]}/operations", body, OK))
    return [*requests, *(course_step(place) for place in range(len(course())))]
