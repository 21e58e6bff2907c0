"""A fleet under load on a PostgreSQL that fails over to its standby, and back."""

from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from tests.system.failover_load import Answered, Load, running_fleet  # noqa: E402 - the driver
from tests.system.gateways import RetryingClient  # noqa: E402 - likewise

pytestmark = [pytest.mark.timeout(180), pytest.mark.anyio, pytest.mark.may_block]

EACH = 5
"""So many answers of each kind are awaited between two faults."""


@pytest.mark.spec("K25", "K19")
async def test_nothing_is_lost_where_the_standby_is_in_step_and_the_fleet_goes_on_by_itself(
    replicated, tmp_path: Path
):
    run = anyio.to_thread.run_sync
    replicated.settle()
    url = replicated.new_database()
    answered = Answered()
    with running_fleet(tmp_path, url) as gateways:
        processes = [gateway.process.pid for gateway in gateways.started]
        async with RetryingClient(*gateways.started) as client, anyio.create_task_group() as tasks:
            load = Load(client, answered)
            tasks.start_soon(load.run)
            await load.wait_until_answered(EACH)
            for prepare in (lambda: None, replicated.pause_replay):
                await run(partial(replicated.settle, synchronous=True))
                await run(prepare)
                await load.wait_until_answered(EACH)
                await run(replicated.fail_over)
                await load.wait_until_answered(EACH)
                await run(replicated.rejoin)
            tasks.cancel_scope.cancel()
        for gateway in gateways.started:
            gateway.wait_until_ready()
        assert [gateway.process.pid for gateway in gateways.started] == processes
        assert all(gateway.process.poll() is None for gateway in gateways.started)
        assert answered.twice == []
        assert answered.missing(url) == Answered()
        assert answered.total() > 4 * 5 * EACH
        gateways.verify()
