"""What is done of a batch is noted wherever it is done, and nothing of another batch is."""

import anyio
import anyio.to_thread
import pytest

from workers.worker.batch_progress import BatchProgress, note_progress

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def test_what_is_done_in_a_task_or_a_thread_of_a_batch_is_its_progress():
    clock = Clock()
    progress, other = BatchProgress(clock), BatchProgress(clock)

    async def in_a_task() -> None:
        note_progress()

    with progress.follow():
        clock.now_s += 30
        assert progress.stalled_s == 30
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(in_a_task)
        assert progress.stalled_s == 0
        clock.now_s += 30
        await anyio.to_thread.run_sync(note_progress)
        assert progress.stalled_s == 0
    clock.now_s += 30
    note_progress()
    assert (progress.stalled_s, other.stalled_s) == (30, 90)
