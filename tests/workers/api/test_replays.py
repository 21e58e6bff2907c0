"""Replaying over HTTP, on a ledger file: one, many, blocked, corrupt."""

import pytest

from kernel.ledger import schema
from tests.kernel.build import create, submit_answered
from tests.workers.api.door import SESSION, Door, error_of, rows, source, understanding

pytestmark = [pytest.mark.anyio, pytest.mark.spec("INV-A-REPLAY-LLM-1", "§6.3")]


@pytest.fixture
async def door(door_on_file: Door) -> Door:
    await door_on_file.declare(SESSION, "a", "b")
    await door_on_file.operate(source("s-1"), understanding("u/1", "s-1"))
    return door_on_file


async def replay(door: Door, **body):
    return await door.http.post("/v1/audit/replay", json=body)


def audit_replays(door: Door, table):
    stored_rows = rows(door.services.ledger, table)
    return [row for row in stored_rows if row["receipt_kind"] == "audit_replay"]


async def test_an_operation_is_replayed_with_one_receipt(door: Door):
    operation_id = rows(door.services.ledger, schema.kernel_event_log)[-1]["operation_id"]
    response = await replay(door, operation_id=operation_id)
    assert response.status_code == 200, response.text
    answer = response.json()
    assert (answer["reproduced"], answer["blocked"]) == (1, 0)
    [receipt] = answer["receipts"]
    assert receipt["original_operation_id"] == operation_id
    assert (receipt["retention_class"], receipt["replay_strategy"]) == ("ephemeral", "record_only")
    [row] = audit_replays(door, schema.ephemeral_receipts)
    assert row["receipt_id"] == receipt["receipt_id"]


async def test_a_range_is_replayed_durably_for_a_deposition(door: Door):
    context = {"caller_kind": "expert_deposition_reconstruction", "caller_attribution": "expert"}
    response = await replay(door, from_sequence=1, to_sequence=3, audit_context=context)
    assert response.json()["reproduced"] == 3
    kept = audit_replays(door, schema.receipts)
    assert len(kept) == 3
    assert b'"caller_attribution":"expert"' in kept[0]["receipt_bytes"]


async def test_a_model_that_is_not_in_use_blocks(door: Door):
    document = create("n", "Note")
    submit_answered(door.services.ledger, document, b"answer")
    answer = (await replay(door, operation_id=document["operation_id"])).json()
    assert (answer["reproduced"], answer["blocked"]) == (0, 1)
    assert answer["receipts"][0]["block_reason"] == "recorded_output_unavailable"


async def test_an_operation_that_is_not_on_the_log_is_answered_so(door: Door):
    answer = (await replay(door, operation_id="nowhere")).json()
    assert answer["receipts"][0]["block_reason"] == "operation_not_replayable"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"operation_id": "x", "from_sequence": 1, "to_sequence": 2},
        {"operation_id": "x", "to_sequence": 2},
        {"from_sequence": 1},
        {"from_sequence": 2, "to_sequence": 1},
        {"from_sequence": 1, "to_sequence": 1001},
        {"operation_id": "x", "strategy": "user_initiated_re_execution"},
        {"operation_id": "x", "audit_context": {"caller_kind": "somebody"}},
        {"operation_id": ""},
    ],
)
async def test_what_is_no_replay_is_refused(door: Door, body):
    error_of(await replay(door, **body), 422, "INVALID_REQUEST")


async def test_a_record_that_gives_other_bytes_is_said_aloud_and_writing_goes_on(door: Door):
    with door.services.ledger.transaction() as transaction:
        blob_ref = transaction.log_rows()[1]["envelope_payload_blob_ref"]
        transaction.tables.update(schema.blobs, (blob_ref,), {"content": b"{}"})
    response = await replay(door, from_sequence=1, to_sequence=3)
    error_of(response, 500, "replay_differs")
    assert "record" in door.services.health.problems
    assert audit_replays(door, schema.ephemeral_receipts) == []
    await door.operate(source("s-2"))
