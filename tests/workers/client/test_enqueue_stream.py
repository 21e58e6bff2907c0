"""A stream of requests: many on their way, no more than may be, all on the record at its end."""

import anyio
import httpx
import pytest

from tests.workers.client.scripted_gateway import WORK, ScriptedGateway, refusal, taken
from workers.client import GatewayError

pytestmark = pytest.mark.anyio


async def test_what_was_put_is_on_the_record_when_the_stream_ends():
    gate = anyio.Event()

    async def late(request: httpx.Request) -> httpx.Response:
        await gate.wait()
        return taken(request)

    gateway = ScriptedGateway(late)
    async with gateway.client() as rotulus:
        async with rotulus.enqueue_stream(waiting_max=500) as stream:
            for number in range(500):
                await stream.put(WORK, key=str(number))
            gate.set()
        assert stream.recorded == 500
    keys = [stated["request_key"] for body in gateway.bodies for stated in body["requests"]]
    assert sorted(keys) == sorted(str(number) for number in range(500))
    assert len(gateway.requests) < 10, "what is put meanwhile goes together"


async def test_no_more_wait_than_may():
    gate, put = anyio.Event(), []

    async def late(request: httpx.Request) -> httpx.Response:
        await gate.wait()
        return taken(request)

    async def fill(rotulus):
        async with rotulus.enqueue_stream(waiting_max=10) as stream:
            for number in range(25):
                await stream.put(WORK)
                put.append(number)

    gateway = ScriptedGateway(late)
    async with gateway.client() as rotulus, anyio.create_task_group() as tasks:
        tasks.start_soon(fill, rotulus)
        await anyio.wait_all_tasks_blocked()
        assert len(put) == 10
        gate.set()
    assert len(put) == 25


async def test_what_comes_slowly_is_sent_at_once():
    gateway = ScriptedGateway(taken)
    async with gateway.client() as rotulus, rotulus.enqueue_stream() as stream:
        await stream.put(WORK)
        await anyio.wait_all_tasks_blocked()
        assert (len(gateway.requests), stream.recorded) == (1, 1)


async def put_after(rotulus, *steps):
    async with rotulus.enqueue_stream() as stream:
        await stream.put(WORK)
        for step in steps:
            await step(stream)


async def put_again(stream):
    await anyio.wait_all_tasks_blocked()
    await stream.put(WORK)


async def fail(_):
    raise LookupError("mine")


async def never(_):
    await anyio.sleep_forever()


async def test_a_refusal_ends_the_stream_by_itself_and_not_in_a_group():
    gateway = ScriptedGateway(refusal(422, "work_request_invalid", field="content"))
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError, match="why"):
            await put_after(rotulus)
        with pytest.raises(GatewayError, match="why"):
            await put_after(rotulus, put_again, fail)


async def test_who_fails_in_the_block_or_is_cancelled_leaves_it():
    gateway = ScriptedGateway(never)
    async with gateway.client() as rotulus:
        with pytest.raises(LookupError, match="mine"):
            await put_after(rotulus, fail)
        for steps in ((never,), ()):
            with anyio.move_on_after(0.05) as scope:
                await put_after(rotulus, *steps)
            assert scope.cancelled_caught
