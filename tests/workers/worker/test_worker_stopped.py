"""A worker that is told to stop in the middle of a long evaluation ends, and gives it back."""

import os
import signal
import time
from pathlib import Path

import anyio
import httpx
import pytest
from redis.asyncio import Redis

from kernel.work.contents import BINDING_QUEUE
from queues import NewRequest, Producer
from queues.work_queue import WorkQueue
from tests.forked import ForkedProgram
from tests.ports import free_port
from tests.workers.gateway.test_gateway import answers
from workers.environment.settings import Settings
from workers.gateway.process import serve_gateway

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOKEN = "the-token-of-these-tests"  # noqa: S105 - made up here
WAIT_S = 50
STOPPED_S = 8
"""Well below the 30 s of the evaluation, on a busy machine too."""


def worker(env: dict[str, str], *arguments: str, log: Path) -> ForkedProgram:
    module = "tests.workers.worker.worker_to_be_killed"
    return ForkedProgram(module, arguments, os.environ | env, log)


@pytest.mark.parametrize("how", ["loop", "thread", "deaf"])
async def test_an_evaluation_of_thirty_seconds_is_given_back_uncounted_by_a_stop(
    tmp_path: Path, valkey_url: str, how: str
):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = Settings(data_dir=tmp_path / "data", port=port, worker_token=TOKEN)
    env = {
        "ROTULUS_DATA_DIR": str(tmp_path / "data"),
        "ROTULUS_REDIS_URL": valkey_url,
        "ROTULUS_GATEWAY_URL": url,
        "ROTULUS_WORKER_TOKEN": TOKEN,
    }
    hold, began = anyio.Path(tmp_path / "hold"), anyio.Path(tmp_path / "began")
    await hold.touch()
    redis = Redis.from_url(valkey_url)
    await redis.flushall()
    queue = WorkQueue(redis, BINDING_QUEUE)
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_gateway, settings, valkey_url)
            async with httpx.AsyncClient(base_url=url) as client:
                while not await answers(client):
                    await anyio.sleep(0.02)
            async with Producer(BINDING_QUEUE, url) as producer:
                files = (str(hold), str(began))
                with worker(env, *files, how, log=tmp_path / "first.log") as first:
                    content = {"binding_id": "b", "source_event_id": "e"}
                    enqueued = await producer.enqueue(NewRequest(content))
                    while not await began.exists():
                        await anyio.sleep(0.02)
                    began_s = time.monotonic()
                    os.kill(first.pid, signal.SIGTERM)
                    code = await anyio.to_thread.run_sync(first.wait)
                    took_s = time.monotonic() - began_s
                assert (code, took_s < STOPPED_S) == (0, True), took_s
                [item] = await queue.peek(10, state="delayed")
                assert item.state_ends_at_ms is not None
                assert item.state_ends_at_ms <= time.time() * 1000
                assert (item.attempts, item.error) == (0, "worker_stopped")
                await hold.unlink()
                with worker(env, *files, "loop", log=tmp_path / "second.log"):
                    outcome = await producer.wait(enqueued.request_id, WAIT_S)
            assert outcome.state == "completed"
            tasks.cancel_scope.cancel()
    await redis.aclose()
