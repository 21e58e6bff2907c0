"""A worker that is killed reads late at every door once it misses a beat, and then is gone."""

import re
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.workers.cli.command import rotulus
from tests.workers.gateway.served import until
from tests.workers.worker.binding_workers import BindingWorkers

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


async def test_a_killed_worker_is_late_at_every_door_and_then_gone(tmp_path: Path, valkey_url: str):
    workers = BindingWorkers(tmp_path, valkey_url, "workers")
    status = partial(rotulus, "status", "--gateway", workers.url)
    async with workers.gateway() as client:

        async def queues(name):
            return (await client.get("/v1/queues")).json()[name]

        async def gone():
            return not await queues("fleet")

        with workers.worker("worker") as process:
            [beat] = await until(partial(queues, "fleet"))
            worker_id = beat["worker_id"]
            assert await queues("late_workers") == []
            assert "late" not in (await anyio.to_thread.run_sync(status)).output
            process.kill()
            assert await until(partial(queues, "late_workers")) == [worker_id]
            overview = (await client.get("/")).text
            output = (await anyio.to_thread.run_sync(status)).output
            await until(gone)
            assert await queues("late_workers") == []
    row = overview[overview.index(f">{worker_id}<") :].partition("</tr>")[0]
    assert re.search(r'data-f="state">late<', row)
    assert re.search(rf"^worker +{worker_id}: .*, late, seen at ", output, re.MULTILINE)
    assert f"! warning   {worker_id} missed a beat" in output
