"""Legal requests about thoughts, rounds, bindings, reviews, erasures, runs and the log."""

from dataclasses import replace

from tests.fuzz.legal_request import (
    ANY,
    LEGAL_THOUGHTS,
    OK,
    THOUGHTS,
    Build,
    LegalRequest,
    Names,
    fixed,
    post,
)
from tests.signed_log import handed_over, log_key

_TYPES = ("plan", "analysis", "decision", "reflection")
_GROUNDS = {"reason": "asked for by the person", "authority": "privacy office"}


# Thoughts and rounds


def start_thoughts(session: str) -> LegalRequest:
    """Begin a session of thoughts that later requests go to."""
    return post("thoughts/start", f"/v1/thoughts/{session}/start", {"task_id": "fuzzed"}, OK)


def start_own_thoughts(names: Names) -> LegalRequest:
    """Begin a session of thoughts that nobody else knows."""
    return start_thoughts(names.new_session())


def _thought(sessions: tuple[str, ...], statuses: frozenset[int]) -> Build:
    def build(names: Names) -> LegalRequest:
        body = {
            "thought_id": f"thought-{names.own}",
            "thought_type": names.chance.choice(_TYPES),
            "content": f"The motion is denied, says {names.own}.",
        }
        path = f"/v1/thoughts/{names.chance.choice(sessions)}"
        return post("thoughts", path, body, statuses)

    return build


think, think_legal = _thought(THOUGHTS, ANY), _thought(LEGAL_THOUGHTS, OK)


def _thoughts_step(name: str) -> Build:
    def build(names: Names) -> LegalRequest:
        path = f"/v1/thoughts/{names.chance.choice(THOUGHTS)}/{name}"
        return post(f"thoughts/{name}", path, None)

    return build


verify_thoughts = _thoughts_step("verify")
finalize_thoughts = _thoughts_step("finalize")
end_thoughts = _thoughts_step("end")
open_round = fixed("rounds/open", "/v1/rounds/open", lambda _: None)
seal_round = fixed("rounds/seal", "/v1/rounds/seal", lambda _: None)


# Erasures and holds

erase_thought = fixed(
    "erasures",
    "/v1/erasures",
    lambda names: (
        {
            "payload_kind": "thought",
            "payload_id": f"thought-{names.own}",
            "session_id": names.chance.choice(THOUGHTS),
        }
        | _GROUNDS
    ),
)
erase_answer = fixed(
    "erasures",
    "/v1/erasures",
    lambda names: {"payload_kind": "model_answer", "payload_id": f"op-{names.own}:0"} | _GROUNDS,
)
set_hold = fixed(
    "legal-holds",
    "/v1/legal-holds",
    lambda names: (
        {
            "hold_id": f"hold-{names.own}",
            "subject_kind": "thought_session",
            "subject_id": names.chance.choice(THOUGHTS),
        }
        | _GROUNDS
    ),
)
lift_quarantine = fixed(
    "quarantines/lift", "/v1/quarantines/receipt:OWN/lift", lambda _: dict(_GROUNDS)
)
report_damage = fixed(
    "quarantines",
    "/v1/quarantines",
    lambda names: {
        "code": "record_damaged",
        "table": "nodes",
        "key": f"node-{names.own}",
        "message": "a column says something else",
    },
)
accept_head = fixed("ledger/accept-head", "/v1/ledger/accept-head", lambda _: dict(_GROUNDS))
arrive = fixed(
    "sources",
    "/v1/sources/shop",
    lambda names: {"specversion": "1.0", "id": names.own, "data": {"text": ["a", 1.5, None]}},
)
lift_hold = fixed("legal-holds/lift", "/v1/legal-holds/hold-OWN/lift", lambda _: dict(_GROUNDS))


# Access

create_key = fixed(
    "access/keys",
    "/v1/access/keys",
    lambda names: {
        "principal": f"service:s-{names.own}",
        "roles": [{"role": "producer", "scope": "queue:binding-evaluation"}],
        "days": 1,
    },
)
rotate_key = fixed("access/keys/rotate", "/v1/access/keys/OWN/rotate", lambda _: {"days": 1})
revoke_key = fixed("access/keys/revoke", "/v1/access/keys/OWN/revoke", lambda _: {"reason": "old"})
grant = fixed(
    "access/grants",
    "/v1/access/grants",
    lambda names: {"principal": f"person:p-{names.own}", "role": "auditor", "scope": "*"},
)
withdraw = fixed(
    "access/grants/withdraw",
    "/v1/access/grants/withdraw",
    lambda names: {"principal": f"person:p-{names.own}", "role": "auditor", "scope": "*"},
)


# Bindings and reviews


def change_bindings(names: Names) -> LegalRequest:
    """Create a binding, change it, disable it, enable it."""
    named = {"binding_id": f"b-{names.own}"}
    meaning = {
        "selector_list": [
            {"selector_type": "field_equals", "field_name": "content_kind", "value": "order"}
        ],
        "target_kind": "corpus_document_membership",
        "corpus_id": f"corpus-{names.own}",
        "priority": 7,
    }
    verbs: dict[str, dict[str, object]] = {
        "source_binding_create": meaning,
        "source_binding_update": {"title": "Orders"},
        "source_binding_disable": {},
        "source_binding_enable": {},
    }
    listed = [
        stated | named | {"intent_kind": kind, "intent_key": f"{names.own}-{kind}"}
        for kind, stated in verbs.items()
    ]
    return post("bindings", "/v1/bindings", {"intents": listed})


review_batch = fixed(
    "reviews/batches",
    "/v1/reviews/batches",
    lambda names: {
        "batch_review_id": f"batch-{names.own}",
        "source_batch_id": "source-batch",
        "prior_batch_review_ref": None,
        "item_operations": [
            {
                "item_membership_id": f"corpus-{names.own}|source-shared",
                "disposition": "promote",
                "target_disposition_ref": None,
            }
        ],
        "schema_version": 1,
    },
)
decide = fixed(
    "reviews/decisions",
    "/v1/reviews/decisions",
    lambda names: {
        "decision_key": names.own,
        "kind": "relationship",
        "record_id": f"r-{names.own}",
        "decision": "confirm",
        "adjudicated_by": "clerk",
        "grounds": "the docket says so",
        "normalized_label": "granted",
        "scope_targets": [f"t-{names.own}"],
    },
)
dismiss_outcome = fixed(
    "reviews/dismissals",
    "/v1/reviews/dismissals",
    lambda names: {"receipt_id": f"receipt-{names.own}", "reason": "looked at"},
)
take_item = fixed(
    "reviews/takings",
    "/v1/reviews/takings",
    lambda names: {
        "receipt_id": f"receipt-{names.own}",
        "decided_by": "clerk",
        "grounds": "read both",
        "supplied": {"source_refs": [f"s-{names.own}"]},
    },
)


# What operators ask, and the keys of the log

seal_run = fixed("landscape/seal", "/v1/landscape/runs/run-OWN/seal", lambda _: None)
archive = fixed("archive/runs", "/v1/archive/runs", lambda _: {"older_than_days": 36_000})
put_back = fixed(
    "shards/put-back",
    "/v1/shards/put-back",
    lambda _: {"shard": 1, "offset": "000000000000001-00000000000000000001"},
)
resume_implications = fixed(
    "implications/resume", "/v1/implications/halts/halt-OWN/resume", lambda _: {"reason": "mended"}
)
record_handover = fixed(
    "checkpoint/handovers",
    "/v1/checkpoint/handovers",
    # Under Ed25519 alone: two signatures of ML-DSA over the same are not the same.
    lambda _: {"handover": handed_over(new=(log_key(seed=b"n"),)).document},
)


def witnessed(request: LegalRequest) -> LegalRequest:
    """Return a request whose answer waits for witnesses, and proves its rows."""
    prefer = {"Prefer": "proof, durability=witnessed, wait=0"}
    return replace(request, headers={**request.headers, **prefer})
