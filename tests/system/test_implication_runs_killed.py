"""A run of a detector is on the record with all that it emits, or not at all, wherever it ends."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.records.implications.runs import runs_of
from tests.kernel.build import everything, findings
from tests.system.essence import outcomes_for_each_request, reading
from tests.system.killed_at_steps import killed_at_each_step, opened
from tests.system.test_three_queues import open_requests
from tests.system.tree_run import TreeRun, running, wait_for
from tests.workers.implications.docketed import (
    DISTRICT,
    OBSERVES,
    OPPOSITION,
    ORDER,
    RELATES,
    REPLY,
    enter,
    fire,
    implied,
    imply,
    unit,
)
from workers.client.typed.gateway import GatewayClient
from workers.demo.ingest import Ingest
from workers.environment.ledger_verification import verify_file
from workers.implications.disposed_motions import DisposedMotions

pytestmark = pytest.mark.timeout(180)

DETECTOR = DisposedMotions()


def detect(ledger: Ledger) -> None:
    imply(ledger, DETECTOR)


def emitted(ledger: Ledger) -> int:
    """How many operations were implied, of how many runs: each is of one."""
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.implied_operations))
        epochs = {run.implication_epoch for run in runs_of(view)}
    assert {row["implication_epoch"] for row in rows} <= epochs
    return len(rows)


@pytest.mark.spec("INV-A-BRIDGE-1", "§19.1", "§2.3", "K25", "K31")
def test_whatever_the_step_every_implication_is_emitted_once(tmp_path: Path) -> None:
    begun = tmp_path / "begun.db"
    ledger = opened(begun)
    enter(ledger, DISTRICT)
    for position, kind in (
        (OPPOSITION, RELATES),
        (REPLY, RELATES),
        (ORDER, RELATES),
        (ORDER, OBSERVES),
    ):
        fire(ledger, position, kind)
    ledger.close()

    left, sound = set(), set[str]()
    for step, path, _ in killed_at_each_step(begun, detect):
        ledger = opened(path, process=2)
        left.add(emitted(ledger))
        detect(ledger)
        assert emitted(ledger) == 2, step
        assert implied(ledger).keys() == {unit(OPPOSITION), unit(REPLY)}
        content = repr(everything(ledger))
        if content not in sound:
            assert findings(ledger) == (), step
            sound.add(content)
        ledger.close()
    # Before COMMIT nothing of the run is there, after it all.
    assert left == {0, 2}


def docket(source_id: str, entries: Sequence[tuple[str, str]]) -> bytes:
    """A docket as a line of a file."""
    day = "2010-01-04"
    stated = {
        "source_id": source_id,
        "court_id": "laed",
        "court_kind": "district",
        "case_name": "B. v. C.",
        "docket_number": f"2:10-cv-{source_id}",
        "date_filed": day,
        "docket_entries": [
            {"date_filed": day, "document_number": number, "description": text}
            for number, text in entries
        ],
    }
    return json.dumps(stated).encode()


def ingest(url: str, line: bytes) -> None:
    async def post() -> None:
        async with GatewayClient(url) as gateway:
            summary = await Ingest(gateway).run([line])
        assert not summary.failed_dockets, summary

    anyio.run(post)


def count(run: TreeRun, query: str) -> int:
    with reading(run.ledger_path) as ledger:
        [(number,)] = ledger.execute(query)
    return int(number)


ORDERS_OBSERVED = """
    SELECT count(*) FROM court_disposition_observations
    WHERE json_extract(CAST(record AS TEXT), '$.payload.filing_unit_id') IS NULL
"""
IMPLIED = "SELECT count(*) FROM implied_operations"
RUNS = "SELECT count(DISTINCT implication_epoch) FROM implied_operations"
HALTS = "SELECT count(*) FROM implication_halts"


@pytest.mark.spec("INV-A-BRIDGE-1", "§19.1", "K19")
def test_whoever_is_killed_before_an_order_has_its_implications_they_come_once(
    tmp_path: Path,
) -> None:
    """First a worker with the bindings of an order in hand, then a gateway that observed one."""
    with running(tmp_path / "data", "up") as run:
        url = run.wait_until_up()["gateway_url"]
        for source_id in ("worker", "gateway"):
            ingest(url, docket(source_id, DISTRICT[:ORDER]))
        wait_for("the bindings", lambda: not open_requests(run.ledger_path), 60.0)
        assert count(run, ORDERS_OBSERVED) == 0

        worker = run.pid_of("worker")
        os.kill(worker, signal.SIGSTOP)
        ingest(url, docket("worker", DISTRICT))
        assert open_requests(run.ledger_path) > 0
        os.kill(worker, signal.SIGKILL)
        wait_for("what the order implies", lambda: count(run, IMPLIED) == 2, 60.0)

        ingest(url, docket("gateway", DISTRICT))
        wait_for("the order", lambda: count(run, ORDERS_OBSERVED) == 2, 60.0)
        run.kill("gateway")
        wait_for("what the other order implies", lambda: count(run, IMPLIED) >= 4, 60.0)
        wait_for("the end of the work", lambda: not open_requests(run.ledger_path), 60.0)

        assert (count(run, RUNS), count(run, IMPLIED), count(run, HALTS)) == (2, 4, 0)
        assert outcomes_for_each_request(run.ledger_path) == {1}
        assert verify_file(run.ledger_path, lambda _done, _total: None).findings == ()
