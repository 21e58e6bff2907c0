"""What a handler says of a job is a hint: kept for an hour, and nothing where it is unreadable."""

import pytest
from fakeredis import FakeAsyncRedis

from queues.queue.job_progress import KEPT_S, JobProgress, NotedProgress

pytestmark = pytest.mark.anyio


async def test_the_last_word_about_a_job_is_kept_for_an_hour():
    redis = FakeAsyncRedis()
    progress = JobProgress(redis)
    assert await progress.of("letters", "r") is None
    await progress.note("letters", "r", 10, "sorting")
    await progress.note("letters", "r", 60, "é" * 200)
    assert await progress.of("letters", "r") == NotedProgress(60, "é" * 200)
    assert await progress.of("parcels", "r") is None
    [key] = await redis.keys()
    assert 0 < await redis.ttl(key) <= KEPT_S


@pytest.mark.parametrize("garbage", [b"{", b"[]", b'{"percent":101,"note":""}', b"\xff" * 4000])
async def test_what_nobody_can_read_is_no_progress(garbage: bytes):
    redis = FakeAsyncRedis()
    progress = JobProgress(redis)
    await progress.note("letters", "r", 10, "")
    [key] = await redis.keys()
    await redis.set(key, garbage)
    assert await progress.of("letters", "r") is None
