"""The producers' client at a whole gateway."""

import pytest

from kernel.ledger import schema
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from queues import NewRequest, Producer, ProducerError
from tests.kernel.build import create, submit
from tests.workers.api.asking import binding, done, step
from tests.workers.api.door import URL, Door, rows, transport_to

pytestmark = pytest.mark.anyio


def producer_of(door: Door, queue: str) -> Producer:
    return Producer(queue, URL, transport=transport_to(door.app))


async def test_a_producer_asks_waits_looks_and_takes_back(door: Door):
    async with producer_of(door, EXTRACTION_QUEUE) as producer:
        content = step("r")["content"]
        enqueued = await producer.enqueue(NewRequest(content, "mine", "user_initiated"))
        again = await producer.enqueue(NewRequest(content, "mine", "user_initiated"))
        assert (again.request_id, again.duplicate) == (enqueued.request_id, True)
        status = await producer.status(enqueued.request_id)
        assert (status.state, status.priority) == ("open", "user_initiated")
        await done(door, enqueued.request_id)
        outcome = await producer.wait(enqueued.request_id, 10)
        assert outcome.state == "completed"
        assert not (await producer.cancel(enqueued.request_id, "late")).cancelled
        with pytest.raises(ProducerError) as caught:
            await producer.enqueue(NewRequest(content, "mine"))
        assert (caught.value.code, caught.value.index) == ("work_request_conflict", 0)
    async with producer_of(door, BINDING_QUEUE) as producer:
        enqueued = await producer.enqueue(NewRequest(binding("b")["content"], delay_s=60))
        cancelled = await producer.cancel(enqueued.request_id, "no longer wanted")
        assert cancelled.cancelled
        assert cancelled.request.not_before is not None
        assert (await producer.wait(enqueued.request_id, 10)).reason == "no longer wanted"


async def test_a_bulk_is_on_the_record_when_it_was_answered(door: Door):
    async with producer_of(door, BINDING_QUEUE) as producer:
        wanted = [NewRequest(binding(str(number))["content"]) for number in range(600)]
        enqueued = await producer.enqueue_many(wanted)
        outcomes = await producer.wait_many([request.request_id for request in enqueued], 0)
    assert len({request.request_id for request in enqueued}) == 600
    assert {row["request_id"] for row in rows(door.ledger, schema.outbox)} == {
        outcome.request_id for outcome in outcomes
    }


async def test_the_outcome_of_a_recompute_is_waited_for_under_any_name(door: Door):
    submit(door.ledger, create("corpus/u 1?", "ConsolidatedUnderstanding"))
    [row] = rows(door.ledger, schema.outbox)
    async with producer_of(door, "authority-recompute") as producer:
        assert (await producer.wait(row["request_id"], 0)).state == "open"
