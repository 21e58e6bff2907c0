"""A worker that is told to stop in the middle of a long evaluation ends, and gives it back."""

import os
import signal
import time
from pathlib import Path

import anyio
import pytest
from redis.asyncio import Redis

from kernel.work.contents import BINDING_QUEUE
from queues.queue.work_queue import WorkQueue
from tests.workers.worker import worker_to_be_killed
from tests.workers.worker.binding_workers import BindingWorkers
from workers.client import BindingEvaluation, Rotulus

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WAIT_S = 50


@pytest.mark.parametrize("how", ["loop", "thread", "deaf"])
async def test_an_evaluation_of_thirty_seconds_is_given_back_uncounted_by_a_stop(
    tmp_path: Path, valkey_url: str, how: str
):
    workers = BindingWorkers(tmp_path, valkey_url, worker_to_be_killed.__name__)
    hold, began = anyio.Path(tmp_path / "hold"), anyio.Path(tmp_path / "began")
    await hold.touch()
    redis = Redis.from_url(valkey_url)
    await redis.flushall()
    queue = WorkQueue(redis, BINDING_QUEUE)
    with anyio.fail_after(WAIT_S):
        async with workers.gateway(), Rotulus(workers.url) as rotulus:
            with workers.worker(hold, began, how) as first:
                content = BindingEvaluation(binding_id="b", source_event_id="e")
                job = await rotulus.enqueue(content)
                while not await began.exists():
                    await anyio.sleep(0.02)
                os.kill(first.pid, signal.SIGTERM)
                code = await anyio.to_thread.run_sync(first.wait)
            assert code == 0
            [item] = await queue.peek(10, state="delayed")
            assert item.state_ends_at_ms is not None
            assert item.state_ends_at_ms <= time.time() * 1000
            assert (item.attempts, item.error) == (0, "worker_stopped")
            await hold.unlink()
            with workers.worker(hold, began, "loop"):
                outcome = await job.result(WAIT_S)
            assert outcome.state == "completed"
    await redis.aclose()
