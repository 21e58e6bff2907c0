"""Traces from a request to its outcome: connected, without content, and in nobody's way."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kernel.work.contents import BINDING_QUEUE
from queues.queue.items import Claim, Lineage
from tests.ports import free_port
from tests.workers.api.door import ONTOLOGY, SESSION, claim, source, understanding
from tests.workers.gateway.served import served_gateway
from tests.workers.telemetry.collector import attributes, running_collector
from workers.client import BindingEvaluation, NewRequest, Rotulus
from workers.environment.settings import Settings
from workers.telemetry.span_exporter import Spans, open_spans
from workers.telemetry.trace_context import (
    TRACED_CAUSES_MAX,
    read_traceparent,
    root_of,
    sending_contexts,
    traceparents_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WAIT_S = 30
TOKEN = "the-token-of-these-tests"  # noqa: S105 - made up here
SECRET = "NOBODY-MAY-READ-THIS"  # noqa: S105 - made up here
WORK = ("mailbox", "commit", "relay", "queue", "handle")


class TracedFleet:
    """A gateway in this process, and a worker in one of its own."""

    def __init__(self, folder: Path, redis_url: str, traces_url: str) -> None:
        port = free_port()
        self.url, self._redis_url = f"http://127.0.0.1:{port}", redis_url
        self._settings = Settings(
            data_dir=folder / "data",
            port=port,
            gateway_url=self.url,
            worker_token=TOKEN,
            traces_url=traces_url,
        )
        self._env = {
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_REDIS_URL": redis_url,
            "ROTULUS_GATEWAY_URL": self.url,
            "ROTULUS_WORKER_TOKEN": TOKEN,
            "ROTULUS_TRACES_URL": traces_url,
        }

    async def run(self, body: Any) -> Any:
        """Run both for as long as a body takes."""
        async with served_gateway(self._settings, self._redis_url) as client:
            with anyio.fail_after(WAIT_S), self._worker():
                return await body(client)

    @contextmanager
    def _worker(self) -> Iterator[None]:
        command = [sys.executable, "-m", "tests.chaos.worker_process"]
        with subprocess.Popen(command, env=os.environ | self._env) as process:
            try:
                yield
            finally:
                process.terminate()


async def until(done: Any) -> None:
    with anyio.fail_after(WAIT_S):
        while not done():
            await anyio.sleep(0.02)


def assert_connected(spans: Sequence[Span]) -> None:
    """One root, every other span under a span of the trace, and no span twice."""
    ids = [span.span_id for span in spans]
    assert len(set(ids)) == len(ids), [span.name for span in spans]
    roots = [span for span in spans if not span.parent_span_id]
    assert len(roots) == 1, [root.name for root in roots]
    assert {span.parent_span_id for span in spans if span.parent_span_id} <= set(ids)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)


@pytest.mark.parametrize(
    ("priority", "reported_in"),
    [
        ("background", ["POST /internal/work", "commit", "mailbox"]),
        # What comes of critical work goes past the mailboxes.
        ("critical", ["POST /internal/work", "commit"]),
    ],
)
async def test_asked_for_work_is_one_connected_trace_from_request_to_outcome(
    tmp_path: Path, valkey_url: str, priority: str, reported_in: list[str]
):
    async def ask(_: httpx.AsyncClient) -> str:
        async with Rotulus(fleet.url) as rotulus:
            content = {
                "binding_id": SECRET,
                "source_event_id": "event-1",
                "capacity_priority": priority,
            }
            job = await rotulus.enqueue(content, queue=BINDING_QUEUE, key="key-1")
            outcome = await job.result(WAIT_S)
            assert outcome.state == "completed"
            trace_id = root_of(job.request_id).trace_id
            # The report's own commit is told last.
            await until(lambda: named(collector.trace(trace_id)).count("commit") == 2)
            await until(lambda: "handle" in named(collector.trace(trace_id)))
        return job.request_id

    with running_collector() as collector:
        fleet = TracedFleet(tmp_path, valkey_url, collector.url)
        request_id = await fleet.run(ask)
    spans = collector.trace(root_of(request_id).trace_id)
    assert_connected(spans)
    [root] = [span for span in spans if not span.parent_span_id]
    assert root.name == "POST /v1/queues/{queue}/requests"
    assert attributes(root)["rotulus.work_request_id"] == request_id
    [handled] = [span for span in spans if span.name == "handle"]
    assert attributes(handled)["rotulus.outcome"] == "done"
    reported = [span for span in spans if span.parent_span_id == handled.span_id]
    assert sorted(named(reported)) == reported_in
    [outcome] = [span for span in reported if span.name == "commit"]
    assert attributes(outcome)["rotulus.outcome"] == "completed"
    assert set(named(spans)) >= {"commit", "relay", "queue", "handle"}
    assert SECRET not in repr(collector.spans)


async def test_a_claim_and_the_recompute_that_it_causes_are_one_trace(
    tmp_path: Path, valkey_url: str
):
    intents = [
        source("s", text=f"The {SECRET}"),
        understanding("u", "s"),
        claim("c", "s", "u"),
    ]

    async def ask(client: httpx.AsyncClient) -> str:
        declared = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["h"]}
        (await client.post("/v1/sessions", json=declared)).raise_for_status()
        place = f"/v1/sessions/{SESSION}/operations"
        caller = {"traceparent": f"00-{7:032x}-{9:016x}-01"}
        answer = await client.post(place, json={"intents": intents}, headers=caller)
        operation_id = str(answer.json()["results"][2]["operation_id"])
        trace_id = root_of(operation_id).trace_id
        await until(lambda: named(collector.trace(trace_id)).count("commit") >= 2)
        await until(lambda: "handle" in named(collector.trace(trace_id)))
        again = await client.post(place, json={"intents": intents})
        assert again.json()["results"][2]["duplicate"]
        await until(lambda: named(collector.trace(trace_id)).count(ROUTE) == 2)
        return operation_id

    with running_collector() as collector:
        fleet = TracedFleet(tmp_path, valkey_url, collector.url)
        operation_id = await fleet.run(ask)
    spans = collector.trace(root_of(operation_id).trace_id)
    assert_connected(spans)
    [root] = [span for span in spans if not span.parent_span_id]
    assert root.name == ROUTE
    [link] = root.links
    assert (int.from_bytes(link.trace_id), int.from_bytes(link.span_id)) == (7, 9)
    assert set(named(spans)) >= {*WORK, "POST /internal/recomputed"}
    assert SECRET not in repr(collector.spans)


ROUTE = "POST /v1/sessions/{session_id}/operations"


def named(spans: Sequence[Span]) -> list[str]:
    return [span.name for span in spans]


async def test_a_collector_that_is_away_or_silent_loses_no_work_and_holds_nobody_up(
    tmp_path: Path, valkey_url: str
):
    async def ask(client: httpx.AsyncClient) -> str:
        async with Rotulus(fleet.url) as rotulus:
            content = BindingEvaluation(binding_id="b", source_event_id="e")
            jobs = await rotulus.enqueue_many(
                NewRequest(content, key=f"key-{number}") for number in range(20)
            )
            outcomes = await rotulus.outcomes(jobs, WAIT_S)
        assert {outcome.state for outcome in outcomes} == {"completed"}
        dropped = 'rotulus_trace_spans_total{outcome="dropped"}'
        while True:
            text = (await client.get("/metrics")).text
            [line] = [line for line in text.splitlines() if line.startswith(dropped)]
            if float(line.rpartition(" ")[2]) > 0:
                return line
            await anyio.sleep(0.2)

    fleet = TracedFleet(tmp_path, valkey_url, f"http://127.0.0.1:{free_port()}")
    assert await fleet.run(ask)


def test_without_the_setting_nothing_is_traced_and_no_sdk_is_loaded():
    code = (
        "import sys; import workers.gateway.process, workers.worker.process, workers.cli.main;"
        "from workers.environment.settings import Settings;"
        "from workers.gateway.tracing_switch import Untraced, gateway_traces;"
        "from workers.worker.process import worker_traces;"
        "assert isinstance(gateway_traces(Settings()), Untraced);"
        "assert worker_traces(Settings()) is None;"
        "from opentelemetry import trace;"
        "assert type(trace.get_tracer_provider()).__name__ == 'ProxyTracerProvider';"
        "assert not [one for one in sys.modules if one.startswith('opentelemetry.sdk')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


class Stuck(SpanExporter):
    """An exporter whose collector takes and says nothing."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002
        self.thread = threading.current_thread()
        self.entered.set()
        self.leave.wait(20)
        return SpanExportResult.FAILURE


def test_spans_beyond_the_queue_are_dropped_and_counted():
    exporter = Stuck()
    spans = Spans(exporter, "test", spans_max=10)
    place = root_of("x")
    spans.tell("first", place, None, times_ns=(1, 2))
    assert exporter.entered.wait(20)
    for number in range(25):
        spans.tell("more", place.child(str(number)), place, times_ns=(1, 2))
    assert spans.dropped == 15
    exporter.leave.set()
    spans.close()
    exporter.thread.join(20)
    assert (spans.exported, spans.dropped) == (0, 26)


def test_a_close_waits_for_a_stuck_collector_no_longer_than_it_says(monkeypatch):
    monkeypatch.setattr("workers.telemetry.span_exporter.CLOSE_S", 0.05)
    exporter = Stuck()
    spans = Spans(exporter, "test")
    spans.tell("one", root_of("x"), None, times_ns=(1, 2))
    assert exporter.entered.wait(20)
    spans.close()
    assert exporter.thread.is_alive()
    exporter.leave.set()
    exporter.thread.join(20)


def test_what_waits_at_the_end_is_sent():
    exporter = InMemorySpanExporter()
    spans = Spans(exporter, "test")
    spans.tell("one", root_of("x"), None, times_ns=(5, 3), attributes={"a": "b"}, failed=True)
    spans.close()
    [finished_span] = exporter.get_finished_spans()
    assert (finished_span.name, finished_span.start_time, finished_span.end_time) == ("one", 5, 5)
    assert finished_span.context.trace_id == root_of("x").trace_id
    assert (spans.exported, spans.dropped) == (1, 0)
    spans.tell("late", root_of("x"), None, times_ns=(1, 2))
    assert spans.dropped == 1


def test_a_share_of_the_traces_is_chosen_alike_by_everybody():
    some = Spans(InMemorySpanExporter(), "test", sample=0.25)
    other_spans = Spans(InMemorySpanExporter(), "other", sample=0.25)
    names = [f"operation-{number}" for number in range(400)]
    chosen = [name for name in names if some.root(name) is not None]
    assert chosen == [name for name in names if other_spans.root(name) is not None]
    assert 50 < len(chosen) < 150
    for each in (some, other_spans):
        each.close()


@pytest.mark.parametrize(
    ("configured", "endpoint"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("https://collector/otlp/v1/traces", "https://collector/otlp/v1/traces"),
    ],
)
def test_a_collector_is_asked_at_its_usual_path_or_at_the_one_that_is_named(configured, endpoint):
    seen: dict[str, Any] = {}

    def exporter(**options: Any) -> InMemorySpanExporter:
        seen.update(options)
        return InMemorySpanExporter()

    open_spans(configured, "test", 1.0, exporter).close()
    assert seen["endpoint"] == endpoint


def item(*traceparents: str) -> Claim:
    lineage = tuple(Lineage("", traceparent) for traceparent in traceparents)
    causes = tuple(str(number) for number in range(len(traceparents)))
    return Claim(
        key="k",
        token="token",  # noqa: S106 - made up here
        payload=b"",
        priority="background",
        causes=causes,
        lineage=lineage,
        causes_count=len(causes),
        attempt=1,
        enqueued_at_ms=0,
        deadline_ms=0,
    )


@pytest.mark.parametrize(
    "unusable",
    [
        "",
        "00-0-0-01",
        f"00-{0:032x}-{1:016x}-01",
        f"00-{1:032x}-{1:016x}-00",
        f"01-{1:032x}-{1:016x}-01",
    ],
)
def test_what_is_no_sampled_traceparent_is_no_trace(unusable):
    assert read_traceparent(unusable) is None
    assert traceparents_of([item(unusable)]) == []


def test_an_item_is_of_few_traces_whatever_the_number_of_its_causes():
    many = [root_of(str(number)).traceparent for number in range(100)]
    assert len(sending_contexts(item(*many))) == TRACED_CAUSES_MAX
    [[*traced], none] = traceparents_of([item(*many), item("")])
    assert (len(traced), none) == (TRACED_CAUSES_MAX, [])
    assert all(read_traceparent(traceparent) is not None for traceparent in traced)
