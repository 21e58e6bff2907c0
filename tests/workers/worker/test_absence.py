"""Whoever cannot be reached is tried less and less often, and that is said once a minute."""

import itertools
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from queues.fleet.worker_heartbeats import Heartbeats
from queues.leases.capacity_leases import CapacityLeases
from queues.redis.connection import connect_redis
from queues.redis.watch import RedisWatch
from tests.ports import free_port
from tests.workers.worker.test_gateway_reports import ClockedReporter
from workers.client.errors import GatewayError
from workers.worker import arq_runner
from workers.worker.absence import SAID_EVERY_S, Absence
from workers.worker.arq_runner import WorkerProcess
from workers.worker.cron import RETRY_MAX_S, Cron, CronRunner, CronTools
from workers.worker.gateway_reports import AWAY_FIRST_S, AWAY_MAX_S

pytestmark = pytest.mark.anyio


def said(logs: list[Any], event: str) -> list[Any]:
    return [entry for entry in logs if entry["event"] == event]


def test_the_pause_doubles_up_to_a_limit_and_begins_anew_once_it_was_reached():
    absence = Absence("away", 1.0, 5.0)
    pauses = []
    for _ in range(5):
        absence.note_failure(100.0, "no answer")
        pauses.append(absence.try_at_s - 100.0)
    assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0]
    absence.note_end()
    absence.note_failure(100.0, "no answer")
    assert absence.try_at_s == 101.0


def test_who_comes_and_goes_is_said_to_be_away_once_a_minute_too():
    absence = Absence("away", 1.0, 5.0)
    with capture_logs() as logs:
        for second in range(121):
            absence.note_failure(float(second), "no answer")
            absence.note_end()
    assert [entry["tries"] for entry in said(logs, "away")] == [1, 60, 60]
    assert SAID_EVERY_S == 60.0


async def test_a_worker_without_redis_backs_off_and_says_so_once_a_minute(monkeypatch):
    """Its clock is moved by four seconds with each try, of which the pauses would be as long."""
    monkeypatch.setattr(arq_runner, "RECONNECT_PAUSE_S", 0.0)
    redis = connect_redis(f"redis://127.0.0.1:{free_port()}")
    times = iter(range(0, 1000, 2))

    def clock_s() -> float:
        now_s = next(times)
        if now_s > 124:
            process.stop()
        return now_s

    process = WorkerProcess(
        redis=redis,
        watch=RedisWatch(redis),
        processors={},
        leases=CapacityLeases(redis),
        heartbeats=Heartbeats(redis),
        slots=1,
        lease_slots=1,
        worker_id="w",
        pid=1,
        clock_s=clock_s,
    )
    with capture_logs() as logs, anyio.fail_after(40):
        await process.run()
    await redis.aclose()
    assert [entry["tries"] for entry in said(logs, "worker_waits_for_redis")] == [1, 15, 15]


async def test_a_worker_without_its_gateway_looks_for_it_less_often_and_says_so_once_a_minute():
    away = ClockedReporter()
    away.gateway.alive = False
    away.gateway.answer = GatewayError("gateway_unreachable", "no gateway answers at http://g")
    looks = []

    async def look(_: str) -> bool:
        looks.append(away.now_s)
        return False

    away.gateway.answers = look  # type: ignore[method-assign]
    with capture_logs() as logs:
        await away.give()
        for tenth in range(1, 1250):
            away.now_s = tenth / 10
            assert not await away.reporter.ready()
    assert len(said(logs, "worker_waits_for_gateway")) == 3
    assert "http://g" in said(logs, "worker_waits_for_gateway")[0]["error"]
    gaps = [then - now for now, then in itertools.pairwise(looks)]
    assert looks[0] == AWAY_FIRST_S
    assert gaps[-1] == pytest.approx(AWAY_MAX_S)


async def test_a_cron_that_fails_is_tried_less_often_and_that_is_said_once_a_minute():
    class FreeClaims:
        async def claim(self, *_: object) -> bool:
            return True

        async def release(self, *_: object) -> None:
            pass

        async def note(self, *_: object, **__: object) -> None:
            pass

    class Tools:
        crons = FreeClaims()

    ran: list[float] = []
    now_s = 0.0

    async def run(_: CronTools) -> None:
        ran.append(now_s)
        raise GatewayError("gateway_unreachable", "no gateway answers")

    runner = CronRunner(Tools(), "w", {"sweep": Cron(86_400, run)})  # type: ignore[arg-type]
    with capture_logs() as logs:
        for second in range(1000):
            now_s = float(second)
            await runner.tick(now_s)
    assert ran[:5] == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert ran[-1] - ran[-2] == RETRY_MAX_S
    lines = said(logs, "cron_failed")
    assert len(lines) <= 1000 / SAID_EVERY_S + 1
    assert sum(entry["tries"] for entry in lines) == len(ran)
