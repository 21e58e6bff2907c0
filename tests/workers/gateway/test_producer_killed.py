"""A gateway killed between the commit and the answer: the producer gets its one request."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.work.contents import BINDING_QUEUE
from tests import loopback
from tests.forked import ForkedProgram
from tests.ports import free_port
from tests.workers.api.asking import binding
from tests.workers.api.door import rows
from tests.workers.gateway.served import until_it_answers
from workers.client import Job, NewRequest, Rotulus
from workers.environment.ledger_verification import verify_file
from workers.environment.system_host import system_host

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WAIT_S = 50
MANY = 100


def gateway(data_dir: Path, *arguments: object) -> ForkedProgram:
    return ForkedProgram(
        "tests.workers.gateway.gateway_to_be_killed",
        [*map(str, (data_dir, *arguments))],
        os.environ | {"ROTULUS_LOG_LEVEL": "error"},
        data_dir.with_suffix(".log"),
    )


async def until_it_serves(url: str) -> None:
    async with loopback.client(base_url=url) as client:
        await until_it_answers(client)


@pytest.mark.spec("K6", "K19", "K25", "§2.5")
async def test_what_was_committed_and_never_answered_is_the_same_request_when_sent_again(
    tmp_path: Path, valkey_url: str
):
    data_dir, port, arm = tmp_path / "data", free_port(), tmp_path / "arm"
    url = f"http://127.0.0.1:{port}"
    jobs: list[Job] = []

    async def ask() -> None:
        async with Rotulus(url) as rotulus:
            contents = [binding(str(number))["content"] for number in range(MANY)]
            wanted = [NewRequest(content, queue=BINDING_QUEUE) for content in contents]
            jobs.extend(await rotulus.enqueue_many(wanted))

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            with gateway(data_dir, port, valkey_url, arm) as first:
                await until_it_serves(url)
                arm.touch()
                tasks.start_soon(ask)
                assert await anyio.to_thread.run_sync(first.wait) == -signal.SIGKILL
            assert jobs == [], "nobody was answered"
            ledger = Ledger(SqliteStore(data_dir / "ledger.db"), system_host())
            committed = {row["request_id"] for row in rows(ledger, schema.outbox)}
            ledger.close()
            assert len(committed) == MANY
            with gateway(data_dir, port, valkey_url):
                while not jobs:
                    await anyio.sleep(0.02)
    assert {job.request_id for job in jobs} == committed
    assert all(job.is_duplicate for job in jobs)
    verification = await anyio.to_thread.run_sync(
        verify_file, data_dir / "ledger.db", lambda _done, _total: None
    )
    assert verification.findings == ()
    assert verification.requests_open == MANY
