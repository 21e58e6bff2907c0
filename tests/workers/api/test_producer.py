"""The producers' client at a whole gateway."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import anyio
import anyio.from_thread
import anyio.to_thread
import httpx
import pytest

from kernel.ledger import schema
from kernel.values.host import parse_time_us
from kernel.work.contents import EXTRACTION_QUEUE
from tests.kernel.build import create, submit
from tests.workers.api.asking import done, given_up
from tests.workers.api.door import SESSION, URL, Door, rows, source, transport_to
from workers.client import (
    BindingEvaluation,
    BlockingRotulus,
    ExtractionTransition,
    GatewayError,
    NewRequest,
    Rotulus,
)

pytestmark = pytest.mark.anyio
JOBS = 30


def client_of(door: Door) -> Rotulus:
    return Rotulus(URL, transport=transport_to(door.app))


class ThreadTransport(httpx.AsyncBaseTransport):
    """Carries requests of a client on another loop to a gateway on this one."""

    def __init__(self, door: Door) -> None:
        self.transport, self.loop = transport_to(door.app), asyncio.get_running_loop()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        answered = asyncio.run_coroutine_threadsafe(self._ask(request), self.loop)
        return await asyncio.wrap_future(answered)

    async def _ask(self, request: httpx.Request) -> httpx.Response:
        response = await self.transport.handle_async_request(request)
        content = await response.aread()
        return httpx.Response(response.status_code, headers=response.headers, content=content)


def step(run: str) -> ExtractionTransition:
    return ExtractionTransition(
        extraction_run_id=run,
        attempt_number=1,
        prior_state="pending",
        current_state="running",
        state_change_reason="extraction_requested",
    )


def binding(name: str) -> BindingEvaluation:
    return BindingEvaluation(binding_id="b", source_event_id=name)


async def test_a_producer_asks_waits_looks_and_takes_back(door: Door):
    async with client_of(door) as rotulus:
        job = await rotulus.enqueue(step("r"), key="mine", priority="user_initiated")
        again = await rotulus.enqueue(step("r"), key="mine", priority="user_initiated")
        assert (again.request_id, again.is_duplicate) == (job.request_id, True)
        status = await rotulus.job(EXTRACTION_QUEUE, job.request_id).status()
        assert (status.state, status.priority) == ("open", "user_initiated")
        await done(door, job.request_id)
        assert (await job.result(timeout=10)).state == "completed"
        assert not await job.cancel("late")
        with pytest.raises(GatewayError) as caught:
            await rotulus.enqueue(step("r"), key="mine")
        assert (caught.value.code, caught.value.field) == ("work_request_conflict", "request_key")
        job = await rotulus.enqueue(binding("e"), delay_s=60)
        assert (await job.status()).not_before is not None
        assert await job.prioritize("critical", reason="a deadline", decided_by="ada")
        assert not await job.prioritize("critical")
        assert (await job.status()).priority == "critical"
        assert await job.cancel("no longer wanted", decided_by="ada")
        assert (await job.result(timeout=10)).reason == "no longer wanted"
        assert (await job.status()).settled_by == "ada at 127.0.0.1"


@pytest.mark.spec("K6")
async def test_a_time_is_the_same_asking_whenever_it_is_stated(door: Door):
    evening = door.ledger.host.now_us() // 1_000_000 + 7200
    run_at = datetime.fromtimestamp(evening, UTC)
    async with client_of(door) as rotulus:
        job = await rotulus.enqueue(binding("e"), key="mine", run_at=run_at)
        assert (await rotulus.enqueue(binding("e"), key="mine", run_at=run_at)).is_duplicate
        not_before = (await job.status()).not_before
        assert parse_time_us(str(not_before)) == evening * 1_000_000
        with pytest.raises(GatewayError) as caught:
            await rotulus.enqueue(binding("e"), run_at=run_at + timedelta(days=30))
        assert (caught.value.code, caught.value.field) == ("work_request_invalid", "run_at")


async def test_a_bulk_is_on_the_record_when_it_was_answered(door: Door):
    async with client_of(door) as rotulus:
        jobs = await rotulus.enqueue_many(binding(str(number)) for number in range(600))
        outcomes = await rotulus.outcomes(jobs, 0)
    assert len({job.request_id for job in jobs}) == 600
    assert {row["request_id"] for row in rows(door.ledger, schema.outbox)} == {
        outcome.request_id for outcome in outcomes
    }


async def test_of_what_comes_together_only_the_bad_is_refused(door: Door):
    refused = []

    async def enqueue(name: str) -> None:
        try:
            await rotulus.enqueue(binding(name), key=name)
        except GatewayError as error:
            refused.append((name, error.code, error.field))

    async with client_of(door) as rotulus, anyio.create_task_group() as tasks:
        for name in ("a", "", "b", "x" * 600, "c"):
            tasks.start_soon(enqueue, name)
    assert sorted((name[:1], code) for name, code, _ in refused) == [
        ("", "INVALID_REQUEST"),
        ("x", "INVALID_REQUEST"),
    ]
    assert {row["item_key"] for row in rows(door.ledger, schema.outbox)} == {"a", "b", "c"}


async def test_jobs_are_run_with_few_open_at_a_time_and_told_as_they_end(door: Door):
    open_counts, read = [], []

    def wanted() -> Iterator[NewRequest]:
        for number in range(JOBS):
            read.append(number)
            yield NewRequest(step(str(number)), key=str(number))

    def open_now() -> list[str]:
        return [row["request_id"] for row in rows(door.ledger, schema.outbox) if row["open"]]

    async def work() -> None:
        """End what is open, one by one in no order; the third is given up."""
        for turn in range(JOBS):
            waiting = open_now()
            while not waiting:
                await anyio.sleep(0.001)
                waiting = open_now()
            open_counts.append(len(waiting))
            if turn == 2:
                await given_up(door, EXTRACTION_QUEUE, waiting[-1], "why")
            else:
                await done(door, waiting[-1])

    states = []
    with anyio.fail_after(30):
        async with client_of(door) as rotulus, anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            async for _, outcome in rotulus.run_many(wanted(), open_max=5):
                states.append(outcome.state)
                assert len(read) - len(states) <= 5
    assert sorted(states) == ["completed"] * (JOBS - 1) + ["dead_letter"]
    assert max(open_counts) <= 5


async def test_one_client_serves_queues_sessions_bindings_proofs_and_records(door: Door):
    await door.declare(SESSION, "h")
    async with client_of(door) as rotulus:
        intents = [source("s")]
        [outcome] = [each async for each in rotulus.session(SESSION).submit(intents)]
        assert outcome.result is not None
        operation_id = outcome.result["operation_id"]
        assert (await rotulus.log.head()).size > 0
        assert (await rotulus.bindings.page())["bindings"] == []
        assert [each async for each in rotulus.records.bindings()] == []
        listed = [each async for each in rotulus.records.operations(session_id=SESSION)]
        assert operation_id in {each["operation_id"] for each in listed}
        shown = await rotulus.records.operation(operation_id)
        assert shown["envelope"]["operation_id"] == operation_id
        assert (await rotulus.records.node("s"))["node_id"] == "s"
        assert "extraction-transition" in (await rotulus.records.queues())["queues"]
        assert [each async for each in rotulus.records.extractions()] == []
        assert [each async for each in rotulus.records.reviews("outcome")] == []
        job = await rotulus.enqueue(step("r"))
        await given_up(door, EXTRACTION_QUEUE, job.request_id, "why")
        letters = rotulus.records.dead_letters(EXTRACTION_QUEUE, "why")
        assert [each["request_id"] async for each in letters] == [job.request_id]


async def test_a_recompute_is_asked_for_once_by_its_key_and_waited_for(door: Door):
    submit(door.ledger, create("corpus/u 1?", "ConsolidatedUnderstanding"))
    async with client_of(door) as rotulus:
        job = await rotulus.recompute("corpus/u 1?", key="mine")
        again = await rotulus.recompute("corpus/u 1?", key="mine")
        assert job is not None
        assert again is not None
        assert (again.request_id, again.is_duplicate) == (job.request_id, True)
        [outcome] = await rotulus.outcomes([job], 0)
        assert outcome.state == "open"
        with pytest.raises(GatewayError) as caught:
            await rotulus.recompute("nobody")
        assert caught.value.code == "not_found"


async def test_a_thread_uses_the_same_client(door: Door):
    """The gateway is on this loop, the client on that of its own thread."""
    transport = ThreadTransport(door)

    def use() -> None:
        with BlockingRotulus(URL, transport=transport) as rotulus:
            job = rotulus.enqueue(step("r"), key="mine")
            anyio.from_thread.run(done, door, job.request_id)
            assert job.result(timeout=10).state == "completed"
            assert job.status().state == "completed"
            assert not job.cancel("late", decided_by="ada")
            assert not job.prioritize("normal")
            again = rotulus.job(EXTRACTION_QUEUE, job.request_id)
            assert again.result().operation_id
            assert rotulus.bindings.page(limit=1)["bindings"] == []
            assert len(rotulus.enqueue_many([binding("a"), binding("b")])) == 2
            for each, outcome in rotulus.run_many([NewRequest(step("r"), key="mine")]):
                assert outcome.request_id == each.request_id == job.request_id
            with pytest.raises(GatewayError):
                rotulus.recompute("nobody")
            with pytest.raises(TimeoutError):
                rotulus.enqueue(binding("c")).result(timeout=0)

    await anyio.to_thread.run_sync(use)
