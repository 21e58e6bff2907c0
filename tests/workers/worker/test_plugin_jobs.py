"""A handler of a plug-in with a job in hand: its view, its intents, its deadline, its end."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Self
from urllib.parse import quote
from uuid import uuid4

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel, ConfigDict, model_validator
from structlog.testing import capture_logs

from actors.commit.work_units import CancelRequestUnit
from kernel.values.errors import LedgerUnavailable
from kernel.work import queue_kinds
from kernel.work.attempts import failures_of
from kernel.work.errors import WorkRefused
from kernel.work.requests import WorkRequest
from queues.queue.job_progress import JobProgress, NotedProgress
from queues.queue.work_queue import WorkQueue
from tests.foreign_ends import (
    ASYNC_ENDS,
    ASYNC_HANGS,
    ENDS,
    nobody_at_the_keyboard,
    released_at_the_end,
    stands_still,
    until_nothing_is_left_behind,
)
from tests.kernel.build import FakeHost
from tests.workers.api.door import ONTOLOGY, SESSION, URL, Door, client_of, transport_to
from tests.world import MAX_ATTEMPTS, QUICK_RETRIES, DoorWorld, behind_a_door
from workers.client import ProgressNote, Rotulus
from workers.client.errors import GatewayError
from workers.environment import foreign_calls, foreign_threads
from workers.environment.foreign_threads import CallStack, ForeignCodeHangs, call_within
from workers.plugins import JobContext, JobRefused, QueuePlugin, Retry, RetryAfter
from workers.worker.batches import BatchProcessor
from workers.worker.handlers.plugin import PluginHandler

pytestmark = pytest.mark.anyio

QUEUE = "parcels"
LIMIT_S = 0.05
"""Of a handler that never ends."""


class Parcel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    parcel_id: str


Handle = Callable[[JobContext[Parcel]], Awaitable[Mapping[str, Any] | None]]


class ParcelWorld(DoorWorld):
    """A gateway that has the queue of parcels; each test says how one is handled."""

    def __init__(self, door: Door, host: FakeHost) -> None:
        super().__init__(door, host, QUEUE)
        self.handled: list[str] = []
        self.handle: Handle = self.note
        self.noted = JobProgress(self.redis)
        self.limit_s = 60.0
        self.retry: Retry | None = None
        self.begin()

    def begin(self) -> None:
        self.drain_by(client_of(self.door.app, give_up_after_s=0.0), self.handler)

    def handler(self, reporter: Any) -> PluginHandler:
        async def handle(job: JobContext[Parcel]) -> Mapping[str, Any] | None:
            return await self.handle(job)

        plugin = QueuePlugin(
            QUEUE, Parcel, "parcel_id", handle, limit_s=self.limit_s, retry=self.retry
        )
        return PluginHandler(self.ledger, reporter, plugin, self.noted, self.texts)

    async def note(self, job: JobContext[Parcel]) -> Mapping[str, Any]:
        self.handled.append(job.content.parcel_id)
        return {"parcel_id": job.content.parcel_id}

    async def ask_for(self, *names: str) -> list[str]:
        request_ids = await self.ask(
            *(WorkRequest(QUEUE, name, {"parcel_id": name}) for name in names)
        )
        await self.relay.sweep()
        return request_ids

    def another_worker(self) -> BatchProcessor:
        """Return one with a connection of its own to the same Redis."""
        reporter = self.processor._reporter  # noqa: SLF001 - one gateway serves both
        queue = WorkQueue(self.redis, QUEUE, self.now_ms)
        return BatchProcessor(
            queue, self.handler(reporter), reporter, lambda: 0.5, policy=QUICK_RETRIES
        )


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[ParcelWorld]:
    rows = queue_kinds._kinds  # noqa: SLF001 - rows stay otherwise
    before = dict(rows)

    queue_kinds.register_queue(world_kind())
    async with behind_a_door(ParcelWorld) as world:
        yield world
        world.check()
    rows.clear()
    rows.update(before)


async def test_what_a_handler_returns_is_the_outcome_of_its_job(world: ParcelWorld):
    [request_id] = await world.ask_for("p")
    await world.deliver()
    assert world.status(request_id).state == "completed"
    assert world.status(request_id).result == {"parcel_id": "p"}


async def test_a_handler_reads_the_record_and_says_how_far_it_is(world: ParcelWorld):
    lengths: list[int] = []

    async def look(job: JobContext[Parcel]) -> None:
        def length() -> int:
            with job.view() as view:
                return view.head().ec_sequence_number

        lengths.append(await anyio.to_thread.run_sync(length))
        await job.progress(140, "reading")

    world.handle = look
    [request_id] = await world.ask_for("p")
    with world.ledger.view() as view:
        before = view.head().ec_sequence_number
    await world.deliver()
    assert lengths == [before]
    assert await world.noted.of(QUEUE, request_id) == NotedProgress(100, "reading")


async def test_each_door_shows_how_far_a_job_is_and_then_what_came_of_it_and_how_long_it_took(
    world: ParcelWorld,
):
    in_hand, go_on = anyio.Event(), anyio.Event()

    async def weigh(job: JobContext[Parcel]) -> dict[str, str]:
        await job.progress(40, "on the <scale>")
        in_hand.set()
        await go_on.wait()
        return {"weight": "<3 kg>"}

    world.handle, world.noted = weigh, JobProgress(world.door.services.work.redis)
    world.begin()
    [request_id] = await world.ask_for("p")
    queue = WorkQueue(world.redis, QUEUE, world.now_ms, lambda: claimed_ago(3_000))
    page = f"/queues/{QUEUE}/requests/{quote(request_id, safe='')}"
    async with (
        Rotulus(URL, transport=transport_to(world.door.app)) as rotulus,
        anyio.create_task_group() as tasks,
    ):
        job = rotulus.job(QUEUE, request_id)
        tasks.start_soon(world.processor.drain, await queue.claim(1, 30_000))
        await in_hand.wait()
        said = (await world.door.http.get(f"/v1{page}")).json()
        assert said["progress"] == {"percent": 40, "note": "on the <scale>"}
        assert (said["result"], said["took_ms"]) == (None, None)
        assert (await job.status()).progress == ProgressNote(40, "on the <scale>")
        assert "40 %: on the &lt;scale&gt;" in (await world.door.http.get(page)).text
        await world.door.services.work.redis.set(await only_key(world), b"?")
        assert (await job.status()).progress is None, "a damaged hint hides no request"
        go_on.set()
        outcome, status = await job.result(), await job.status()
    assert outcome.result == status.result == {"weight": "<3 kg>"}
    assert outcome.took_ms == status.took_ms
    assert 3_000 <= outcome.took_ms < 60_000
    said = (await world.door.http.get(f"/v1{page}")).json()
    assert (said["progress"], said["took_ms"]) == (None, outcome.took_ms)
    assert said["worker"] == outcome.worker == status.worker == "unknown"
    shown = (await world.door.http.get(page)).text
    assert f"<dt>Last attempt took<dd>{outcome.took_ms / 1_000:.1f} s" in shown
    assert "&lt;3 kg&gt;" in shown
    assert "%:" not in shown


def claimed_ago(milliseconds: int) -> str:
    """Return the token of a claim that a worker made so long ago."""
    return f"0badcafe{time.time_ns() // 1_000_000 - milliseconds:011x}00000"


async def only_key(world: ParcelWorld) -> bytes:
    [key] = [key async for key in world.door.services.work.redis.scan_iter("*progress*")]
    return key


async def test_an_intent_of_a_handler_takes_effect_once_however_often_the_job_is_done(
    world: ParcelWorld,
):
    answers: list[str] = []

    async def submit(job: JobContext[Parcel]) -> None:
        intent = {
            "intent_kind": "create_source",
            "intent_key": f"{job.request_id}:source",
            "node_id": f"source-{job.content.parcel_id}",
            "corpus_id": "c",
            "content_kind": "parcel",
            "text": "A parcel.",
        }
        [result] = await job.submit(SESSION, [intent])
        answers.append(result["operation_id"])
        if job.attempt == 1:
            raise RuntimeError("after the intent")

    world.handle = submit
    declaration = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a", "b"]}
    assert (await world.door.http.post("/v1/sessions", json=declaration)).status_code == 201
    [request_id] = await world.ask_for("p")
    await world.deliver()
    assert world.status(request_id).state == "open"
    world.pass_s(3600)
    await world.deliver()
    assert world.status(request_id).state == "completed"
    assert len(answers) == 2
    assert len(set(answers)) == 1
    node = world.node("source-p")
    assert node is not None
    assert node["payload"]["content_kind"] == "parcel"


async def test_a_handler_is_cancelled_at_its_deadline_and_tried_again_so_often(world: ParcelWorld):
    remaining_s: list[float] = []
    ended: list[str] = []

    async def sleep(job: JobContext[Parcel]) -> None:
        remaining_s.append(job.remaining_s())
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    world.handle, world.limit_s = sleep, LIMIT_S
    world.begin()
    [request_id] = await world.ask_for("p")
    for _ in range(MAX_ATTEMPTS):
        assert world.status(request_id).state == "open"
        await world.deliver()
        world.pass_s(24 * 3600)
    status = world.status(request_id)
    assert (status.state, status.reason) == ("dead_letter", "handler_timed_out")
    assert ended == ["cancelled"] * MAX_ATTEMPTS
    assert all(0 < seconds <= LIMIT_S for seconds in remaining_s)


@pytest.mark.parametrize("name", ASYNC_HANGS)
async def test_each_attempt_of_a_handler_that_does_not_return_has_failed_with_its_place(
    world: ParcelWorld, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(foreign_calls, "END_S", 0.02)
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
    world.handle, world.limit_s = ASYNC_HANGS[name], LIMIT_S
    world.begin()
    [request_id] = await world.ask_for("p")
    with released_at_the_end(), capture_logs() as logs:
        for _ in range(MAX_ATTEMPTS):
            assert world.status(request_id).state == "open"
            await world.deliver()
            world.pass_s(24 * 3600)
    await until_nothing_is_left_behind()
    status = world.status(request_id)
    assert (status.state, status.reason) == ("dead_letter", "handler_timed_out")
    said = [log for log in logs if log["event"] == "handler_timed_out"]
    assert [log["attempt"] for log in said] == [*range(1, MAX_ATTEMPTS + 1)]
    hangs = ASYNC_HANGS[name]
    assert all(f"in {hangs.__name__}" in log["exception"] for log in said)
    kept = world.ledger.read(lambda view: failures_of(view, request_id, attempts=True))
    assert kept is not None
    place = f"{hangs.__module__}.{hangs.__qualname__}"
    assert kept.signature == f"TimeoutError in {place}: it did not return within #.# s"
    assert {each.error_class for each in kept.attempts} == {"TimeoutError"}


async def test_a_job_that_is_cancelled_ends_with_the_next_renewal(world: ParcelWorld):
    begun = anyio.Event()
    ended: list[str] = []

    async def sleep(job: JobContext[Parcel]) -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(job.request_id)

    world.handle = sleep
    [request_id] = await world.ask_for("p")
    claims = await world.queue.claim(10, 30_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.drain, claims)
        await begun.wait()
        await world.door.services.write(CancelRequestUnit(request_id, "not needed"))
        await world.processor.renew(claims, 30_000)
    assert ended == [request_id]
    assert world.status(request_id).state == "cancelled"
    assert await world.queue.claim(10, 30_000) == []


@pytest.mark.parametrize(
    ("handle", "reason"),
    [
        (JobRefused("damaged"), "damaged"),
        ({"not": {1, 2}}, "handler_result_invalid"),
        ({"long": "x" * 100_000}, "handler_result_invalid"),
        ("no object", "handler_result_invalid"),
    ],
    ids=["refused", "no JSON", "too long", "no object"],
)
async def test_what_trying_again_would_not_change_is_a_dead_letter_at_once(
    world: ParcelWorld, handle: object, reason: str
):
    async def end(_: JobContext[Parcel]) -> Any:
        if isinstance(handle, Exception):
            raise handle
        return handle

    world.handle = end
    [request_id] = await world.ask_for("p")
    await world.deliver()
    assert (world.status(request_id).state, world.status(request_id).reason) == (
        "dead_letter",
        reason,
    )


async def test_several_workers_share_the_jobs_and_each_has_one_outcome(world: ParcelWorld):
    request_ids = await world.ask_for(*(f"p-{number}" for number in range(40)))
    workers = [world.processor, world.another_worker(), world.another_worker()]

    async def drain(worker: BatchProcessor) -> None:
        while claims := await world.queue.claim(4, 30_000):
            await worker.drain(claims)

    async with anyio.create_task_group() as tasks:
        for worker in workers:
            tasks.start_soon(drain, worker)
    assert sorted(world.handled) == sorted(f"p-{number}" for number in range(40))
    assert {world.status(request_id).state for request_id in request_ids} == {"completed"}


async def test_a_job_that_two_workers_did_has_one_outcome(world: ParcelWorld):
    [request_id] = await world.ask_for("p")
    first = await world.queue.claim(1, 30_000)
    world.pass_s(60)  # the claim expires while its worker is paused
    await world.queue.reap()
    world.pass_s(60)
    second = await world.queue.claim(1, 30_000)
    assert [claim.key for claim in second] == [request_id]
    await world.another_worker().drain(second)
    await world.drain(first)
    assert world.handled.count("p") in (1, 2)
    assert world.status(request_id).state == "completed"
    with world.ledger.view() as view:
        assert view.count_outcomes("completed") == 1


async def test_however_a_handler_ends_it_is_a_counted_attempt_with_its_traceback(
    world: ParcelWorld,
):
    runs: list[str] = []

    async def end(job: JobContext[Parcel]) -> Any:
        runs.append(job.content.parcel_id)
        if job.content.parcel_id == "good":
            return {}
        return await ASYNC_ENDS[job.content.parcel_id](job)

    world.handle = end
    request_ids = dict(
        zip(["good", *ASYNC_ENDS], await world.ask_for("good", *ASYNC_ENDS), strict=True)
    )
    with nobody_at_the_keyboard(), capture_logs() as logs:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            await world.deliver()
            await world.deliver()  # each pauses before it is tried again
            assert {name: runs.count(name) for name in ASYNC_ENDS} == dict.fromkeys(
                ASYNC_ENDS, attempt
            )
            world.pass_s(24 * 3600)
        assert await world.deliver() == []
    assert world.status(request_ids.pop("good")).state == "completed"
    for name, request_id in request_ids.items():
        status = world.status(request_id)
        assert (status.state, str(status.reason)[:15]) == ("dead_letter", "handler_failed:"), name
        said = [log for log in logs if log.get("request_id") == request_id]
        assert [log["attempt"] for log in said] == [*range(1, MAX_ATTEMPTS + 1)], name
        assert all(log["event"] == "handler_failed" for log in said)
        assert all("Traceback" in log["exception"] for log in said)
        # The kind of the error, and what it says.
        kind = said[0]["error"].partition(":")[0].rpartition(".")[2]
        assert f"handler_failed: {kind}" == status.reason


class Oddly:
    """An error of ours that a handler made without what it states, or with something else."""

    def __init__(self, **stated: object) -> None:
        vars(self).update(stated)


class OddRefusal(Oddly, JobRefused):
    pass


class RefusalThatExits(Oddly, JobRefused):
    @property
    def reason(self) -> str:  # type: ignore[override]
        raise SystemExit(1)


class OddPause(Oddly, RetryAfter):
    pass


class OddAnswer(Oddly, GatewayError):
    pass


OURS: Mapping[str, Callable[[], Exception]] = {
    "a refusal without a reason": OddRefusal,
    "a refusal that exits": RefusalThatExits,
    "a pause of nothing": OddPause,
    "a pause that is a text": lambda: OddPause(pause_ms="soon"),
    "a pause before now": lambda: OddPause(pause_ms=-5),
    "a pause for ever": lambda: OddPause(pause_ms=10**30),
    "an answer without a code": OddAnswer,
    "another gateway that is away": lambda: GatewayError("gateway_unreachable", "nobody answered"),
    "another ledger that is away": lambda: LedgerUnavailable("nobody answered"),
    "a limit of its own": lambda: ForeignCodeHangs(1, CallStack()),
}
"""Errors of our classes, which a handler may raise as any other."""


async def test_an_error_of_ours_that_a_handler_made_is_a_failure_of_it_alone(world: ParcelWorld):
    async def end(job: JobContext[Parcel]) -> Any:
        if job.content.parcel_id == "good":
            return {}
        make = OURS[job.content.parcel_id]
        raise make()

    world.handle = end
    request_ids = dict(zip(["good", *OURS], await world.ask_for("good", *OURS), strict=True))
    await world.deliver()
    await world.deliver()  # a slot has eight jobs in hand at once
    assert world.status(request_ids.pop("good")).state == "completed"
    for name, request_id in request_ids.items():
        failures = world.ledger.read(partial(failures_of, request_id=request_id, attempts=True))
        assert failures is not None, name
        [attempt] = failures.attempts
        assert "Traceback" in attempt.traceback, name


@pytest.mark.parametrize("port", ["view", "submit"])
async def test_a_job_that_meets_our_absence_is_given_back_uncounted(world: ParcelWorld, port: str):
    async def use(job: JobContext[Parcel]) -> None:
        if port == "submit":
            await job.submit(str(uuid4()), [])
        with job.view():
            raise LedgerUnavailable("it went away meanwhile")

    async def refuse(*_: object) -> Any:
        raise GatewayError("gateway_unreachable", "nobody answered")

    world.handle = use
    handler = world.handler(SimpleNamespace(post=refuse))
    [request_id] = await world.ask_for("p")
    [claim] = await world.queue.claim(1, 30_000)
    [result] = await handler.handle([claim])
    assert (result.verdict, result.error) == ("put_off", None)
    assert world.status(request_id).state == "open"


async def test_a_handler_that_ends_oddly_when_its_worker_stops_is_not_counted(world: ParcelWorld):
    begun = anyio.Event()

    async def odd(_: JobContext[Parcel]) -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ASYNC_ENDS["group of a cancellation"]()

    world.handle = odd
    [request_id] = await world.ask_for("p")
    claims = await world.queue.claim(10, 30_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.drain, claims)
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert world.status(request_id).state == "open"
    await world.queue.put_off(claims, [0], "worker_stopped")
    world.handle = world.note
    [again] = await world.deliver()
    assert again.attempt == 1
    assert world.status(request_id).state == "completed"


class OddParcel(Parcel):
    """A model that ends as the parcel is called."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _end(self) -> Self:
        if self.parcel_id in ENDS and odd_models:
            ENDS[self.parcel_id]()
        if self.parcel_id == "stands-still" and odd_models:
            stands_still()
        return self


odd_models: list[bool] = []
"""Whether models end oddly: a gateway takes what its worker cannot read."""


async def test_a_content_model_that_does_not_return_is_refused_and_commits_go_on(
    world: ParcelWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
    monkeypatch.setitem(
        queue_kinds._kinds,  # noqa: SLF001 - rows stay otherwise
        QUEUE,
        replace(world_kind(), content=OddParcel, call=partial(call_within, 0.02)),
    )
    assert world_kind().call.func is call_within, "the queue of a plug-in is bounded"
    monkeypatch.setattr(f"{__name__}.odd_models", [True])
    with released_at_the_end():
        with pytest.raises(WorkRefused, match="ForeignCodeHangs"):
            await world.ask_for("stands-still")
        [request_id] = await world.ask_for("p")
    await world.deliver()
    assert world.status(request_id).state == "completed"


def world_kind() -> Any:
    async def nobody(_: JobContext[Parcel]) -> None: ...

    return QueuePlugin(QUEUE, Parcel, "parcel_id", nobody).kind


async def test_however_a_content_model_ends_a_gateway_refuses_and_a_worker_counts(
    world: ParcelWorld,
):
    rows = queue_kinds._kinds  # noqa: SLF001 - rows stay otherwise
    rows[QUEUE] = replace(rows[QUEUE], content=OddParcel)
    request_ids = await world.ask_for(*ENDS)
    odd_models.append(True)
    with nobody_at_the_keyboard(), capture_logs() as logs:
        for name in ENDS:
            with pytest.raises(WorkRefused, match="the model of parcels failed") as refused:
                await world.ask_for(name)
            assert refused.value.code == "work_request_invalid"
        for _ in range(MAX_ATTEMPTS):
            await world.deliver()
            world.pass_s(24 * 3600)
    odd_models.clear()
    assert world.handled == []
    for request_id in request_ids:
        assert world.status(request_id).state == "dead_letter"
        attempts = [log["attempt"] for log in logs if log.get("request_id") == request_id]
        assert attempts == [*range(1, MAX_ATTEMPTS + 1)]


@pytest.mark.parametrize("field", ["item_key", "priority"])
async def test_however_a_field_ends_that_a_model_computes_the_request_is_refused(
    world: ParcelWorld, field: str
):
    ends: list[Callable[[], Any]] = []

    class Computing(Parcel):
        def __getattribute__(self, name: str) -> Any:
            return ends[-1]() if name == "parcel_id" else super().__getattribute__(name)

    rows = queue_kinds._kinds  # noqa: SLF001 - rows stay otherwise
    priority = "parcel_id" if field == "priority" else None
    item_key = "label" if field == "priority" else "parcel_id"
    Computing.label = "p"  # type: ignore[attr-defined]
    rows[QUEUE] = replace(rows[QUEUE], content=Computing, item_key=item_key, priority=priority)
    for end in (*ENDS.values(), lambda: "unheard of" if priority else 7):
        ends.append(end)
        with nobody_at_the_keyboard(), pytest.raises(WorkRefused) as refused:
            await world.ask_for("p")
        assert refused.value.code == "work_request_invalid"
