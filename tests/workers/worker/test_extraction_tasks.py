"""Extractions that a worker performs, from the request to the claims, whatever goes wrong."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from actors.errors import ModelError
from kernel.ledger.ledger import Document
from kernel.records.extraction import attempts_of, last_attempt
from kernel.values.untrusted import unwrap_untrusted
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.retry_policy import WORKER_ENDS_MAX
from queues.queue.items import Claim
from tests.kernel.build import FakeHost
from tests.kernel.extractions import result, task, value
from tests.workers.api.door import SESSION, Door, client_of
from tests.world import DoorWorld, behind_a_door
from workers.worker.attempts import ErrorTexts
from workers.worker.handlers.extraction import ExtractionHandler
from workers.worker.handlers.extractor import Extracted, SourceToRead
from workers.worker.handlers.extractors import Extractors

WORKER = "worker-1"

pytestmark = pytest.mark.anyio

ENTRY = "ORDER granting 12 Motion to Dismiss. Signed by Judge Ann Bell. Fee Amount $350."
MODEL = "model"


class Scripted:
    """An extractor that answers as the test says, by the source."""

    limit_s = 20.0

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.during: Callable[[], Any] | None = None

    async def extract(self, source: SourceToRead) -> Extracted:
        self.asked.append(source.source_ref)
        if self.during is not None:
            await self.during()
        answer = self.answers.get(source.source_ref, result())
        if isinstance(answer, Exception):
            raise answer
        if answer == "hangs":
            await anyio.sleep_forever()
        return Extracted(answer(source) if callable(answer) else answer)


class TaskWorld(DoorWorld):
    def __init__(self, door: Door, host: FakeHost) -> None:
        super().__init__(door, host, EXTRACTION_QUEUE)
        self.scripted = Scripted()
        self.employ(Extractors(others={"scripted": self.scripted}))

    def employ(self, extractors: Extractors) -> None:
        """Let a worker with these extractors drain the queue."""

        def handler(reporter: Any) -> ExtractionHandler:
            self.handler = ExtractionHandler(
                self.door.ledger, reporter, extractors, ErrorTexts(WORKER)
            )
            return self.handler

        self.drain_by(client_of(self.door.app), handler)

    async def take_in(self, *sources: str, text: str = ENTRY, kind: str = "ecf_entry_text") -> None:
        intents = [
            {
                "intent_kind": "create_source",
                "intent_key": name,
                "node_id": name,
                "corpus_id": "corpus",
                "content_kind": kind,
                "text": text,
            }
            for name in sources
        ]
        results = await self.door.operate(*intents)
        assert [answer.get("validation_result") for answer in results] == ["accepted"] * len(
            sources
        )

    async def deliver(self, limit: int = 100) -> list[Claim]:
        await self.relay.sweep()
        return await super().deliver(limit)

    async def cut_off(self, work: Awaitable[Any]) -> None:
        """Do some work until the scripted extractor is asked."""

        async def end() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        self.scripted.during = end
        with anyio.CancelScope() as scope:
            await work
        self.scripted.during = None

    def last(self, run: str = "run-1") -> Document:
        with self.ledger.view() as view:
            last = last_attempt(view, run)
        assert last is not None
        return last

    def states(self, run: str = "run-1") -> list[str]:
        with self.ledger.view() as view:
            return [step["current_state"] for step in attempts_of(view, run, limit=50)]

    def read_of(self, run: str = "run-1") -> dict[str, str]:
        """What the claims of a run say, by field."""
        read = {}
        for ref in self.last(run)["claim_refs"]:
            node = self.node(ref)
            assert node is not None
            extracted = node["payload"]["extracted"]
            read[extracted["field"]] = unwrap_untrusted(extracted["value"])
        return read


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[TaskWorld]:
    async with behind_a_door(TaskWorld) as world:
        await world.door.declare(SESSION, "a", "b")
        yield world
        world.check()


@pytest.mark.spec("§16.3", "§16.5")
async def test_a_docket_entry_is_read_by_its_rules_and_becomes_claims(world: TaskWorld):
    await world.take_in("doc-1")
    [request] = await world.ask(task())
    await world.deliver()
    assert world.states() == ["running", "succeeded"]
    assert world.last()["extractor"].startswith("docket_entry_rules@")
    read = world.read_of()
    assert read["judge"] == "Ann Bell"
    assert read["amount"] == "350.00"
    assert read["disposition"] == "granted"
    status = world.status(request)
    assert (status.state, status.worker) == ("completed", WORKER)
    assert status.took_ms is not None
    page = f"/queues/extraction-transition/requests/{quote(request, safe='')}"
    assert f'by <a href="../../../workers/{WORKER}">' in (await world.door.http.get(page)).text


@pytest.mark.spec("INV-EXT-1")
async def test_what_fails_harms_no_other_of_its_batch(world: TaskWorld):
    world.scripted.limit_s = 0.5
    entries = {
        "raises": ValueError("a defect"),
        "hangs": "hangs",
        "megabytes": {"text": "x" * 5_000_000},
        "invents": result(value(ENTRY, "Ann Bell", "judge") | {"words": "Bob Hope"}),
        "partial": result(value(ENTRY, "Ann Bell", "judge"), party="not_stated"),
        "good": result(value(ENTRY, "Ann Bell", "judge")),
    }
    world.scripted.answers = dict(entries)
    await world.take_in(*entries)
    await world.ask(*(task(name, name, extractor="scripted") for name in entries))
    await world.deliver()
    ended = {name: world.last(name) for name in entries}
    assert {
        name: (step["current_state"], step.get("block_reason"), step["state_change_reason"])
        for name, step in ended.items()
        if name in ("raises", "hangs", "megabytes", "invents")
    } == {
        "raises": ("blocked", "document_unparseable", "extractor_failed"),
        "hangs": ("blocked", "document_unparseable", "extractor_timed_out"),
        "megabytes": ("blocked", "quality_hard_fail", "extraction_result_invalid"),
        "invents": ("blocked", "quality_hard_fail", "extraction_span_invented"),
    }
    assert ended["partial"]["current_state"] == "degraded"
    assert ended["good"]["current_state"] == "succeeded"
    assert world.read_of("good") == {"judge": "Ann Bell"}


@pytest.mark.spec("§16.3", "INV-EXT-4")
async def test_a_run_that_fails_each_time_is_abandoned_and_no_sweep_brings_it_back(
    world: TaskWorld,
):
    world.scripted.answers["doc-1"] = ValueError("a defect")
    await world.take_in("doc-1")
    await world.ask(task(extractor="scripted"))
    for _ in range(8):
        await world.deliver()
        world.pass_s(3600)
    assert world.states() == ["running", "blocked"] * 2 + ["running", "abandoned"]
    assert len(world.scripted.asked) == 3
    await world.redis.flushall()
    world.relay = world.new_relay()
    assert await world.deliver() == []
    assert world.open(EXTRACTION_QUEUE) == []


@pytest.mark.spec("§16.4")
async def test_without_a_model_a_run_is_blocked_and_goes_on_when_there_is_one(world: TaskWorld):
    await world.take_in("doc-1", kind="letter")
    await world.ask(task())
    await world.deliver()
    last = world.last()
    assert (last["current_state"], last["block_reason"]) == ("blocked", "model_unavailable")
    # It is offered again and again, costs no try, and makes no further step.
    for _ in range(5):
        world.pass_s(60)
        assert len(await world.deliver()) == 1
    assert world.states() == ["running", "blocked"]
    model = Scripted()
    model.answers["doc-1"] = result(value(ENTRY, "Ann Bell", "judge"))
    world.employ(Extractors(model=model))
    world.pass_s(60)
    await world.deliver()
    assert world.states() == ["running", "blocked", "running", "succeeded"]
    with world.ledger.view() as view:
        steps = attempts_of(view, "run-1", limit=9)
    assert steps[2]["state_change_reason"] == "model_available"


async def test_a_model_that_is_away_costs_tries_that_come_later(world: TaskWorld):
    model = Scripted()
    model.answers["doc-1"] = ModelError("model_timeout", "no answer")
    world.employ(Extractors(model=model))
    await world.take_in("doc-1", kind="letter")
    await world.ask(task())
    await world.deliver()
    assert world.states() == ["running", "blocked"]
    assert await world.deliver() == []
    world.pass_s(61)
    model.answers["doc-1"] = result()
    await world.deliver()
    assert world.states()[-1] == "succeeded"


@pytest.mark.parametrize("redis", ["kept", "flushed"])
@pytest.mark.parametrize("dies", ["before it began", "while it reads", "after it handed in"])
async def test_a_worker_that_dies_leaves_a_run_that_the_next_one_ends_once(
    world: TaskWorld, dies: str, redis: str
):
    await world.take_in("doc-1")
    [request] = await world.ask(task(extractor="scripted"))
    world.scripted.answers["doc-1"] = result(value(ENTRY, "Ann Bell", "judge"))
    await world.relay.sweep()
    claims = await world.queue.claim(1, 1000)
    if dies == "while it reads":
        await world.cut_off(world.handler.handle(claims))
        assert world.states() == ["running"]
    elif dies == "after it handed in":
        await world.handler.handle(claims)
    if redis == "flushed":
        await world.redis.flushall()
        world.relay = world.new_relay()
    world.pass_ms(1001)
    await world.queue.reap()
    await world.deliver()
    assert world.states() == ["running", "succeeded"]
    assert world.status(request).state == "completed"
    assert world.read_of() == {"judge": "Ann Bell"}
    assert (await world.queue.depth()).in_flight == 0


async def test_an_extractor_that_nobody_has_blocks_its_run(world: TaskWorld):
    await world.take_in("doc-1")
    await world.ask(task(extractor="nobody's"))
    await world.deliver()
    assert world.last()["block_reason"] == "upstream_dependency_unmet"


async def test_an_item_that_ends_its_workers_abandons_its_run(world: TaskWorld):
    await world.take_in("doc-1")
    [request] = await world.ask(task(extractor="scripted"))
    await world.relay.sweep()
    [claim] = await world.queue.claim(1, 1000)
    await world.cut_off(world.processor.drain([claim]))
    assert world.states() == ["running"]
    lost = {"ends": WORKER_ENDS_MAX, "lost": "a-claim", "lost_at_ms": world.now_ms()}
    await world.processor.drain([claim._replace(**lost)])
    assert world.states() == ["running", "abandoned"]
    status = world.status(request)
    assert (status.state, status.reason) == ("dead_letter", "worker_ended_three_times")


@pytest.mark.spec("INV-EXT-2", "INV-EXT-3")
async def test_a_run_and_the_fields_of_its_source_are_shown_at_the_door(world: TaskWorld):
    await world.take_in("doc-1")
    body = {"request_key": "k", "content": task().content}
    answer = await world.door.send(
        "/v1/queues/extraction-transition/requests", {"requests": [body]}
    )
    assert answer.status_code == 200
    await world.ask(task("blocked", extractor="nobody's"))
    await world.deliver()
    shown = (await world.door.http.get("/v1/extractions/run-1")).json()
    assert (shown["state"], shown["source_ref"]) == ("succeeded", "doc-1")
    assert {value["field"] for value in shown["values"]} >= {"judge", "amount"}
    assert shown["extraction_completeness"]["failed_fields"] == []
    blocked = (await world.door.http.get("/v1/extractions?state=blocked")).json()
    assert [row["block_reason"] for row in blocked["runs"]] == ["upstream_dependency_unmet"]
    fields = (await world.door.http.get("/v1/sources/doc-1/extraction")).json()
    assert fields["fields"]["judge"]["status"] == "current"
    missing = await world.door.http.get("/v1/extractions/nobody")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "extraction_run_not_known"
    assert (await world.door.http.get("/v1/extractions?state=odd")).status_code == 422
