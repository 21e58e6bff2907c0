"""Notes to the gateways that relay: who is told, how often, and that Redis may be away."""

import anyio
import anyio.lowlevel
import pytest
from fakeredis import FakeAsyncRedis, FakeServer

from queues.gateways.inbox import Inbox
from queues.gateways.work_notices import PAUSE_S, WorkNotices

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(anyio_backend):
    return FakeServer()


async def test_who_relays_is_told_and_nobody_else(server):
    a, b, c = (Inbox(FakeAsyncRedis(server=server), name) for name in "abc")
    notices = WorkNotices(a, lambda: {"b"})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(notices.run)
        assert not (await b.listen(0.05)).work_recorded
        notices.notify()
        assert (await b.listen(5.0)).work_recorded
        assert not (await c.listen(0.05)).work_recorded
        tasks.cancel_scope.cancel()


async def test_many_commits_are_few_notes_and_the_last_one_is_told(server):
    redis = FakeAsyncRedis(server=server)
    notices = WorkNotices(Inbox(redis, "a"), lambda: {"b"})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(notices.run)
        for _ in range(100):
            notices.notify()
            await anyio.lowlevel.checkpoint()
        await anyio.sleep(4 * PAUSE_S)
        assert 1 <= await redis.llen("rotulus:{gateway:b}:inbox") <= 4
        notices.notify()
        await anyio.sleep(4 * PAUSE_S)
        assert await redis.llen("rotulus:{gateway:b}:inbox") >= 2
        tasks.cancel_scope.cancel()


async def test_a_note_that_redis_does_not_take_ends_nothing(server):
    b = Inbox(FakeAsyncRedis(server=server), "b")
    notices = WorkNotices(Inbox(FakeAsyncRedis(server=server), "a"), lambda: {"b"})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(notices.run)
        server.connected = False
        notices.notify()
        await anyio.sleep(4 * PAUSE_S)
        server.connected = True
        notices.notify()
        assert (await b.listen(5.0)).work_recorded
        tasks.cancel_scope.cancel()
