"""A fleet under load on a PostgreSQL that fails over to its standby, and back.

After each failover every answer that was ever given is compared with the record.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from pydantic import SecretStr

from tests.system.answered import Answers, Name, expect_listed, listed_lost
from tests.system.failover_load import Fleet, Load, running_fleet
from tests.system.gateways import HYPOTHESES
from tests.system.tree_run import wait_for
from tests.workers.cli.command import printed, rotulus
from workers.environment.checkpoint_key import last_signed_size
from workers.environment.ledger_access import read_record

pytestmark = [pytest.mark.timeout(180), pytest.mark.anyio, pytest.mark.may_block]

EACH = 5
"""So many answers of each kind are awaited between two faults."""

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
FLAPS = 2 if NIGHTLY else 1
"""By day a standby fails over once in each test."""

ALARM_S = 60.0
KEY = "log.key"
STRUCK = 3


async def off_loop(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return await anyio.to_thread.run_sync(partial(function, *arguments, **options))


@pytest.fixture(scope="module")
def fleet(replicated, tmp_path_factory: pytest.TempPathFactory):
    """One fleet for all tests; each begins with its URL's first host as the primary."""
    replicated.settle()
    folder = tmp_path_factory.mktemp("fleet")
    printed("checkpoint", "key", str(folder / KEY), "--origin", "log.example/fleet", "--json")
    settings = {"ROTULUS_CHECKPOINT_KEY": str(folder / KEY), "ROTULUS_CHECKPOINT_S": "1"}
    with running_fleet(folder, replicated.new_database(), **settings) as fleet:
        yield fleet


def went_back(fleet: Fleet) -> bool:
    problems = [gateway.readiness().get("problems", {}) for gateway in fleet.pair]
    return all("ledger_went_back" in each for each in problems)


async def expect_halted(fleet: Fleet, load: Load, session: str) -> None:
    """Neither gateway answers from memory, or takes anything."""
    await off_loop(wait_for, "the alarm", partial(went_back, fleet), ALARM_S, 0.05)
    load.clients.codes.clear()
    for _ in fleet.pair:
        assert await load.clients.ask("GET", f"/v1/sessions/{session}") is None
        assert not await load.clients.eliminate(session, len(HYPOTHESES) - 1)
        assert not await load.clients.operate(session, "while-it-is-halted")
    assert load.clients.codes == {"ledger_went_back"}


def signed_rows(fleet: Fleet) -> int:
    return last_signed_size(fleet.folder / KEY)


def rows(url: str) -> int:
    return read_record(SecretStr(url), lambda view: view.head().ec_sequence_number)


def wait_until_signed(fleet: Fleet, least: int) -> None:
    wait_for("a checkpoint", lambda: signed_rows(fleet) >= least, ALARM_S, 0.1)


def accept(fleet: Fleet, url: str) -> None:
    """Accept the ledger that is there, as an operator does it; the fleet goes on from it."""
    grounds = ("--reason", "the standby lagged", "--authority", "operations", "--json")
    environment = {"ROTULUS_GATEWAY_URL": fleet.pair[0].url, "ROTULUS_DATABASE_URL": url}
    done = rotulus("ledger", "accept-head", *grounds, **environment)
    assert done.exit_code == 0, done.output
    fleet.wait_until_ready()


def expect_exactly_listed(url: str, answers: Answers) -> set[Name]:
    """What was answered and is missing is what is listed of what was answered."""
    place = SecretStr(url)
    missing = expect_listed(place, answers)
    listed, _ = listed_lost(place)
    one_by_one = answers.operations | answers.requests | answers.outcomes
    answered = {(each.kind, each.name) for each in one_by_one}
    assert {(each.kind, each.name) for each in listed} & answered == {
        (each.kind, each.name) for each in missing if each.kind != "session"
    }
    return missing


def expect_no_sequence_twice(answers: Answers) -> None:
    sequences = [each.sequence for each in answers.operations]
    assert len(sequences) == len(set(sequences))


@pytest.mark.spec("K25", "K19")
async def test_nothing_is_lost_where_the_standby_is_in_step_and_the_fleet_goes_on_by_itself(
    replicated, fleet: Fleet
):
    url, answers = fleet.database_url, Answers()
    await off_loop(replicated.begin_at_first, url)
    processes = [*fleet.gateway_pids(), fleet.worker.pid]
    async with anyio.create_task_group() as tasks:
        load = Load(answers, fleet)
        tasks.start_soon(load.run)
        await load.wait_until_answered(EACH)
        for replays in (True, False)[-FLAPS:]:
            await off_loop(replicated.settle, synchronous=True)
            if not replays:
                await off_loop(replicated.pause_replay)
            await load.wait_until_answered(EACH)
            await off_loop(replicated.fail_over)
            await load.wait_until_answered(EACH)
            await off_loop(replicated.rejoin)
        tasks.cancel_scope.cancel()
    await load.clients.aclose()
    await off_loop(fleet.wait_until_ready)
    assert [*fleet.gateway_pids(), fleet.worker.pid] == processes
    assert fleet.worker.poll() is None
    expect_no_sequence_twice(answers)
    assert "ledger_went_back" not in load.clients.codes
    assert await off_loop(read_record, SecretStr(url), answers.missing) == set()
    await off_loop(fleet.gateways.verify)


@pytest.mark.spec("§17")
async def test_what_a_standby_that_lagged_had_not_received_is_listed_each_time(
    replicated, fleet: Fleet
):
    url, answers = fleet.database_url, Answers()
    await off_loop(replicated.begin_at_first, url)
    load = Load(answers, fleet)
    idle = await load.clients.declare(10**6)
    signed: set[int] = set()
    for flap in range(FLAPS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load.run)
            await load.wait_until_answered(EACH)
            for number in range(STRUCK):
                await strike(load, idle, 2 * STRUCK * flap + number)
            await off_loop(replicated.settle)
            on_record = answers.events[idle]
            await off_loop(replicated.cut_off)
            for number in range(STRUCK, 2 * STRUCK):
                await strike(load, idle, 2 * STRUCK * flap + number)
            await load.wait_until_answered(EACH)
            if flap == 0:
                await off_loop(wait_until_signed, fleet, await off_loop(rows, url))
            await off_loop(replicated.fail_over)
            await off_loop(wait_for, "the alarm", partial(went_back, fleet), ALARM_S, 0.05)
            tasks.cancel_scope.cancel()
        signed.add(signed_rows(fleet))
        expect_no_sequence_twice(answers)
        await expect_halted(fleet, load, idle)
        await off_loop(accept, fleet, url)

        missing = await off_loop(expect_exactly_listed, url, answers)
        assert {each.kind for each in missing} == {"operation", "request", "outcome", "session"}
        assert Name("session", idle, on_record + STRUCK) in missing
        answers.forget(missing)
        snapshot = await load.clients.ask("GET", f"/v1/sessions/{idle}")
        assert snapshot is not None
        assert len(HYPOTHESES) - snapshot["n_survivors"] == on_record - 1
        answers.events[idle] = on_record
        await off_loop(replicated.rejoin)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(load.run)
        await load.wait_until_answered(EACH)
        tasks.cancel_scope.cancel()
    await load.clients.aclose()
    assert await off_loop(expect_listed, SecretStr(url), answers) == set()
    await off_loop(fleet.gateways.verify)
    # What was signed has rows that are lost, so nothing more is signed under its name.
    assert signed == {signed_rows(fleet)}


async def strike(load: Load, session: str, number: int) -> None:
    while not await load.clients.eliminate(session, number):
        pass


@pytest.mark.spec("§17")
async def test_an_old_primary_that_comes_back_as_it_was_is_noticed_and_gone_on_beside(
    replicated, fleet: Fleet
):
    """It is the first host of the URL, and may be written: new connections are led to it.

    Once it follows the new primary, the fleet goes on by itself: nothing is lost.
    """
    url, answers = fleet.database_url, Answers()
    await off_loop(replicated.begin_at_first, url)
    async with anyio.create_task_group() as tasks:
        load = Load(answers, fleet)
        tasks.start_soon(load.run)
        await load.wait_until_answered(EACH)
        await off_loop(replicated.settle, synchronous=True)
        await off_loop(replicated.fail_over)
        await load.wait_until_answered(EACH)
        await off_loop(replicated.return_as_it_was)
        await off_loop(replicated.end_clients)
        await off_loop(wait_for, "the alarm", partial(went_back, fleet), ALARM_S, 0.05)
        tasks.cancel_scope.cancel()
    expect_no_sequence_twice(answers)
    session = next(iter(answers.events))
    await expect_halted(fleet, load, session)
    await off_loop(replicated.rejoin)
    await off_loop(fleet.wait_until_ready)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(load.run)
        await load.wait_until_answered(EACH)
        tasks.cancel_scope.cancel()
    await load.clients.aclose()
    expect_no_sequence_twice(answers)
    assert await off_loop(read_record, SecretStr(url), answers.missing) == set()
    await off_loop(fleet.gateways.verify)
