"""Jobs that fail, snooze and lose workers: what is on the ledger holds whatever Redis lost."""

from asyncio import CancelledError
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from structlog.testing import capture_logs

from kernel.ledger import schema
from kernel.work import queue_kinds
from kernel.work.attempts import Failures, failures_of, list_signatures
from queues.queue.work_queue import WorkQueue
from tests.kernel.build import FakeHost
from tests.workers.api.door import Door
from tests.workers.worker.test_plugin_jobs import QUEUE, Parcel, ParcelWorld, world_kind
from tests.world import MAX_ATTEMPTS, QUICK_RETRIES, behind_a_door
from workers.environment.foreign_threads import CallStack, ForeignCodeHangs
from workers.plugins import JobContext, JobRefused, Retry, RetryAfter
from workers.worker.attempts import ErrorTexts, expired_delivery, new_token

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§8.3")]

WORKER = "worker-0badcafe"
FIRST_PAUSE_MS = QUICK_RETRIES.first_pause_ms


class Failing(ParcelWorld):
    """Parcels whose handler raises what a test says, by a worker that has a name."""

    def __init__(self, door: Door, host: FakeHost) -> None:
        self.texts = ErrorTexts(WORKER)
        super().__init__(door, host)
        self.raises: BaseException | None = ValueError("no parcel 17")
        self.handle = self.fail
        self.jobs: list[JobContext[Parcel]] = []

    async def fail(self, job: JobContext[Parcel]) -> dict[str, Any]:
        self.jobs.append(job)
        if self.raises is not None:
            raise self.raises
        return {"parcel_id": job.content.parcel_id}

    def failures(self, request_id: str) -> Failures:
        failures = self.ledger.read(lambda view: failures_of(view, request_id, attempts=True))
        assert failures is not None
        return failures

    async def flush(self) -> None:
        """Redis loses everything, and the relay notices."""
        await self.redis.flushall()
        await self.relay.sweep()


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[Failing]:
    rows = queue_kinds._kinds  # noqa: SLF001 - rows stay otherwise
    before = dict(rows)
    queue_kinds.register_queue(world_kind())
    async with behind_a_door(Failing) as world:
        yield world
        world.check()
    rows.clear()
    rows.update(before)


async def test_a_flush_gives_no_attempt_back_and_shortens_no_pause(world: Failing):
    [request_id] = await world.ask_for("p")
    for attempt in range(1, MAX_ATTEMPTS):
        [claim] = await world.deliver()
        assert claim.attempt == attempt
        await world.flush()
        pause_ms = FIRST_PAUSE_MS * 2 ** (attempt - 1)
        world.pass_ms(pause_ms - 1)
        assert await world.deliver() == []
        world.pass_ms(1)
    await world.deliver()
    status = world.status(request_id)
    assert (status.state, status.reason) == ("dead_letter", "handler_failed: ValueError")
    assert len(world.jobs) == MAX_ATTEMPTS
    assert [job.attempt for job in world.jobs] == [*range(1, MAX_ATTEMPTS + 1)]
    assert world.failures(request_id).failures == MAX_ATTEMPTS


async def test_an_item_that_redis_lost_alone_comes_back_with_its_pause(world: Failing):
    [request_id] = await world.ask_for("p")
    await world.deliver()
    await world.queue.cancel([request_id])
    world.pass_s(0.05)
    world.relay = world.new_relay()
    await world.relay.sweep()
    assert await world.deliver() == []
    world.pass_s(0.05)
    [claim] = await world.deliver()
    assert claim.attempt == 2


async def test_another_due_time_on_the_ledger_moves_what_waits_in_redis(world: Failing):
    """As after another policy; what waits for something else than its next attempt stays."""
    [request_id] = await world.ask_for("p")
    world.raises = RetryAfter(3600)
    await world.deliver()
    with world.ledger.transaction() as transaction:
        due = {"next_attempt_at_us": world.host.time_us + 20_000_000}
        transaction.tables.update(schema.request_failures, (request_id,), due)
    world.pass_s(6)
    await world.relay.sweep()
    world.pass_s(13.9)
    assert await world.deliver() == []
    world.pass_s(0.1)
    assert len(await world.deliver()) == 1


async def test_a_job_that_asks_for_pauses_uses_no_attempt_and_is_told_how_often(world: Failing):
    [request_id] = await world.ask_for("p")
    world.raises = RetryAfter(60)
    for snoozes in range(3):
        await world.deliver()
        await world.flush()
        assert (world.jobs[-1].snoozes, world.jobs[-1].attempt) == (snoozes, 1)
        world.pass_s(59.9)
        assert await world.deliver() == []
        world.pass_s(0.1)
    world.raises = None
    await world.deliver()
    assert world.jobs[-1].snoozes == 3
    assert world.status(request_id).state == "completed"
    failures = world.failures(request_id)
    assert (failures.snoozes, failures.failures, failures.attempts) == (3, 0, ())


async def test_an_attempt_says_who_failed_when_and_why(world: Failing):
    first, second = await world.ask_for("p", "q")
    with capture_logs() as logs:
        await world.deliver()
    [attempt] = world.failures(first).attempts
    assert (attempt.worker, attempt.code) == (WORKER, "handler_failed: ValueError")
    assert (attempt.error_class, attempt.message) == ("ValueError", "no parcel 17")
    assert "raise self.raises\nValueError: no parcel 17" in attempt.traceback
    own = f'Traceback (most recent call last):\n  File "{Path(__file__).parent}/test_'
    assert attempt.traceback.startswith(own)
    page = await world.door.http.get(f"/queues/{QUEUE}/requests/{quote(first, safe='')}")
    assert "    raise self.raises\nValueError: no parcel 17" in page.text
    place = f"{Failing.__module__}.Failing.fail"
    assert attempt.signature == f"ValueError in {place}: no parcel #"
    [line] = [log for log in logs if log.get("request_id") == first]
    assert (line["worker"], line["attempt"]) == (WORKER, 1)
    assert line["error"] == "ValueError: no parcel 17"
    page = world.ledger.read(lambda view: list_signatures(view, None, after="", limit=10))
    [summary] = page.signatures
    assert (summary.signature, summary.requests, summary.open) == (attempt.signature, 2, 2)
    assert summary.newest_request_id == second
    assert summary.newest_attempt is not None
    of_queues = {
        name: world.ledger.read(
            lambda view, name=name: list_signatures(view, name, after="", limit=9)
        )
        for name in (QUEUE, "another")
    }
    assert of_queues[QUEUE].signatures == page.signatures
    assert of_queues["another"].signatures == ()


async def test_a_job_that_succeeds_writes_nothing_of_attempts(world: Failing):
    [request_id] = await world.ask_for("p")
    world.raises = None
    await world.deliver()
    assert world.ledger.read(lambda view: failures_of(view, request_id)) is None


async def test_a_redaction_has_the_text_first_and_one_that_raises_leaves_none(world: Failing):
    def redact(text: str) -> str:
        return text.replace("no parcel", "nothing")

    def broken(text: str) -> str:
        raise RuntimeError(text)

    first, second = await world.ask_for("p"), []
    world.texts = ErrorTexts(WORKER, [redact])
    world.begin()
    with capture_logs() as logs:
        await world.deliver()
        [attempt] = world.failures(first[0]).attempts
        assert (attempt.message, "nothing 17" in attempt.traceback) == ("nothing 17", True)
        assert attempt.signature.endswith(": nothing #")
        world.texts = ErrorTexts(WORKER, [redact, broken])
        world.begin()
        second = await world.ask_for("q")
        await world.deliver()
    [attempt] = world.failures(second[0]).attempts
    assert (attempt.message, attempt.traceback, attempt.error_class) == ("", "", "ValueError")
    assert attempt.signature == f"ValueError in {Failing.__module__}.Failing.fail"
    assert "parcel 17" not in str([log for log in logs if log["event"] == "handler_failed"])


async def test_which_errors_are_worth_another_attempt_is_decided_by_the_job(world: Failing):
    world.retry = Retry(on=(OSError, ValueError), never=(FileNotFoundError,))
    world.begin()
    for name, error, state in (
        ("os", OSError("away"), "open"),
        ("file", FileNotFoundError("gone"), "dead_letter"),
        ("key", KeyError("k"), "dead_letter"),
        ("refused", JobRefused("unreadable"), "dead_letter"),
    ):
        world.raises = error
        [request_id] = await world.ask_for(name)
        await world.deliver()
        assert world.status(request_id).state == state, name
        assert len(world.failures(request_id).attempts) == 1
    assert Retry(on=(TimeoutError,)).retries(ForeignCodeHangs(1.0, CallStack()))


async def test_a_job_that_asks_for_too_many_pauses_is_given_up_and_the_log_says_why(
    world: Failing, monkeypatch: pytest.MonkeyPatch
):
    fewer = QUICK_RETRIES.model_copy(update={"snoozes": 1})
    monkeypatch.setattr("tests.world.QUICK_RETRIES", fewer)
    world.begin()
    world.raises = RetryAfter(1)
    [request_id] = await world.ask_for("p")
    with capture_logs() as logs:
        for _ in range(2):
            await world.deliver()
            world.pass_s(1)
    status = world.status(request_id)
    assert (status.state, status.reason) == ("dead_letter", "snoozes_exhausted")
    [said] = [log["error_signature"] for log in logs if log["event"] == "item_dead_lettered"]
    assert said == status.reason


@pytest.mark.parametrize(
    "error", [ValueError(), CancelledError(), SystemExit(3), ForeignCodeHangs(1.0, CallStack())]
)
def test_a_policy_that_names_no_errors_tries_again_after_each(error: BaseException):
    assert Retry(attempts=3).retries(error)


async def test_who_claims_next_reports_the_worker_that_vanished(world: Failing):
    [request_id] = await world.ask_for("p")
    world.raises = None
    other = WorkQueue(world.redis, QUEUE, world.now_ms, lambda: new_token("worker-deadbeef"))
    [claim] = await other.claim(1, 5_000)
    world.pass_s(6)
    await world.queue.reap()
    [again] = await world.deliver()
    assert (again.ends, again.lost) == (0, claim.token)
    failures = world.failures(request_id)
    [attempt] = failures.attempts
    assert (attempt.code, attempt.worker) == ("worker_lost", "worker-deadbeef")
    assert (failures.failures, failures.worker_ends, failures.deliveries) == (0, 0, 1)
    assert world.status(request_id).state == "completed"


async def test_the_third_worker_that_ends_with_a_job_makes_it_a_dead_letter_even_after_a_flush(
    world: Failing,
):
    [request_id] = await world.ask_for("p")
    for _ in range(4):
        [claim] = await world.queue.claim(1, 5_000)
        if claim.lost:
            await world.processor._report_lost(claim)  # noqa: SLF001 - then the worker ends
        await world.queue.begin([claim])
        world.pass_s(6)
        await world.queue.reap()
        if claim.ends == 1:
            [claim] = await world.queue.claim(1, 5_000)
            await world.processor._report_lost(claim)  # noqa: SLF001 - as above
            await world.flush()
    assert world.jobs == []
    await world.deliver()
    status = world.status(request_id)
    assert (status.state, status.reason) == ("dead_letter", "worker_ended_three_times")
    assert world.failures(request_id).worker_ends == 3


def test_a_token_says_who_claimed_and_when():
    token = new_token("worker-0123abcd")
    assert len(token) == 24
    claim: Any = type("C", (), {"lost": token, "lost_at_ms": 2**50})()
    delivery = expired_delivery(claim, int(token[8:19], 16) * 1000 + 7_000)
    assert delivery.worker == "worker-0123abcd"
    assert delivery.ended_at_us - delivery.started_at_us == 7_000
