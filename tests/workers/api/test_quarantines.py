"""A damaged range of the log over HTTP: who reads it is told, and an operator lifts it (§17.5)."""

from typing import Any

import pytest

from kernel.ledger import schema
from kernel.verify import verify
from tests.workers.api.door import Door, error_of, source
from workers.client.typed.gateway_state import read_state
from workers.views.attention_rules import line_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§17.5")]

BEGINNING = {
    "ec_sequence_number": 0,
    "row_hash": "0" * 64,
    "receipt_sequence": 0,
    "receipt_hash": "0" * 64,
}
GROUNDS = {"reason": "the row was put back from a backup", "authority": "ada"}


def row_at(door: Door, sequence: int) -> Any:
    with door.ledger.view() as view:
        return view.log_row_at(sequence)


def put(door: Door, sequence: int, content: bytes) -> None:
    with door.ledger.store.transaction() as tables:
        tables.update(schema.kernel_event_log, (sequence,), {"row_bytes": content})


async def quarantined(door: Door, sequence: int) -> dict[str, Any]:
    """Damage a row, have it audited as a worker does, and return the quarantine."""
    put(door, sequence, row_at(door, sequence)["row_bytes"] + b" ")
    audited = (await door.reporter("crons/chain-audit", BEGINNING)).json()
    assert audited["findings"] == 1
    [quarantine] = (await door.http.get("/v1/quarantines")).json()["quarantines"]
    assert quarantine["quarantine_id"] == audited["receipt_id"]
    return dict(quarantine)


async def written(door: Door) -> None:
    await door.declare()
    for number in range(4):
        [result] = await door.operate(source(f"source-{number}"))
        assert "rejection" not in result, result


async def state_of(door: Door) -> list[str]:
    async with door.client() as client:
        return [line_of(item) for item in (await read_state(client))["attention"]]


async def test_readers_are_told_and_new_work_goes_on(door: Door):
    await written(door)
    operation_id = row_at(door, 2)["operation_id"]
    assert (await door.http.get("/v1/quarantines")).json() == {"quarantines": []}
    quarantine = await quarantined(door, 2)
    assert quarantine["ranges"] == [{"first_sequence": "2", "last_sequence": "2"}]
    assert "bytes_changed" in quarantine["finding"]
    shown = (await door.http.get(f"/v1/operations/{operation_id}")).json()
    assert shown["row"]["quarantined"] is True
    listed = (await door.http.get("/v1/audit/operations")).json()["operations"]
    marks = [entry["ec_sequence_number"] for entry in listed if entry.get("quarantined")]
    assert marks == ["2"]
    log = (await door.http.get("/v1/log")).json()["rows"]
    assert [row["ec_sequence_number"] for row in log if row.get("quarantined")] == ["2"]
    params = {"record_id": operation_id}
    explained = (await door.http.get("/v1/explain", params=params)).json()
    assert explained["provenance"]["steps"][0]["says"]["quarantined"] is True
    [result] = await door.operate(source("source-later"))
    assert "rejection" not in result
    again = (await door.reporter("crons/chain-audit", BEGINNING)).json()
    assert again == {"findings": 0, "receipt_id": None}, "it is known, and the audit goes on"


async def test_health_is_degraded_and_says_what_to_do_while_it_stands(door: Door):
    await written(door)
    stored = row_at(door, 2)["row_bytes"]
    quarantine = await quarantined(door, 2)
    ready = await door.http.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert ready.json()["problems"].keys() == {"quarantine"}
    [sentence] = [line for line in await state_of(door) if "row 2" in line]
    assert sentence.endswith("`rotulus quarantine list`")
    put(door, 2, stored)
    await door.send(f"/v1/quarantines/{quarantine['quarantine_id']}/lift", GROUNDS)
    assert (await door.http.get("/readyz")).json()["status"] == "ready"
    assert not [line for line in await state_of(door) if "quarantine" in line]


async def test_nothing_is_computed_from_it(door: Door):
    await written(door)
    operation_id = row_at(door, 2)["operation_id"]
    await quarantined(door, 2)
    refused = [
        await door.send("/v1/audit/replay", {"operation_id": operation_id}),
        await door.send("/v1/audit/replay", {"from_sequence": 1, "to_sequence": 3}),
        await door.send("/v1/rollbacks", {"tier": 1, "operation_id": operation_id}),
        await door.http.get("/v1/tree/inclusion/2"),
        await door.http.get(f"/v1/audit/rollback-preview/{operation_id}"),
    ]
    for answer in refused:
        details = error_of(answer, 409, "range_quarantined")["details"]
        assert (details["first_sequence"], details["last_sequence"]) == ("2", "2")
    totals = (await door.http.get("/v1/audit/costs/totals")).json()
    assert totals["left_out"] == 1
    assert (await door.http.get("/v1/tree/inclusion/3")).status_code == 200


async def test_it_is_lifted_by_an_operation_with_a_reason(door: Door):
    await written(door)
    operation_id = row_at(door, 2)["operation_id"]
    stored = row_at(door, 2)["row_bytes"]
    quarantine_id = (await quarantined(door, 2))["quarantine_id"]
    path = f"/v1/quarantines/{quarantine_id}/lift"
    for reason in ("", "  "):
        error_of(await door.send(path, GROUNDS | {"reason": reason}), 422, "INVALID_REQUEST")
    error_of(await door.send(path, {"authority": "ada"}), 422, "INVALID_REQUEST")
    error_of(await door.send("/v1/quarantines/nobody/lift", GROUNDS), 404, "quarantine_unknown")
    put(door, 2, stored)
    for changed in (True, False):
        assert (await door.send(path, GROUNDS)).json() == {"changed": changed}
    page = (
        await door.http.get("/v1/audit/operations", params={"semantic_intent": "quarantine_lift"})
    ).json()
    [entry] = page["operations"]
    shown = (await door.http.get(f"/v1/operations/{entry['operation_id']}")).json()
    assert shown["envelope"]["target_refs"] == [f"quarantine:{quarantine_id}"]
    [decided] = shown["receipts"]
    assert (decided["decided_by"], decided["reason"]) == ("ada", GROUNDS["reason"])
    answer = await door.send("/v1/audit/replay", {"operation_id": operation_id})
    assert answer.json()["reproduced"] == 1
    with door.ledger.view() as view:
        assert verify(view).findings == ()


async def test_what_is_about_no_row_turns_health_red(door: Door):
    await written(door)
    with door.ledger.store.transaction() as tables:
        tables.update(schema.chain_head, ("main",), {"receipt_hash": "1" * 64})
    await door.reporter("crons/chain-audit", BEGINNING)
    ready = await door.http.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
    assert "chain" in ready.json()["problems"]
