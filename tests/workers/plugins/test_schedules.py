"""Schedules of plug-ins: their times, and one job in each period whatever the number of workers."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kernel.work.contents import BINDING_QUEUE, BindingEvaluation
from queues.fleet.cron_claims import Crons
from tests.foreign_ends import ENDS, nobody_at_the_keyboard, released_at_the_end, stands_still
from tests.kernel.build import FakeHost
from tests.workers.api.door import Door, client_of
from tests.world import DoorWorld, behind_a_door
from workers.environment import foreign_threads
from workers.plugins import JobContext, QueuePlugin, Schedule
from workers.plugins.cron_expression import CronExpression
from workers.worker import plugin_schedules
from workers.worker.cron import CronRunner, CronTools
from workers.worker.gateway_reports import GatewayReporter
from workers.worker.plugin_schedules import schedules_of

pytestmark = pytest.mark.anyio

FRIDAY = datetime(2026, 11, 20, 3, tzinfo=UTC)


def content(start: datetime) -> Mapping[str, Any]:
    return {"binding_id": "b", "source_event_id": start.date().isoformat()}


@pytest.mark.parametrize(
    ("text", "now", "newest"),
    [
        ("0 3 * * 1-5", FRIDAY, FRIDAY),
        ("0 3 * * 1-5", FRIDAY - timedelta(seconds=1), FRIDAY - timedelta(days=1)),
        ("0 3 * * 1-5", FRIDAY + timedelta(days=3, seconds=-1), FRIDAY),
        ("0 3 * * 1-5", FRIDAY + timedelta(days=3), FRIDAY + timedelta(days=3)),
        ("0 0 1 * *", FRIDAY, datetime(2026, 11, 1, tzinfo=UTC)),
        ("*/15 * * * *", FRIDAY + timedelta(minutes=29), FRIDAY + timedelta(minutes=15)),
    ],
)
def test_a_period_goes_from_a_time_to_the_next(text: str, now: datetime, newest: datetime):
    assert CronExpression(text).newest(now.timestamp()) == newest.timestamp()


@given(times=st.lists(st.integers(0, 4_000_000_000), min_size=1, max_size=20))
def test_what_was_asked_before_changes_no_answer(times: list[int]):
    asked_before = CronExpression("*/7 4-22/3 * * 2,6")
    for now_s in times:
        newest = asked_before.newest(now_s)
        assert newest == CronExpression("*/7 4-22/3 * * 2,6").newest(now_s) <= now_s
        assert newest % 60 == 0
        start = datetime.fromtimestamp(newest, UTC)
        assert start.minute % 7 == 0
        assert start.hour in range(4, 23, 3)
        assert start.isoweekday() in (2, 6)


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule("digest", content),
        Schedule("digest", content, every_s=60, cron="0 3 * * *"),
        Schedule("digest", content, every_s=0),
        Schedule("digest", content, every_s=7 * 24 * 3600 + 1),
        Schedule("digest", content, every_s=60, offset_s=60),
        Schedule("digest", content, cron="0 3 * * *", offset_s=1),
        Schedule("digest", content, cron="0 3 * *"),
        Schedule("digest", content, cron="0 0 30 2 *"),
        Schedule("digest", content, cron="61 3 * * *"),
        Schedule("digest", content, cron="* * * * * *"),
        Schedule("A name", content, every_s=60),
    ],
)
def test_a_schedule_that_nobody_can_keep_is_refused(schedule: Schedule):
    with pytest.raises(ValueError, match=r"schedule|every_s|cron"):
        schedule.check()


async def handle(_: JobContext) -> None: ...


DAILY = Schedule("daily", content, cron="0 3 * * 1-5")
PLUGIN = QueuePlugin(
    BINDING_QUEUE, BindingEvaluation, "source_event_id", handle, schedules=(DAILY,)
)
"""Of a queue that every gateway has, because a table of queues is its process's."""


@pytest.mark.parametrize(
    ("name", "most", "beyond"),
    [
        ("limit_s", 3600.0, 3600.5),
        ("concurrency", 64, 65),
        ("schedules", 32, 33),
    ],
)
def test_a_queue_of_a_plugin_has_limits(name: str, most: float, beyond: float):
    def limited(value: Any) -> QueuePlugin:
        if name == "schedules":
            value = tuple(Schedule(f"s{number}", content, every_s=60) for number in range(value))
        return replace(PLUGIN, **{name: value})

    limited(most).check()
    with pytest.raises(ValueError, match=name):
        limited(beyond).check()


class ScheduleWorld(DoorWorld):
    """A gateway, and the tools of any number of workers."""

    def __init__(self, door: Door, host: FakeHost) -> None:
        super().__init__(door, host, PLUGIN.name)
        reporter = GatewayReporter(client_of(door.app, give_up_after_s=0.0))
        self.tools = CronTools({}, door.ledger, reporter, Crons(self.redis))

    def days(self) -> list[str]:
        return [request.item_key for request in self.open(PLUGIN.name)]


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[ScheduleWorld]:
    async with behind_a_door(ScheduleWorld) as world:
        yield world


async def test_of_a_fleet_one_job_is_asked_for_in_each_period(world: ScheduleWorld):
    fleet = [CronRunner(world.tools, f"worker-{n}", schedules_of({"": PLUGIN})) for n in range(3)]
    for after in (timedelta(), timedelta(seconds=30), timedelta(hours=23), timedelta(days=2)):
        world.host.time_us = round((FRIDAY + after).timestamp() * 1_000_000)
        for runner in fleet:
            await runner.tick(world.host.time_us / 1_000_000)
    assert world.days() == ["2026-11-20"]
    # Redis forgot who had claimed what, and Monday's time has come.
    await world.redis.flushall()
    for after in (timedelta(days=2, hours=1), timedelta(days=3)):
        world.host.time_us = round((FRIDAY + after).timestamp() * 1_000_000)
        for runner in [*fleet, CronRunner(world.tools, "new", schedules_of({"": PLUGIN}))]:
            await runner.tick(world.host.time_us / 1_000_000)
    assert world.days() == ["2026-11-20", "2026-11-23"]


ODD_CONTENTS: dict[str, Any] = {
    "another type": 7,
    "a set in it": {"what": {1, 2}},
    "a time in it": {"when": FRIDAY},
    "half a character": {"what": "\ud800"},
    "not a number": {"what": float("nan")},
}


@pytest.mark.parametrize("name", [*ENDS, *ODD_CONTENTS, "stands still"])
async def test_however_a_schedule_ends_its_period_is_left_out_and_the_others_are_asked_for(
    world: ScheduleWorld, name: str, monkeypatch: pytest.MonkeyPatch
):
    if name == "stands still":
        monkeypatch.setattr(plugin_schedules, "CONTENT_S_MAX", 0.5)
        monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])

    def stands_still_alone(at: datetime) -> Any:
        # The short limit is this one's alone: the next has time on a busy machine too.
        monkeypatch.setattr(plugin_schedules, "CONTENT_S_MAX", 30.0)
        return stands_still(at)

    ends = {**ENDS, "stands still": stands_still_alone}
    odd = Schedule("odd", ends.get(name, lambda _: ODD_CONTENTS[name]), every_s=60)
    runner = CronRunner(
        world.tools, "worker", schedules_of({"": replace(PLUGIN, schedules=(odd, DAILY))})
    )
    world.host.time_us = round(FRIDAY.timestamp() * 1_000_000)
    with released_at_the_end(), nobody_at_the_keyboard(), capture_logs() as logs:
        await runner.tick(world.host.time_us / 1_000_000)
    assert world.days() == ["2026-11-20"]
    [said] = [log for log in logs if log["event"] == "schedule_failed"]
    assert said["schedule"] == "odd"
    assert "Traceback" in said["exception"]
