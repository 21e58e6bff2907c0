"""A worker killed in the middle of an evaluation: another takes it up within seconds."""

import os
from pathlib import Path

import anyio
import httpx
import pytest
from redis.asyncio import Redis

from kernel.work.contents import BINDING_QUEUE
from queues import NewRequest, Producer
from queues.capacity_leases import CAPACITY_RESOURCE, CapacityLeases
from tests.forked import ForkedProgram
from tests.ports import free_port
from tests.workers.gateway.test_gateway import answers
from workers.environment.settings import Settings
from workers.gateway.process import serve_gateway
from workers.worker.arq_runner import TICK_EVERY_S
from workers.worker.consumers import VISIBILITY_MS
from workers.worker.cron import CRONS
from workers.worker.handlers.binding_evaluator import (
    EVALUATION_S_MAX,
    LEASE_TTL_MS,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOKEN = "the-token-of-these-tests"  # noqa: S105 - made up here
WAIT_S = 50
TAKEN_UP_S = VISIBILITY_MS / 1000 + CRONS["reap"].every_s + TICK_EVERY_S
SLACK_S = 12


def worker(env: dict[str, str], *files: Path) -> ForkedProgram:
    module, log = "tests.workers.worker.worker_to_be_killed", files[0].with_suffix(".log")
    return ForkedProgram(module, [*map(str, files)], os.environ | env, log)


def test_what_a_dead_worker_held_comes_back_long_before_an_evaluation_may_end():
    assert TAKEN_UP_S < EVALUATION_S_MAX / 3
    assert LEASE_TTL_MS <= VISIBILITY_MS


@pytest.mark.spec("§14.3", "K19")
async def test_a_background_binding_of_a_killed_worker_is_evaluated_by_another_within_seconds(
    tmp_path: Path, valkey_url: str
):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = Settings(data_dir=tmp_path / "data", port=port, worker_token=TOKEN)
    env = {
        "ROTULUS_DATA_DIR": str(tmp_path / "data"),
        "ROTULUS_REDIS_URL": valkey_url,
        "ROTULUS_GATEWAY_URL": url,
        "ROTULUS_WORKER_TOKEN": TOKEN,
        "ROTULUS_BINDING_SLOTS": "1",
    }
    hold, began = anyio.Path(tmp_path / "hold"), anyio.Path(tmp_path / "began")
    await hold.touch()
    redis = Redis.from_url(valkey_url)
    leases = CapacityLeases(redis)
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_gateway, settings, valkey_url)
            async with httpx.AsyncClient(base_url=url) as client:
                while not await answers(client):
                    await anyio.sleep(0.02)
            async with Producer(BINDING_QUEUE, url) as producer:
                with worker(env, Path(hold), Path(began)) as first:
                    content = {"binding_id": "b", "source_event_id": "e"}
                    enqueued = await producer.enqueue(NewRequest(content))
                    while not await began.exists():
                        await anyio.sleep(0.02)
                    # It is kept for as long as the evaluation runs, beyond its time to live.
                    await anyio.sleep(LEASE_TTL_MS / 1000 + 1)
                    [held] = await leases.held(CAPACITY_RESOURCE)
                    assert held.capacity_priority == "background"
                    first.kill()
                    first.wait()
                await hold.unlink()
                with worker(env, Path(hold), Path(began)):
                    outcome = await producer.wait(enqueued.request_id, TAKEN_UP_S + SLACK_S)
            assert outcome.state == "completed"
            tasks.cancel_scope.cancel()
    await redis.aclose()
