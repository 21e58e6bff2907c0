"""A worker killed in the middle of an evaluation: another takes it up within seconds."""

from pathlib import Path

import anyio
import pytest
from redis.asyncio import Redis

from queues.leases.capacity_leases import CAPACITY_RESOURCE, CapacityLeases
from tests.workers.worker import worker_to_be_killed
from tests.workers.worker.binding_workers import BindingWorkers
from workers.client import BindingEvaluation, Rotulus
from workers.worker.arq_runner import TICK_EVERY_S
from workers.worker.cron import CRONS
from workers.worker.drain_slots import VISIBILITY_MS
from workers.worker.handlers.binding_evaluator import (
    EVALUATION_S_MAX,
    LEASE_TTL_MS,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WAIT_S = 50
TAKEN_UP_S = VISIBILITY_MS / 1000 + CRONS["reap"].every_s + TICK_EVERY_S
SLACK_S = 12


def test_what_a_dead_worker_held_comes_back_long_before_an_evaluation_may_end():
    assert TAKEN_UP_S < EVALUATION_S_MAX / 3
    assert LEASE_TTL_MS <= VISIBILITY_MS


@pytest.mark.spec("§14.3", "K19")
async def test_a_background_binding_of_a_killed_worker_is_evaluated_by_another_within_seconds(
    tmp_path: Path, valkey_url: str
):
    workers = BindingWorkers(
        tmp_path, valkey_url, worker_to_be_killed.__name__, ROTULUS_BINDING_SLOTS="1"
    )
    hold, began = anyio.Path(tmp_path / "hold"), anyio.Path(tmp_path / "began")
    await hold.touch()
    redis = Redis.from_url(valkey_url)
    leases = CapacityLeases(redis)
    with anyio.fail_after(WAIT_S):
        async with workers.gateway(), Rotulus(workers.url) as rotulus:
            with workers.worker(hold, began) as first:
                content = BindingEvaluation(binding_id="b", source_event_id="e")
                job = await rotulus.enqueue(content)
                while not await began.exists():
                    await anyio.sleep(0.02)
                # It is kept for as long as the evaluation runs, beyond its time to live.
                await anyio.sleep(LEASE_TTL_MS / 1000 + 1)
                [held] = await leases.active_leases(CAPACITY_RESOURCE)
                assert held.capacity_priority == "background"
                first.kill()
                first.wait()
            await hold.unlink()
            with workers.worker(hold, began):
                outcome = await job.result(TAKEN_UP_S + SLACK_S)
            assert outcome.state == "completed"
    await redis.aclose()
