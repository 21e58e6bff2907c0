"""A loaded fleet on two servers under Patroni: the primary is killed, and nothing is lost."""

import os
import shutil
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from tests.deploy.patroni import PROGRAMS, STAND_S, patroni_servers, postgres_programs
from tests.system.answered import Answers
from tests.system.failover_load import Load, running_fleet
from tests.system.test_ledger_put_back import off_loop
from tests.system.tree_run import wait_for
from workers.environment.ledger_access import read_record
from workers.environment.ledger_verification import verify_file

MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
MISSING += [] if postgres_programs() else ["postgresql"]
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.may_block,
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="root alone starts servers as another user"),
]
EACH = 5


async def test_patroni_promotes_the_synchronous_standby_and_nothing_of_what_was_answered_is_lost(
    tmp_path: Path,
):
    answers = Answers()
    with patroni_servers() as servers:
        url = servers.new_database()
        with running_fleet(tmp_path, url) as fleet:
            await off_loop(fleet.wait_until_ready)
            load = Load(answers, fleet)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(load.run)
                await load.wait_until_answered(EACH)
                before = await off_loop(servers.kill_primary)
                await off_loop(
                    wait_for,
                    "another primary",
                    lambda: servers.primary() not in ("", before),
                    STAND_S,
                )
                await load.wait_until_answered(EACH)
                await off_loop(servers.bring_back, before)
                await load.wait_until_answered(EACH)
                tasks.cancel_scope.cancel()
            await load.clients.aclose()
            assert "ledger_went_back" not in load.clients.codes
        place = SecretStr(url)
        assert await off_loop(read_record, place, answers.missing) == set()
        verification = await off_loop(verify_file, place, lambda _done, _total: None)
    assert verification.findings == ()
