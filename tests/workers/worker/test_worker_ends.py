"""An item that ends its worker process: its neighbours complete, and it is set aside."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from kernel.work.contents import BINDING_QUEUE
from kernel.work.retry_policy import WORKER_ENDS_MAX as ENDS_MAX
from tests.forked import ForkedProgram
from tests.workers.worker import worker_that_ends
from tests.workers.worker.binding_workers import BindingWorkers
from tests.workers.worker.worker_that_ends import MARKER
from workers.client import BindingEvaluation, Rotulus
from workers.environment.ledger_verification import verify_file
from workers.worker.batches import ENDED_ITS_WORKERS

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]

WAIT_S = 300
NAMES = [*(f"sound-{number}" for number in range(19)), MARKER]


class Restarted:
    """A worker that is started again whenever it ends, and how often it did."""

    def __init__(self, start: Callable[[], ForkedProgram]) -> None:
        self._start = start
        self.ends = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run)
            yield
            tasks.cancel_scope.cancel()

    async def _run(self) -> None:
        while True:
            with self._start() as worker:
                while worker.poll() is None:
                    await anyio.sleep(0.05)
            self.ends += 1


@pytest.mark.spec("K19")
async def test_an_item_that_ends_its_worker_is_set_aside_and_the_rest_of_its_batch_completes(
    tmp_path: Path, valkey_url: str
):
    workers = BindingWorkers(tmp_path, valkey_url, worker_that_ends.__name__)
    began, cured = tmp_path / "began", tmp_path / "cured"
    worker = Restarted(partial(workers.worker, began, cured))
    with anyio.fail_after(WAIT_S):
        async with (
            workers.gateway() as client,
            Rotulus(workers.url) as rotulus,
            worker.running(),
        ):
            jobs = await rotulus.enqueue_many(
                BindingEvaluation(binding_id=name, source_event_id=name) for name in NAMES
            )
            outcomes = await rotulus.outcomes(jobs, WAIT_S)
            assert [result.state for result in outcomes] == ["completed"] * 19 + ["dead_letter"]
            # Once in the batch, where it counted for nobody, and then alone.
            assert began.read_text().split().count(MARKER) == worker.ends == 1 + ENDS_MAX
            dead = (await client.get(f"/v1/queues/{BINDING_QUEUE}/dead-letters")).json()
            assert dead["by_signature"] == {ENDED_ITS_WORKERS: 1}
            [letter] = dead["dead_letters"]
            cured.touch()
            body = {"request_ids": [letter["request_id"]]}
            anew = await client.post(f"/v1/queues/{BINDING_QUEUE}/requeue", json=body)
            [again] = anew.json()["requests"]
            outcome = await rotulus.job(BINDING_QUEUE, again["request_id"]).result(60)
            assert (outcome.state, worker.ends) == ("completed", 1 + ENDS_MAX)
    verified = await anyio.to_thread.run_sync(
        verify_file, tmp_path / "data" / "ledger.db", lambda _done, _total: None
    )
    assert verified.findings == ()
