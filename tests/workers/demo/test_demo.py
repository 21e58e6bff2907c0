"""The main job without its processes: ingest, wait for the authorities, verify, report."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.ledger import schema
from kernel.ledger.sqlite.store import SqliteStore
from kernel.verify import Verification
from kernel.verify.reading import Finding
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from queues.leases.capacity_leases import CapacityLeases
from queues.queue.outbox_relay import OutboxRelay
from tests.kernel.build import FakeHost
from tests.workers.api.door import Door, client_of, running_door
from workers.demo import run as demo
from workers.demo.ingest import Summary
from workers.demo.run import DemoReport, run_demo
from workers.demo.shown_proof import make_key, show_proof, verify_elsewhere
from workers.dockets.reader import sample_path
from workers.environment.data_folder import DataFolder
from workers.gateway.loops.evidence_confirmation import EvidenceConfirmation
from workers.worker.attempts import ErrorTexts
from workers.worker.batches import BatchProcessor
from workers.worker.gateway_reports import GatewayReporter
from workers.worker.handlers.authority import AuthorityHandler
from workers.worker.handlers.binding import BindingHandler
from workers.worker.handlers.binding_evaluator import BindingCapacity, RecordEvaluator
from workers.worker.handlers.docket_particulars import DocketParticulars
from workers.worker.handlers.extraction import ExtractionHandler
from workers.worker.handlers.extractors import Extractors

pytestmark = pytest.mark.anyio

GOOD = Verification(
    rows=3,
    receipts=2,
    blobs=3,
    belief_sessions=1,
    belief_events=2,
    requests_open=0,
    requests_closed=1,
    head_hash="ab" * 32,
    authorities_equal=1,
    authorities_pending=0,
)
NONE_OPEN = {
    "recorded": 1,
    "open": 0,
    "outcomes": {"completed": 1, "dead_letter": 0, "cancelled": 0},
}


def report(**changes: Any) -> DemoReport:
    fields: dict[str, Any] = {
        "summary": Summary(dockets=1),
        "requests": NONE_OPEN,
        "verification": GOOD,
        **changes,
    }
    return DemoReport(**fields)


def test_a_run_in_which_nothing_went_wrong_reports_no_failure():
    assert report().failures == []
    document = report(seconds={"ingest": 1.23456}).document()
    assert document["failures"] == []
    assert document["record"]["verifies"] is True
    assert document["record"]["head_hash"] == "ab" * 32
    assert document["seconds"] == {"ingest": 1.23}


def test_bad_input_is_no_failure_of_ours():
    summary = Summary(dockets=1)
    summary.problems["docket_line_not_json"] = 3
    demo_report = report(summary=summary)
    assert demo_report.failures == []
    assert demo_report.document()["ingest"]["input_problems"] == {"docket_line_not_json": 3}


FINDING = Finding("kernel_event_log", "7", "row_hash", "differs from its bytes")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"summary": Summary(failed_dockets=["d-1"])}, "docket d-1 was not ingested"),
        ({"requests": {**NONE_OPEN, "open": 2}}, "2 requests have no outcome"),
        (
            {"requests": {**NONE_OPEN, "outcomes": {"dead_letter": 1}}},
            "1 requests were given up",
        ),
        ({"verification": replace(GOOD, authorities_pending=4)}, "4 authorities are pending"),
        (
            {"verification": replace(GOOD, findings=(FINDING,))},
            "kernel_event_log 7: differs from its bytes",
        ),
    ],
)
def test_whatever_went_wrong_on_our_side_is_a_failure(changes, text):
    assert report(**changes).failures == [text]


def test_refused_operations_are_a_failure_by_code():
    summary = Summary()
    summary.refused["envelope_schema_invalid"] = 2
    assert report(summary=summary).failures == ["2 operations refused: envelope_schema_invalid"]


def test_a_record_that_does_not_verify_is_said_not_to():
    document = report(verification=replace(GOOD, findings=(FINDING,))).document()
    assert document["record"]["verifies"] is False


def handlers(door: Door, reporter: GatewayReporter) -> dict[str, Any]:
    """What the items of each queue are, as a worker has them."""
    redis, queue = door.services.work.redis, door.services.work.queues[BINDING_QUEUE]
    capacity = BindingCapacity(CapacityLeases(redis), queue, 2, "worker-1")
    evaluator = RecordEvaluator(door.ledger, DocketParticulars())
    now_us, texts = door.ledger.host.now_us, ErrorTexts()
    return {
        AUTHORITY_QUEUE: AuthorityHandler(door.ledger, reporter, BetaPosteriorMean(), texts),
        BINDING_QUEUE: BindingHandler(door.ledger, reporter, capacity, evaluator, now_us, texts),
        EXTRACTION_QUEUE: ExtractionHandler(door.ledger, reporter, Extractors(), texts),
    }


async def work(door: Door) -> None:
    """A relay and a slot for each queue, and the safe path, as the tree would have them."""
    reporter = GatewayReporter(client_of(door.app))
    confirmation = EvidenceConfirmation(door.ledger, door.services.write)
    slots = []
    for name, handler in handlers(door, reporter).items():
        queue = door.services.work.queues[name]
        relay = OutboxRelay(door.ledger, queue, anyio.current_time)
        slots.append((relay, queue, BatchProcessor(queue, handler, reporter, lambda: 0)))
    while True:
        for relay, queue, processor in slots:
            await relay.sweep()
            await processor.drain(await queue.claim(64, 30_000))
        await confirmation.confirm()
        await anyio.sleep(0.005)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_the_whole_job_on_the_sample_and_once_more(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "POLL_S", 0.01)
    folder = DataFolder(tmp_path)
    store = SqliteStore(folder.ledger_path)
    tree: Any = SimpleNamespace(
        gateway_url="http://unused", folder=folder, ledger_place=folder.ledger_path
    )
    async with (
        running_door(store, host=FakeHost().host) as door,
        anyio.create_task_group() as tasks,
    ):
        monkeypatch.setattr(demo, "GatewayClient", lambda _: client_of(door.app))
        tasks.start_soon(work, door)
        with sample_path().open("rb") as lines:
            first = await run_demo(tree, lines, sample_path().stat().st_size)
        with sample_path().open("rb") as lines:
            again = await run_demo(tree, lines)
        tasks.cancel_scope.cancel()
    key_file, proof_path = tmp_path / "log.key", tmp_path / "proof.json"
    make_key(key_file)
    sessions = [case.session_id for case in first.summary.cases]
    shown_proof = await show_proof(
        folder.ledger_path, key_file, tmp_path / "published", proof_path, sessions
    )
    newest = await show_proof(
        folder.ledger_path, key_file, tmp_path / "published", tmp_path / "newest.json", []
    )
    store.close()
    assert (newest.kind, newest.verifies) == ("operation", True)
    assert (shown_proof.kind, shown_proof.verifies) == ("elimination", True)
    assert f'"tree_head": "{shown_proof.tree_head}"' in shown_proof.verifier_says
    proof_path.write_bytes(proof_path.read_bytes().replace(b"ELIMINATE", b"ELIMINATF"))
    verifies, says = await anyio.to_thread.run_sync(verify_elsewhere, proof_path, shown_proof.vkey)
    assert (verifies, "proof_invalid" in says) == (False, True)
    assert report(proof=replace(shown_proof, verifies=False)).failures
    assert first.failures == again.failures == []
    assert first.summary.dockets == again.summary.dockets == 4
    assert again.summary.accepted == 0
    assert again.requests == first.requests
    assert again.verification.head_hash == first.verification.head_hash
    assert first.requests["recorded"] == first.requests["outcomes"]["completed"] > 0
    assert set(first.seconds) == {"ingest", "drain", "verify"}
    fired = {name: counts["fired"] for name, counts in first.work["bindings"].items()}
    assert fired == {
        "dockets:captions": 4,
        "dockets:extractions": 104,
        "dockets:filings": 30,
        "dockets:observations": 10,
        "dockets:relationships": 15,
    }
    assert all(not counts["open"] for counts in first.work["queues"].values())
    assert first.work["evidence"] == {
        "relationship": {"candidate": 15},
        "observation": {"observed": 10},
    }
    assert first.work["extractions"] == {"runs": {"succeeded": 97, "degraded": 7}, "claims": 203}
    assert again.work == first.work
    assert len(first.cases) == 3
    for case in first.cases:
        assert case["n_survivors"] >= len(case["survivors"]) > 0
        assert case["why"]["reason"]
    shown = capsys.readouterr().err
    for step in ("ingest", "queues", "verify"):
        assert f"  {step}: " in shown


async def test_a_record_that_was_tampered_with_is_reported(tmp_path, monkeypatch):
    folder = DataFolder(tmp_path)
    store = SqliteStore(folder.ledger_path)
    tree: Any = SimpleNamespace(
        gateway_url="http://unused", folder=folder, ledger_place=folder.ledger_path
    )
    async with running_door(store, host=FakeHost().host) as door:
        monkeypatch.setattr(demo, "GatewayClient", lambda _: client_of(door.app))
        with store.transaction() as tables:
            tables.update(schema.chain_head, ("main",), {"row_hash": "f" * 64})
        demo_report = await run_demo(tree, [])
    store.close()
    assert demo_report.failures
    assert demo_report.document()["record"]["verifies"] is False
