"""A damaged record is the highest alarm, whatever it is and whoever reads it (seed 003, L3).

The table has a row for each kind of record: how it is damaged where nobody looks, and who asks for
it. Behind each answer health is red, with a number, a sentence and a receipt that outlives the
process, until somebody has dealt with it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from sqlalchemy import Table

from actors.error_codes import ERRORS
from kernel.landscape.recorder import Recorder
from kernel.ledger import schema
from kernel.ledger.archive import Archive
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.damage import DAMAGE_CODES, Damage, damage_of
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.values.errors import RowDamaged
from kernel.values.host import Host
from kernel.verify import verify
from kernel.verify.checked_reading import CheckedLedger, DoubtedLedger
from tests.kernel.archives import MemoryFiles, archive_next
from tests.kernel.build import FakeHost, create, ledger_on, memory_ledger, submit
from tests.kernel.landscape.runs import whole_run
from tests.workers.api.door import SESSION, URL, Door, client_of, error_of, running_door, source
from tests.workers.api.test_thoughts import SESSION as THOUGHTS
from tests.workers.api.test_thoughts import closed
from tests.workers.api.test_work_requests import binding
from workers.client.typed.gateway_state import read_state
from workers.environment.settings import Settings
from workers.gateway.loops.damage_recording import DamageRecording
from workers.gateway.metrics import GatewayMeasures, GatewayMetrics
from workers.mcp.tool import ToolContext
from workers.views.attention_rules import line_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("seed 003, L3")]

GROUNDS = {"reason": "the row was put back from a backup", "authority": "ada"}


@dataclass(frozen=True)
class Kind:
    """A kind of record: the row that is damaged, and the question that reads it."""

    table: Table
    column: str
    path: str
    code: str = "record_damaged"
    damaged: Any = b"{}"


KINDS = {
    "row of the log": Kind(
        schema.kernel_event_log,
        "row_bytes",
        "/v1/operations/{operation_id}",
    ),
    "content": Kind(schema.blobs, "content", "/v1/operations/{operation_id}"),
    "state": Kind(schema.nodes, "record", "/v1/nodes/n-1"),
    "state, changed": Kind(
        schema.nodes, "record", "/v1/nodes/n-1", damaged=b'{"node_id":"n-1","node_kind":"Other"}'
    ),
    "event": Kind(
        schema.belief_events, "event_bytes", f"/v1/sessions/{SESSION}/audit", "session_corrupt"
    ),
    "receipt": Kind(schema.receipts, "receipt_bytes", "/v1/operations/{receipt_operation_id}"),
    "request": Kind(
        schema.outbox,
        "request_bytes",
        "/v1/queues/binding-evaluation/requests/{request_id}",
        damaged=b"[]",
    ),
    "thought": Kind(schema.thought_records, "record_bytes", f"/v1/thoughts/{THOUGHTS}?limit=9"),
    "run": Kind(
        schema.metadata.tables["landscape_node_states"],
        "status",
        "/v1/landscape/runs/run-1/performance_report",
        "landscape_record_damaged",
        "done",
    ),
}
"""By kind; of a table its first row, or that of the operation."""


OF_THE_LOG = (schema.kernel_event_log, schema.receipts)
"""Tables whose rows belong to a row of the log, which is quarantined then."""


async def world(door: Door) -> dict[str, str]:
    """Put one record of each kind there; return what the questions name."""
    await door.declare(SESSION, "a", "b")
    await door.post("eliminate", {"eliminated": ["a"], "justification": "seen"})
    [result] = await door.operate(source("n-1"))
    await closed(door)

    def record() -> None:
        recorder = Recorder(door.ledger)
        whole_run(recorder)
        recorder.complete_run("run-1")

    await anyio.to_thread.run_sync(record)
    body = {"requests": [binding("a")]}
    await door.send("/v1/queues/binding-evaluation/requests", body)
    with door.ledger.view() as view:
        receipt = next(
            row for row in view.tables.scan(TableQuery(schema.receipts)) if row["operation_id"]
        )
        [request] = view.tables.scan(TableQuery(schema.outbox, {"queue": "binding-evaluation"}))
    return {
        "operation_id": result["operation_id"],
        "receipt_operation_id": receipt["operation_id"],
        "request_id": request["request_id"],
    }


def spoil(ledger: Ledger, kind: Kind, names: dict[str, str]) -> Damage:
    """Change a record as somebody at the database could; return what is to be met."""
    with ledger.store.transaction() as tables:
        [of_log] = tables.scan(
            TableQuery(schema.kernel_event_log, {"operation_id": names["operation_id"]})
        )
        [*rows] = tables.scan(TableQuery(kind.table))
        blob_ref = of_log["envelope_payload_blob_ref"]
        of_operation = {
            schema.kernel_event_log: [of_log],
            schema.receipts: [
                row for row in rows if row.get("operation_id") == names["receipt_operation_id"]
            ],
            schema.outbox: [row for row in rows if row.get("request_id") == names["request_id"]],
            schema.blobs: [row for row in rows if row.get("blob_ref") == blob_ref],
        }
        row = of_operation.get(kind.table, rows)[0]
        key = [str(row[column.name]) for column in kind.table.primary_key.columns]
        tables.put(kind.table, row | {kind.column: kind.damaged})
    # A session is one record, whatever of it is damaged.
    of_session = kind.code == "session_corrupt"
    return Damage(kind.code, kind.table.name, key[0] if of_session else "/".join(key), "")


def named(met: Damage) -> str:
    return f"{met.table} {met.key}"


async def state_of(door: Door) -> list[str]:
    async with door.client() as client:
        return [line_of(item) for item in (await read_state(client))["attention"]]


async def numbers(door: Door) -> str:
    metrics = GatewayMetrics(
        GatewayMeasures(), door.services, door.committer, door.services.sessions, Settings()
    )
    return (await metrics.text()).decode()


@pytest.fixture
def host() -> Host:
    return FakeHost().host


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_every_door_says_so_until_somebody_has_dealt_with_it(kind: Kind, host: Host):
    store = MemoryStore()
    async with running_door(store, host=host) as door:
        names = await world(door)
    # A gateway that keeps nothing of it in memory.
    async with running_door(store, host=host) as door:
        assert (await door.http.get("/readyz")).status_code == 200
        stored = snapshot(store, kind.table)
        met = spoil(door.ledger, kind, names)
        logged: list[Damage] = []
        door.ledger.damage.told = logged.append
        path = kind.path.format(**names)
        error_of(await door.http.get(path), 500, kind.code)
        assert (logged[0].table, logged[0].key) == (met.table, met.key), "the log names it"
        ready = await door.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
        problems = ready.text
        assert met.key in problems if kind.code == "session_corrupt" else named(met) in problems
        receipt_id = await DamageRecording(door.ledger, door.services.write).record()
        assert receipt_id is not None
        assert await DamageRecording(door.ledger, door.services.write).record() is None
    # Another process, which has met nothing yet.
    async with running_door(store, host=host) as door:
        ready = (await door.http.get("/readyz")).json()
        is_row = kind.table in OF_THE_LOG
        table = schema.kernel_event_log.name if is_row else met.table
        metric = f'rotulus_records_damaged{{table="{table}"}} 1'
        assert ready["status"] == ("degraded" if is_row else "not ready")
        assert [line for line in await state_of(door) if "found damaged" in line]
        assert metric in await numbers(door)
        [standing] = (await door.http.get("/v1/quarantines")).json()["quarantines"]
        assert standing["quarantine_id"] == receipt_id
        # A session stays down until its gateway begins anew.
        if not is_row and kind.code != "session_corrupt":
            error_of(await door.http.get(path), 500, kind.code)
            assert metric in await numbers(door), "one record is one, however often it is met"
            assert await DamageRecording(door.ledger, door.services.write).record() is None
        assert standing["records"] == ([] if is_row else [{"table": met.table, "key": met.key}])
        with door.ledger.store.transaction() as tables:
            tables.put(
                kind.table, next(row for row in stored if row not in snapshot_of(tables, kind))
            )
        lifted = await door.send(f"/v1/quarantines/{receipt_id}/lift", GROUNDS)
        assert lifted.json() == {"changed": True}
        assert (await door.http.get("/readyz")).json()["status"] == "ready"
        assert "rotulus_records_damaged{" not in await numbers(door)
        assert (await door.http.get(path)).status_code == 200
        # What is damaged once more is told once more.
        spoil(door.ledger, kind, names)
        if kind.code != "session_corrupt":
            error_of(await door.http.get(path), 500, kind.code)
            assert await DamageRecording(door.ledger, door.services.write).record() is not None


def snapshot(store: MemoryStore, table: Table) -> list[dict[str, Any]]:
    with store.view() as tables:
        return tables.scan(TableQuery(table))


def snapshot_of(tables: Any, kind: Kind) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.scan(TableQuery(kind.table))
    return rows


async def test_what_is_accepted_as_it_stands_is_not_told_again(host: Host):
    kind = KINDS["state"]
    async with running_door(MemoryStore(), host=host) as door:
        names = await world(door)
        spoil(door.ledger, kind, names)
        error_of(await door.http.get(kind.path), 500, kind.code)
        receipt_id = await DamageRecording(door.ledger, door.services.write).record()
        await door.send(f"/v1/quarantines/{receipt_id}/lift", GROUNDS)
        await door.http.get(kind.path)
        assert door.ledger.damage.all() == ()
        assert (await door.http.get("/readyz")).json()["status"] == "ready"


async def test_a_reader_beside_the_gateway_tells_it(tmp_path: Path, host: Host):
    """MCP, commands and workers read by themselves: each has the same alarm raised."""
    kind = KINDS["state"]
    place = tmp_path / "ledger.db"
    async with running_door(SqliteStore(place), host=host) as door:
        names = await world(door)
        sound = {"code": kind.code, "table": "nodes", "key": "n-1", "message": "it is said so"}
        assert (await door.send("/v1/quarantines", sound)).json() == {"noted": False}
        for unknown in ({"key": "nobody"}, {"table": "no_table"}, {"table": "archive_segments"}):
            answer = await door.send("/v1/quarantines", sound | unknown)
            assert answer.json() == {"noted": False}
        assert (await door.http.get("/readyz")).status_code == 200
        met = spoil(door.ledger, kind, names)
        context = ToolContext(place, lambda: URL, client=lambda *_, **__: client_of(door.app))
        with pytest.raises(RowDamaged, match="nodes n-1"):
            await context.read(lambda view: view.node("n-1"))
        ready = (await door.http.get("/readyz")).json()
        assert named(met) in ready["problems"]["record"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_a_reader_of_whatever_process_meets_it(kind: Kind, host: Host):
    store = MemoryStore()
    async with running_door(store, host=host) as door:
        names = await world(door)
        ledger = CheckedLedger(door.ledger)
        met = spoil(door.ledger, kind, names)
        ledger.damage.forget(ledger.damage.all())
        with pytest.raises(RowDamaged), ledger.view() as view:
            view.tables.scan(TableQuery(kind.table))
        assert [(each.table, each.key.split("/")[0]) for each in ledger.damage.all()] == [
            (met.table, met.key.split("/")[0])
        ]
        with ledger.view() as view:
            assert verify(view).findings


async def test_a_segment_of_the_archive_is_a_record_too():
    ledger, host = ledger_on(MemoryStore())
    ledger.archive = Archive(files := MemoryFiles())
    for number in range(SEGMENT_ROWS):
        submit(ledger, create(f"n-{number}", "Note"))
    assert archive_next(ledger)
    [name] = files.names()
    async with running_door(ledger.store, host=host.host) as door:
        door.ledger.archive = Archive(files)
        content = files[name]
        files[name] = content[:-1]
        error_of(await door.http.get("/v1/log?after=0"), 500, "archive_segment_damaged")
        receipt_id = await DamageRecording(door.ledger, door.services.write).record()
        ready = await door.http.get("/readyz")
        assert (ready.status_code, f"archive_segments {name}" in ready.text) == (503, True)
        assert 'rotulus_records_damaged{table="archive_segments"} 1' in await numbers(door)
        # Whoever met it again meanwhile adds nothing to what stands.
        assert await DamageRecording(door.ledger, door.services.write).record() is None
        files[name] = content
        await door.send(f"/v1/quarantines/{receipt_id}/lift", GROUNDS)
        assert (await door.http.get("/readyz")).json()["status"] == "ready"
        assert (await door.http.get("/v1/log?after=0")).status_code == 200


def test_work_that_fails_of_a_damaged_row_names_it_and_other_work_pays_nothing():
    """A worker's readings are looked at again where its work on them fails."""
    ledger = DoubtedLedger(memory_ledger())
    submit(ledger, create("n", "Note"))
    with pytest.raises(KeyError, match="nothing of it"):
        ledger.read(lambda view: (view.node("n") or {})["nothing of it"])
    assert ledger.damage.all() == ()
    with ledger.store.transaction() as tables:
        [row] = tables.scan(TableQuery(schema.nodes))
        tables.put(schema.nodes, row | {"record": b"{"})
    with pytest.raises(RowDamaged, match="nodes n: record is not a JSON object"):
        ledger.read(lambda view: view.node("n"))
    [met] = ledger.damage.all()
    assert named(met) == "nodes n"


@pytest.mark.parametrize("hashes", [b"", b"short", bytes(257 * 32), bytes(256 * 32)])
def test_a_tile_is_held_against_the_one_above_it(hashes: bytes):
    ledger = memory_ledger()
    with ledger.store.transaction() as tables:
        for level, content in ((0, hashes), (1, b"1" * 32)):
            row = {"tile_level": level, "tile_index": 0, "hashes": content}
            tables.put(schema.tree_tiles, row)
    with pytest.raises(RowDamaged, match="tree_tiles 0/0"), CheckedLedger(ledger).view() as view:
        view.tables.get(schema.tree_tiles, 0, 0)


def test_each_code_of_damage_is_a_fault_of_ours_and_each_such_name_is_one():
    for code in DAMAGE_CODES - {"rollback_pre_image_corrupt", "rebuild_record_damaged"}:
        assert ERRORS[code].status == 500, code
    named = {code for code in ERRORS if code.endswith(("_damaged", "_corrupt"))}
    # A backup is no part of the ledger, and only commands read it.
    assert named - {"backup_damaged"} <= DAMAGE_CODES


def test_a_group_of_errors_says_what_any_of_them_says():
    error = ExceptionGroup("", [ValueError(), ExceptionGroup("", [RowDamaged("nodes", "n", "x")])])
    damage = damage_of(error)
    assert damage is not None
    assert (damage.table, damage.key, str(damage)) == ("nodes", "n", "record_damaged: nodes n: x")
    assert damage_of(ValueError()) is None
