"""An operator's decision is an operation that the runtime alone speaks, and writes nothing."""

import pytest

from kernel.algebra.verbs import OPERATOR_VERBS
from kernel.records.operator_decisions import queue_target
from kernel.verify import verify
from tests.kernel.build import effect, envelope, memory_ledger, receipts_of_kind, submit

STATED = {"decided_by": "ada", "reason": "an exchange"}


def decision(verb, *stated, **changes):
    receipts = [
        effect("receipt_only", **body)
        | {"receipt_subkind": "operator_decided", "effect_id": f"effect-{index}"}
        for index, body in enumerate(stated)
    ]
    return envelope(verb, receipts, **{"target_refs": [queue_target("q", "normal")], **changes})


@pytest.mark.parametrize("verb", OPERATOR_VERBS)
def test_who_decided_and_why_are_on_the_log(verb):
    ledger = memory_ledger()
    assert submit(ledger, decision(verb, STATED), submitter="orchestrator").ec_sequence_number == 1
    [receipt] = receipts_of_kind(ledger, "operator_decided")
    assert {name: receipt[name] for name in STATED} == STATED
    with ledger.view() as view:
        assert verify(view).findings == ()


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ((STATED, STATED), "operator_decision_invalid"),
        (({**STATED, "priority": "normal"},), "receipt_body_invalid"),
    ],
)
def test_what_says_something_else_is_refused(stated, code):
    refused = submit(memory_ledger(), decision("queue_pause", *stated), submitter="orchestrator")
    assert refused.rejection.reason_code == code


def test_a_caller_cannot_speak_for_an_operator():
    refused = submit(memory_ledger(), decision("payload_erase", STATED))
    assert refused.rejection.reason_code == "envelope_actor_unauthorized"
