"""Worked example 5 (§21.5): an epoch with a file and a share link, undone as far as it goes."""

import pytest

from kernel.ledger import schema
from kernel.rollback.confirmation import Confirmable, Confirmations
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_epoch, rollback_operation
from kernel.rollback.plan import plan_epoch, plan_operation
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    accept,
    create,
    effect,
    envelope,
    everything,
    findings,
    memory_ledger,
)
from tests.kernel.every import HASH, own, states

KEYS = Confirmations({"user": b"u" * 32})
LINK = {
    "recipient_email_hash": HASH,
    "shared_corpus_view_id": "view",
    "share_token_policy_id": "policy",
}


def state(ledger):
    whole_state = everything(ledger)
    return {str(table.name): whole_state[table.name] for table in schema.STATE_TABLES}


@pytest.mark.spec("§21.5", "INV-A-ROLLBACK-1", "§5.6")
def test_worked_example_five_an_epoch_with_a_file_and_a_share_link():
    """The share link was a mistake, and the epoch goes back as far as reality allows.

    OP-1 materialized a document, OP-2 assigned it a topic, OP-3 granted a share link, OP-4
    annotated it. Tier 1 refuses OP-1 and OP-3. Tier 2 takes back the annotation, the topic and the
    index entry, and names three things that persist outside.
    """
    ledger = memory_ledger()
    accept(ledger, create("n", "Note"), create("topic", "Topic"))
    before = state(ledger)
    accept(ledger, states("epoch_open", "epoch_opened", epoch_id="E-1"))
    op_1 = envelope(
        "document_materialize",
        [
            effect("materialize", "mat", materialized_path="a/b.pdf", content_hash=HASH),
            effect("materialization_emit", "emit", materialized_path="a/b.pdf", content_hash=HASH),
            effect("index_update", "mat", index_name="i", entry={}),
        ],
    )
    op_2 = envelope(
        "topic_assignment_write",
        [
            effect("topic_assignment_write", "assigned", topic_id="topic", node_id="n"),
            effect("index_update", "assigned", index_name="topics", entry={}),
        ],
    )
    op_3 = own("share_link_grant", "link", **LINK)
    op_4 = envelope("annotate", [effect("node_write", "n", note="by the host")])
    accept(
        ledger, *(operation_id | {"epoch_id": "E-1"} for operation_id in (op_1, op_2, op_3, op_4))
    )
    accept(ledger, states("epoch_close", "epoch_closed", epoch_id="E-1"))
    for document in (op_1, op_3):
        with ledger.transaction() as transaction, pytest.raises(RollbackRefused) as refused:
            rollback_operation(Kernel(), transaction, document["operation_id"])
        assert refused.value.code == "tier_1_requires_all_fully_reversible"
    with ledger.view() as view:
        plan = plan_epoch(view, "E-1")
        for document in (op_2, op_4):
            assert plan_operation(view, document["operation_id"]).tier == 1
    order = [step.operation_id for step in plan.steps]
    assert order == [operation["operation_id"] for operation in (op_4, op_3, op_2, op_1)]
    what = Confirmable(2, "E-1", plan.digest)
    now_us = ledger.host.now_us()
    token = KEYS.issue("user", what, confirmation_id="t-21-5", now_us=now_us)
    with ledger.transaction() as transaction:
        done = rollback_epoch(
            Kernel(), transaction, "E-1", confirmations=KEYS, user_confirmation_token=token
        )
    after = state(ledger)
    kept = {"materializations", "share_links"}
    assert {name for name in after if after[name] != before[name]} == kept
    with ledger.view() as view:
        tier_2, persisting = view.receipts_of(done.submission.operation_id)
    assert persisting["receipt_kind"] == "rollback_partial_external_effect_persists"
    assert len(persisting["descriptors"]) == 3
    assert tier_2["epoch_id"] == "E-1"
    assert "t-21-5" in tier_2["user_confirmation_token"]
    assert tier_2["compensations_applied"] == []
    assert sorted(
        stated_effect["effect_kind"] for stated_effect in tier_2["partial_external_effects_persist"]
    ) == [
        "materialization_emit",
        "materialize",
        "share_link_grant",
    ]
    accept(ledger, own("share_link_revoke", "link", revocation_reason="a mistake"))
    with ledger.view() as view:
        assert view.record(schema.share_links, "link")["state"] == "revoked"
    assert findings(ledger) == ()
