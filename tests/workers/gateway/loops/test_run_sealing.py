"""The runtime's own run is sealed after so many rows, at a stop, and at the next start (L1, L4)."""

import pytest

from kernel.landscape.recorder import Recorder
from kernel.ledger import schema
from kernel.verify import verify
from tests.kernel.landscape.runs import whole_run
from tests.workers.api.door import SESSION, Door, rows, source
from workers.gateway.loops import run_sealing
from workers.gateway.loops.run_sealing import RunSealing
from workers.gateway.wiring import writing

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L1", "L4")]


@pytest.fixture
async def declared(door: Door) -> Door:
    await door.declare(SESSION, "a", "b")
    return door


def sealing_of(door: Door, size: int) -> RunSealing:
    return RunSealing(door.ledger, writing(door.committer), size, lambda: 0.0)


async def record(door: Door, *names: str) -> None:
    for result in await door.operate(*map(source, names)):
        assert result["validation_result"] == "accepted", result


def sealed(door: Door) -> list[tuple[int, int]]:
    seals = rows(door.ledger, schema.landscape_seals)
    names = (row["run_id"].split(":")[1].split("-") for row in seals)
    return sorted((int(first), int(last)) for first, last in names)


def length(door: Door) -> int:
    with door.ledger.view() as view:
        return view.head().ec_sequence_number


async def test_a_run_is_sealed_once_it_has_its_rows_and_another_follows(declared: Door):
    sealing = sealing_of(declared, 3)
    assert not await sealing.seal_next()
    await record(declared, "s-1", "s-2")
    assert (length(declared), await sealing.seal_next()) == (3, False)
    await record(declared, "s-3", "s-4", "s-5", "s-6")
    assert await sealing.seal_next()
    assert await sealing.seal_next()
    assert sealed(declared) == [(1, 3), (4, 6)]
    await sealing.stop()
    with declared.ledger.view() as view:
        assert verify(view).findings == ()
    runs = (await declared.http.get("/v1/landscape/runs")).json()["runs"]
    assert {run["status"] for run in runs[1:]} == {"completed"}
    assert all(run["run_digest"] for run in runs[1:])
    report = await declared.http.get(f"/v1/landscape/runs/{runs[-1]['run_id']}/dag_structure")
    assert report.json()["content"]["node_count"] == 8


async def test_a_stop_seals_what_is_left_and_the_seal_alone_is_no_run(declared: Door):
    await record(declared, "s-1")
    sealing = sealing_of(declared, 1000)
    await sealing.stop()
    assert sealed(declared) == [(1, 2)]
    before = length(declared)
    await sealing.stop()
    assert not await sealing.seal_rest()
    assert length(declared) == before


async def test_what_a_stop_leaves_is_sealed_by_the_next_start(declared: Door, monkeypatch):
    monkeypatch.setattr(run_sealing, "STOP_ROWS_MAX", 2)
    await record(declared, "s-1", "s-2", "s-3")
    sealing = sealing_of(declared, 1000)
    await sealing.stop()
    assert sealed(declared) == []
    assert await sealing_of(declared, 1000).seal_rest()
    assert sealed(declared) == [(1, 4)]


async def test_two_gateways_seal_a_stretch_once(declared: Door):
    await record(declared, "s-1", "s-2", "s-3", "s-4")
    first, other = sealing_of(declared, 3), sealing_of(declared, 3)
    assert await first.seal_next()
    assert not await other.seal_next()
    assert sealed(declared) == [(1, 3)]


async def test_zero_rows_seal_nothing(declared: Door):
    await record(declared, "s-1")
    sealing = sealing_of(declared, 0)
    await sealing.stop()
    await sealing.run()
    assert sealed(declared) == []


async def test_a_completed_run_whose_process_ended_before_the_seal_is_sealed(
    declared: Door, monkeypatch
):
    recorder = Recorder(declared.ledger)
    for run_id in ("run-1", "run-2", "run-3"):
        whole_run(recorder, run_id)
    for run_id in ("run-1", "run-2"):
        recorder.complete_run(run_id)
    sealing = sealing_of(declared, 1000)
    assert not await sealing.seal_completed(), "its process may be about to seal it"
    monkeypatch.setattr(run_sealing, "COMPLETED_AGE_US", -1)
    assert await sealing.seal_completed()
    assert await sealing.seal_completed()
    assert not await sealing.seal_completed()
    sealed_runs = {row["run_id"] for row in rows(declared.ledger, schema.landscape_seals)}
    assert sealed_runs == {"run-1", "run-2"}
    with declared.ledger.view() as view:
        assert verify(view).findings == ()
