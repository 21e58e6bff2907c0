"""A body that each writing route can read, and who sends it."""

from typing import Any

from tests.kernel.build import adapt
from tests.workers.api.door import ONTOLOGY, SESSION, TOKEN, source, understanding

SENDER = {"Authorization": f"Bearer {TOKEN}"}
ENVELOPES = f"/v1/sessions/{SESSION}/envelopes"
KEY = "the-name-of-this-asking"
"""Each body that is posted has another, or it would be answered as the first one was."""

ENVELOPE = adapt("u-1", note={"a": [1]}) | {"operation_id": KEY, "idempotency_key": KEY}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/sessions": {
        "ontology": ONTOLOGY,
        "hypotheses": ["a", "b"],
        "metadata": {"m": 1},
        "stability_window": 1,
    },
    f"/v1/sessions/{SESSION}/eliminate": {
        "source_id": "s",
        "observation_id": KEY,
        "eliminated": ["a"],
        "justification": {"j": 1},
    },
    f"/v1/sessions/{SESSION}/obligations": {"obligation_id": KEY, "min_total_eliminations": 2},
    f"/v1/sessions/{SESSION}/obligations/{KEY}/exit": {"context": {"c": 1}},
    f"/v1/sessions/{SESSION}/conclusions": {"conclusion_id": KEY, "context": {"c": 1}},
    f"/v1/sessions/{SESSION}/terminate": {"context": {"c": 1}},
    f"/v1/sessions/{SESSION}/operations": {
        "intents": [
            source(KEY, metadata={"m": {"n": 1}}),
            understanding(f"u:{KEY}", "s-1"),
            {
                "intent_kind": "field_adapt",
                "intent_key": KEY,
                "node_id": "u-1",
                "fields": {"note": {"a": [1]}},
            },
        ]
    },
    f"/v1/sessions/{SESSION}/syntheses": {
        "intent_kind": "synthesize_cu_by_model",
        "intent_key": KEY,
        "node_id": KEY,
        "corpus_id": "corpus:test",
        "query": "denied",
        "source_refs": ["s-1"],
    },
    f"/v1/sessions/{SESSION}/simulations": {"envelope": ENVELOPE},
    ENVELOPES: ENVELOPE,
    "/v1/rollbacks": {"tier": 1, "operation_id": "op"},
    "/v1/rollbacks/dry-run": {"tier": 2, "epoch_id": "e"},
    "/v1/audit/replay": {"from_sequence": 1, "to_sequence": 4},
    "/v1/queues/binding-evaluation/requests": {
        "requests": [
            {
                "request_key": KEY,
                "content": {"binding_id": "b", "source_event_id": "e", "more": {"m": [1]}},
                "priority": None,
                "delay_s": 1,
            }
        ]
    },
    "/v1/queues/binding-evaluation/outcomes": {"request_ids": [KEY], "wait_s": 0.01},
    "/v1/queues/binding-evaluation/requests/nobody/cancel": {"reason": "why"},
    "/v1/queues/binding-evaluation/pause": {"priority": "critical"},
    "/v1/queues/binding-evaluation/resume": {"priority": "critical"},
    "/v1/queues/binding-evaluation/requeue": {"request_ids": [KEY]},
    "/internal/recomputed": {
        "results": [
            {
                "session_id": SESSION,
                "intent": {
                    "intent_kind": "recalculate_authority",
                    "intent_key": KEY,
                    "target_cu_id": "u-1",
                    "as_of_sequence": 3,
                    "cu_authority": 0.5,
                    "inputs": {"count": 0, "digest": "0" * 64, "excerpt": []},
                },
            }
        ]
    },
    "/internal/retry-policy": {"queue": "binding-evaluation", "policy": {"attempts": 3}},
}
