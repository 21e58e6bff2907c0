"""`rotulus migrate-log`: a log of version 1.5, from its file to a complete migration."""

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from tests.kernel.build import FakeHost, adapt, code_of, create, submit
from tests.kernel.lites import lite, log_of, migrated
from tests.workers.api.door import running_door
from tests.workers.cli.command import printed, rotulus
from workers.environment.data_folder import DataFolder

MADE = lite(create("n", "Note", title="t"), operation_id="made", idempotency_key="k:made")
LACKING = lite(
    create("m", "Note"),
    operation_id="lacking",
    idempotency_key="k:lacking",
    affected_subgraph_descriptor=None,
)
CHILD = lite(adapt("m", title="c"), operation_id="child", idempotency_key="k:child")

DOCUMENTS = 500
"""So many that a migration can be killed in the middle of each of its two phases."""


def written(tmp_path: Path, *documents: Any) -> str:
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_of(*documents).getvalue())
    return str(path)


def test_a_log_in_gzip_is_taken_and_one_of_another_form_is_said(tmp_path):
    content = log_of(MADE).getvalue()
    packed, array = tmp_path / "log.gz", tmp_path / "log.json"
    packed.write_bytes(gzip.compress(content, mtime=0))
    array.write_bytes(b"[" + content.strip() + b"]")
    result = rotulus("migrate-log", str(array))
    assert result.exit_code == 1
    assert "lite_envelope_invalid: line 1: a JSON array; allowed: one JSON object" in result.stderr
    assert str(array) in result.stderr
    assert printed("migrate-log", str(packed), "--json")["taken"] == 1


@pytest.mark.spec("§2.8", "K24")
def test_a_log_is_taken_migrated_and_held_until_everything_is_settled(tmp_path):
    log = written(tmp_path, MADE, LACKING, CHILD)
    output = printed("migrate-log", log, "--json", code=1)
    assert output == {
        "taken": 3,
        "on_record_before": 0,
        "migrated": 1,
        "superseded": 1,
        "settled": 0,
        "held": 1,
        "waiting": 1,
        "left": 0,
        "complete": False,
        "stopped_by": None,
    }
    [item] = printed("audit", "migration-reviews", "--json", code=0)["items"]
    assert item["receipt"]["missing_fields"] == ["affected_subgraph_descriptor"]
    shown = rotulus("audit", "migration-reviews").stdout.splitlines()[1]
    assert "lite_field_missing" in shown
    assert "lacking" in shown
    named = {"adjudicates_receipt_ids": [item["receipt"]["receipt_id"]]}
    ledger = Ledger(SqliteStore(DataFolder(tmp_path / "data").ledger_path), FakeHost().host)
    assert code_of(submit(ledger, create("m", "Note", envelope=named))) is None
    ledger.close()
    output = printed("migrate-log", log, "--json", code=0)
    assert (output["taken"], output["on_record_before"]) == (0, 3)
    assert (output["migrated"], output["superseded"], output["settled"]) == (1, 2, 1)
    assert printed("verify", "--json", code=0)["verifies"]
    operation = printed_operation("made")
    assert operation["row"]["ec_sequence_number"] == "1"
    assert operation["row"]["superseding_sequence"] == "4"
    assert operation["envelope"]["envelope_version"] == "1.6"
    assert operation["superseded"]["envelope"] == MADE
    log_shown = printed("show", "log", "--json", code=0)["rows"]
    assert {"operation_receipt_lite"} == {
        listed_operation["semantic_intent"]
        for listed_operation in log_shown
        if listed_operation["operation_id"] == "lacking"
    }


def printed_operation(name: str) -> Any:
    return json.loads(rotulus("show", "operation", name).stdout)


def test_a_held_operation_is_discarded_with_its_reason(tmp_path):
    printed("migrate-log", written(tmp_path, LACKING), "--json", code=1)
    [item] = printed("audit", "migration-reviews", "--json", code=0)["items"]
    receipt_id = item["receipt"]["receipt_id"]
    assert rotulus("migrate-log", "--discard", receipt_id).exit_code == 2
    result = rotulus("migrate-log", "--discard", "receipt:x", "--reason", "r")
    assert "Error: envelope_adjudication_unknown" in result.stderr
    output = printed(
        "migrate-log", "--discard", receipt_id, "--reason", "a duplicate", "--json", code=0
    )
    assert (output["settled"], output["complete"]) == (1, True)
    [done] = printed("audit", "migration-reviews", "--state", "resolved", "--json", code=0)["items"]
    [discarded] = printed_operation(done["resolved_by_operation_id"])["receipts"]
    assert discarded["reason"] == "a duplicate"


def test_a_bad_line_is_named_and_nothing_is_taken(tmp_path):
    result = rotulus("migrate-log", written(tmp_path, MADE, {"operation_id": "x"}))
    assert result.exit_code == 1
    assert "Error: envelope_schema_version_unsupported: line 2" in result.stderr
    assert printed("show", "log", "--json", code=0)["rows"] == []


def test_who_reads_is_told_what_is_missing(tmp_path):
    result = rotulus("migrate-log", written(tmp_path, MADE, LACKING))
    assert result.exit_code == 1
    assert "held: 1" in result.stdout
    assert "rotulus audit migration-reviews" in result.stderr


@pytest.mark.slow
@pytest.mark.spec("§2.8", "§2.5")
def test_a_migration_that_was_killed_goes_on_where_it_was(tmp_path):
    documents = [
        lite(create(f"n{number}", "Note"), operation_id=f"o{number}", idempotency_key=f"k{number}")
        for number in range(DOCUMENTS)
    ]
    log = written(tmp_path, *documents, LACKING)
    path = DataFolder(tmp_path / "data").ledger_path
    command = [sys.executable, "-m", "workers", "migrate-log", log]
    for until in (100, DOCUMENTS + 100):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and rows_at(path) < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert rows_at(path) >= 100
    output = printed("migrate-log", log, "--json", code=1)
    assert (output["superseded"], output["held"], output["left"]) == (DOCUMENTS, 1, 0)
    ledger = Ledger(SqliteStore(path, read_only=True), FakeHost().host)
    with ledger.view() as view:
        assert verify(view).findings == ()
        assert view.tables.count(TableQuery(schema.kernel_event_log)) == 2 * DOCUMENTS + 1
        assert (
            view.tables.count(
                TableQuery(schema.receipts, {"receipt_kind": "needs_migration_review"})
            )
            == 1
        )
    ledger.close()


def rows_at(path: Path) -> int:
    try:
        ledger = Ledger(SqliteStore(path, read_only=True), FakeHost().host)
        with ledger.view() as view:
            sequence = view.head().ec_sequence_number
        ledger.close()
    except Exception:  # noqa: BLE001 - there is no ledger yet
        return 0
    return sequence


@pytest.mark.spec("§2.8", "K24")
async def test_over_http_what_was_superseded_stands_at_its_place_and_what_is_held_is_listed(
    tmp_path,
):
    store = SqliteStore(tmp_path / "ledger.db")
    migrated(Ledger.create(store, FakeHost().host), MADE, LACKING)
    async with running_door(store, host=FakeHost().host) as door:
        rows = (await door.http.get("/v1/log")).json()["rows"]
        assert [row["ec_sequence_number"] for row in rows] == ["1", "2", "3"]
        assert [row["semantic_intent"] for row in rows] == [
            "create",
            "operation_receipt_lite",
            "create",
        ]
        operations = (await door.http.get("/v1/audit/operations")).json()["operations"]
        places = [
            (operation["operation_id"], operation["ec_sequence_number"]) for operation in operations
        ]
        assert places == [("made", "1"), ("lacking", "2")]
        [item] = (await door.http.get("/v1/audit/migration-reviews")).json()["items"]
        assert item["receipt"]["operation_id"] == "lacking"
        assert (await door.http.get("/v1/audit/adjudications")).json()["items"] == []
        refused = await door.http.get("/v1/audit/rollback-preview/lacking")
        assert refused.status_code == 409
        assert refused.json()["error"]["code"] == "operation_not_migrated"
    store.close()
