"""A commit wakes those loops of a gateway that what it has recorded concerns (workers/0320)."""

import pytest

from actors.commit.units import IntentUnit
from actors.commit.work_units import CancelRequestUnit, RequestWorkUnit
from kernel.ledger.recorded import Recorded
from kernel.work.requests import WorkRequest
from tests.actors.commit.test_unprocessable import source_unit
from tests.actors.harness import running_committer, scripted_ledger
from workers.gateway.followers import (
    SHARDS,
    Followers,
    concerns_others,
    items_of,
    requests_of,
)

pytestmark = pytest.mark.anyio

EXTRACTIONS = "extraction-transition"
CONTENT = {
    "extraction_run_id": "run-1",
    "attempt_number": 1,
    "prior_state": "pending",
    "current_state": "running",
    "state_change_reason": "extraction_requested",
    "schema_version": 1,
}


async def recorded_by(*units: object) -> list[Recorded]:
    """Commit each unit by itself, and return what each commit says of itself."""
    ledger, _ = scripted_ledger()
    recorded: list[Recorded] = []
    async with running_committer(ledger, committed=recorded.append) as committer:
        for unit in units:
            [result] = await committer.commit([unit])
            assert not isinstance(result, Exception), result
    return recorded


async def test_a_request_concerns_its_queue_and_its_end_who_waits_for_it():
    request = WorkRequest(EXTRACTIONS, "k-1", CONTENT)
    [request_recorded] = await recorded_by(RequestWorkUnit((request,)))
    assert request_recorded.queues == {EXTRACTIONS}
    assert not (request_recorded.operations)
    assert not (request_recorded.outcomes)
    assert not (request_recorded.routing_marks)

    ledger, _ = scripted_ledger()
    recorded: list[Recorded] = []
    async with running_committer(ledger, committed=recorded.append) as committer:
        [[receipt]] = await committer.commit([RequestWorkUnit((request,))])
        await committer.commit([CancelRequestUnit(receipt.request_id, "no longer wanted")])
    assert recorded[-1].queues == {EXTRACTIONS}
    assert recorded[-1].outcomes


async def test_an_operation_concerns_who_reads_the_log_and_no_queue():
    unit = source_unit("a")
    assert isinstance(unit, IntentUnit)
    [recorded] = await recorded_by(unit)
    assert recorded.operations
    assert not (recorded.queues)
    assert not (recorded.outcomes)


async def test_what_a_commit_in_parts_has_recorded_is_all_of_it():
    request = WorkRequest(EXTRACTIONS, "k-1", CONTENT)
    first, second = await recorded_by(source_unit("a"), RequestWorkUnit((request,)))
    together = first.then(second)
    assert together.operations
    assert together.queues == {EXTRACTIONS}
    assert together.head == second.head
    assert first.then(None) == first


@pytest.mark.parametrize(
    ("queues", "woken"),
    [
        ({"binding-evaluation"}, {"binding-evaluation", "others"}),
        (
            {"authority-cascade"},
            {"binding-evaluation", "authority-recompute", "cascades", "others"},
        ),
        (set(), set()),
    ],
)
async def test_a_relay_is_woken_by_its_queue_and_by_cascades(queues: set[str], woken: set[str]):
    [[head]] = [[recorded.head for recorded in await recorded_by(source_unit("a"))]]
    names: set[str] = set()
    followers = Followers()
    followers.add(lambda: names.add("binding-evaluation"), items_of("binding-evaluation"))
    followers.add(lambda: names.add("authority-recompute"), items_of("authority-recompute"))
    followers.add(lambda: names.add("cascades"), requests_of("authority-cascade"))
    followers.add(lambda: names.add("others"), concerns_others)
    followers.wake(Recorded(head, frozenset({"outbox"}), frozenset(queues)))
    assert names == woken


def test_shards_and_the_work_of_others_wake_whom_they_concern():
    names: list[str] = []
    followers = Followers()
    followers.add(lambda: names.append("relay"), items_of("binding-evaluation"))
    followers.add(lambda: names.append("effects"), items_of("external-effects"), of=(SHARDS,))
    followers.add(lambda: names.append("notices"), concerns_others, of=())
    followers.wake_for_work()
    assert names == ["relay"]
    followers.wake_for_shards()
    assert names == ["relay", "relay", "effects"]
