"""Jobs that fail, snooze, refuse, cancel themselves, exit and vanish: one outcome each.

Meanwhile processes are killed and frozen, Redis is flushed, and the queue is paused.
"""

import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import anyio
import pytest
from redis.exceptions import RedisError

from tests.system.essence import outcomes_for_each_request
from tests.system.test_three_queues import flush
from tests.system.tree_run import TreeRun, running
from workers.client import JobFailed, JobFailures, JobOutcome, NewRequest, Rotulus

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]

ATTEMPTS = 4
SNOOZES = 3
WAIT_S = 200
RECOVERED = "handler_failed: ValueError"
OF_FAULTS = {"worker_lost", "content_unreadable: ForeignCodeHangs", "handler_timed_out"}
"""What an attempt comes to whose worker is killed, or frozen for longer than a limit of time."""

SIGNATURE = "ValueError in own_jobs.chaotic: no image #"
JOBS = """
import asyncio
import os
import sys
from pathlib import Path

from rotulus_client import Rotulus
from workers.plugins import App, JobContext, JobRefused, Retry, RetryAfter

app = App()
clients = []


@app.job(context=True, retry=Retry(attempts=4, pause_s=0.3, pause_s_max=1.0, snoozes=3))
async def chaotic(job: JobContext, way: str, number: int, folder: str) -> dict[str, int]:
    with Path(folder, f"{way}-{number}").open("a") as runs:
        runs.write(f"{job.attempt} {job.snoozes}\\n")
    if way == "fails" or (way == "recovers" and job.attempt < 3):
        raise ValueError(f"no image {number}")
    if way == "snoozes" and job.snoozes < 2 or way == "snoozes for ever":
        raise RetryAfter(0.2)
    if way == "refuses":
        raise JobRefused("unreadable")
    if way == "is cancelled within":
        raise asyncio.CancelledError
    if way == "asks to exit":
        sys.exit(3)
    if way == "takes itself back":
        clients.extend([Rotulus()] if not clients else [])
        await clients[0].job("chaotic", job.request_id).cancel("by itself")
    if way == "vanishes":
        os._exit(3)
    return {"number": number}


@app.job(retry=Retry(attempts=3, pause_s=12.0))
async def pausing(name: str) -> None:
    raise OSError("the service is away")
"""

EXPECTED = {
    "succeeds": ("completed", None),
    "recovers": ("completed", None),
    "snoozes": ("completed", None),
    "fails": ("dead_letter", "handler_failed: ValueError"),
    "snoozes for ever": ("dead_letter", "snoozes_exhausted"),
    "refuses": ("dead_letter", "unreadable"),
    "is cancelled within": ("dead_letter", "handler_failed: CancelledError"),
    "asks to exit": ("dead_letter", "handler_failed: SystemExit"),
    "takes itself back": ("cancelled", "by itself"),
    "vanishes": ("dead_letter", "worker_ended_three_times"),
}
USES_ALL_ATTEMPTS = {"fails", "is cancelled within", "asks to exit"}


def started(tmp_path: Path) -> Any:
    (tmp_path / "own_jobs.py").write_text(JOBS)
    env = {"PYTHONPATH": str(tmp_path)}
    return running(tmp_path / "data", "up", "--app", "own_jobs:app", env=env)


async def ready(run: TreeRun, queue: str) -> str:
    url: str = (await anyio.to_thread.run_sync(run.wait_until_up))["gateway_url"]
    async with Rotulus(url) as rotulus:
        while queue not in (await rotulus.gateway.ask("GET", "/v1/queues")).text:
            await anyio.sleep(0.2)
    return url


@pytest.mark.spec("§8.3")
async def test_a_killed_worker_and_a_flush_leave_a_pause_and_its_attempts(tmp_path: Path):
    with started(tmp_path) as run:
        url = await ready(run, "pausing")
        async with Rotulus(url) as rotulus:
            job = await rotulus.enqueue({"name": "a"}, queue="pausing")
            while not (before := await job.failures()).failures:
                await anyio.sleep(0.1)
            run.kill("worker")
            await anyio.to_thread.run_sync(flush, run)
            run.kill("redis")
            await anyio.sleep(4)
            after = await job.failures()
            assert (after.failures, after.next_attempt_at) == (1, before.next_attempt_at)
            while (again := await job.failures()).failures < 2:
                await anyio.sleep(0.1)
            assert again.attempts[1].started_at >= str(before.next_attempt_at)
            assert again.attempts[0].worker != again.attempts[1].worker
            assert again.signature == "OSError in own_jobs.pausing: the service is away"
            assert await job.cancel()
            with pytest.raises(JobFailed) as failed:
                await job.value(timeout=5)
            assert [each.attempt_number for each in failed.value.attempts] == [1, 2]


async def kill(role: str, run: TreeRun, _: Rotulus) -> None:
    with suppress(RedisError):  # it may be away since it was killed
        await anyio.to_thread.run_sync(flush, run)
    run.kill(role)


async def freeze(run: TreeRun, _: Rotulus) -> None:
    """A worker stands still for longer than its claims hold, and then goes on."""
    pid = run.pid_of("worker")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        await anyio.sleep(8)
        os.kill(pid, signal.SIGCONT)


async def pause(_: TreeRun, rotulus: Rotulus) -> None:
    for verb in ("pause", "resume"):
        await rotulus.gateway.ask("POST", f"/v1/queues/chaotic/{verb}", json={})
        await anyio.sleep(1)


Strike = Callable[[TreeRun, Rotulus], Awaitable[None]]
STRIKES: tuple[Strike, ...] = (
    *(partial(kill, role) for role in ("worker", "redis", "worker")),
    *(pause, freeze, partial(kill, "gateway")),
)


@pytest.mark.parametrize(
    ("jobs", "vanish", "strikes", "each_s"),
    [
        (45, 1, 4, 2),
        pytest.param(20_000, 3, 48, 5, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)]),
    ],
)
async def test_each_job_has_one_outcome_and_its_reason_whatever_is_killed_and_flushed(
    tmp_path: Path, jobs: int, vanish: int, strikes: int, each_s: float
):
    ways = [way for way in EXPECTED if way != "vanishes"]
    named = [(ways[number % len(ways)], number) for number in range(jobs)]
    named += [("vanishes", number) for number in range(vanish)]
    chance = random.Random(jobs)
    with started(tmp_path) as run:
        url = await ready(run, "chaotic")
        async with Rotulus(url) as rotulus:
            handles = await rotulus.enqueue_many(
                [
                    NewRequest(
                        {"way": way, "number": number, "folder": str(tmp_path)},
                        queue="chaotic",
                        key=f"{way} {number}",
                    )
                    for way, number in named
                ]
            )
            cancelled = [job for job in handles if chance.random() < 0.05]

            async def strike() -> None:
                for befalls in islice(cycle(STRIKES), strikes):
                    await anyio.sleep(each_s)
                    await befalls(run, rotulus)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(strike)
                taken_back = {job.request_id for job in cancelled if await job.cancel()}
            with anyio.fail_after(WAIT_S + jobs / 4):
                outcomes = [await job.result() for job in handles]
            for (way, number), job, outcome in zip(named, handles, outcomes, strict=True):
                check_calls(tmp_path / f"{way}-{number}")
                if job.request_id in taken_back:
                    assert outcome.state == "cancelled"
                else:
                    check(way, outcome, await job.failures())
    assert outcomes_for_each_request(run.ledger_path) == {1}


def check_calls(file: Path) -> None:
    """Each call of the function was of an attempt and after pauses that its policy has."""
    lines = file.read_text().splitlines() if file.exists() else []
    calls = [[int(word) for word in line.split()] for line in lines]
    assert all(attempt <= ATTEMPTS and snoozes <= SNOOZES for attempt, snoozes in calls)


def check(way: str, outcome: JobOutcome, tried: JobFailures) -> None:
    """The outcome is that of its way, with its reason, after no more attempts than its policy."""
    said = outcome.state, outcome.reason
    if said == ("dead_letter", "worker_ended_three_times"):
        assert tried.worker_ends == 3
    else:
        assert said == EXPECTED[way], way
    assert tried.failures <= ATTEMPTS
    assert tried.snoozes <= SNOOZES + 1
    assert tried.worker_ends <= 3
    codes = {each.code for each in tried.attempts} - OF_FAULTS
    assert codes <= {str(EXPECTED[way][1])} | ({RECOVERED} if way == "recovers" else set())
    assert all(each.worker.startswith("worker-") for each in tried.attempts)
    if way in USES_ALL_ATTEMPTS and said == EXPECTED[way]:
        assert tried.failures == ATTEMPTS
    if way == "fails" and said == EXPECTED[way]:
        assert tried.signature in (SIGNATURE, "worker_lost")
