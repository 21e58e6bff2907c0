"""`rotulus status`: one screen, and a sentence for each thing that needs somebody."""

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import httpx
import orjson
import pytest

from kernel.landscape.recorder import Recorder
from kernel.ledger.archive import NO_ARCHIVE
from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.archives import memory_archive
from tests.kernel.jobs import do_jobs
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.cli.command import rotulus
from tests.workers.cli.test_queues import OneRecord
from workers.cli import status as status_module
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.gateway_state import PARTS
from workers.dashboard.page_model import page
from workers.dashboard.sanitize import tidy
from workers.gateway.dashboard_source import LiveSource
from workers.use_cases.log_archiving import KEEPS_ALL, RetentionPolicy
from workers.views.attention_items import AttentionItem
from workers.views.attention_rules import line_of


class ArchivedRecord(OneRecord):
    """A gateway for each call, whose ledger may have an archive."""

    def __init__(self):
        super().__init__()
        self.archive = None
        self.retention = KEEPS_ALL

    @asynccontextmanager
    async def door(self):
        async with super().door() as door:
            door.services.ledger.archive = self.archive or NO_ARCHIVE
            door.app.services = replace(door.services, retention=self.retention)
            yield door


@pytest.fixture
def record(monkeypatch) -> ArchivedRecord:
    record = ArchivedRecord()
    monkeypatch.setattr(status_module, "GatewayClient", record.client)
    return record


def test_a_gateway_without_workers_is_shown_and_needs_one(record):
    result = rotulus("status")
    assert result.exit_code == 1
    assert "is ready" in result.stdout
    assert "! notice    no worker serves authority-recompute" in result.stdout
    document = json.loads(rotulus("status", "--json").stdout)
    assert {item["kind"] for item in document["attention"]} == {"workers_missing"}
    assert document["tree"]["tree_size"] == "0"


def test_it_says_the_same_as_the_overview_in_the_same_order_and_words(record):
    async def make_trouble() -> list[AttentionItem]:
        async with record.door() as door:
            pause = {"reason": "the model is <b>replaced</b>", "decided_by": "ada"}
            assert (await door.send(f"{BINDINGS}/pause", pause)).is_success
            for name in ("a", "b"):
                [requested] = await enqueued(door, BINDINGS, binding(name))
                if name == "a":
                    await given_up(door, BINDING_QUEUE, requested["request_id"], "model: away")
            snapshot = tidy(await LiveSource(door.services, 4).read())
            shown = page(snapshot)["attention"]
            sentences = [row["a_sentence"] for row in shown.rows.values()]
            assert sentences == [item.sentence for item in snapshot.attention.value]
            return [*snapshot.attention.value]

    items = anyio.run(make_trouble)
    kinds = ["workers_missing", "queue_paused", "requests_given_up", *["workers_missing"] * 2]
    assert [item.kind for item in items] == kinds
    lines = [f"! {item.severity:8}  {line_of(item)}" for item in items]
    assert [each for each in rotulus("status").stdout.splitlines() if each[:1] == "!"] == lines
    documents = [orjson.loads(orjson.dumps(item)) for item in items]
    assert json.loads(rotulus("status", "--json").stdout)["attention"] == documents


@pytest.mark.spec("§17.5")
def test_it_says_how_many_receipts_no_tree_head_commits_to(record):
    assert "under the root" not in rotulus("status").stdout
    do_jobs(Ledger(record.store, record.host), {"width": 80})
    [line] = [line for line in rotulus("status").stdout.splitlines() if line.startswith("record")]
    assert line.endswith(", 2 receipts behind them not yet under the root")


@pytest.mark.spec("§17.5", "L4")
def test_it_says_how_many_groups_of_records_of_runs_no_tree_head_commits_to(record):
    ledger = Ledger(record.store, record.host)
    Recorder(ledger, group_records=1).begin_run({}, run_id="run-1")
    [line] = [line for line in rotulus("status").stdout.splitlines() if line.startswith("record")]
    assert line.endswith(", 1 groups of records of runs not yet under the root")


@pytest.mark.spec("§17.7")
@pytest.mark.parametrize(
    ("archive", "retention_days", "line"),
    [
        (
            None,
            90,
            (
                "archive    there is no place for an archive, so rows stay in the database, however"
                " old; name a folder or a bucket by ROTULUS_ARCHIVE_URL"
            ),
        ),
        (memory_archive(), 90, "archive    takes rows of the log after 90 days"),
        (
            memory_archive(),
            None,
            "archive    takes nothing by itself (ROTULUS_KERNEL_RETENTION_DAYS is 0)",
        ),
    ],
)
def test_it_says_what_goes_to_the_archive_and_where_there_is_none(
    record, archive, retention_days, line
):
    record.archive, record.retention = archive, RetentionPolicy(retention_days)
    assert line in rotulus("status").stdout.splitlines()
    document = json.loads(rotulus("status", "--json").stdout)
    assert document["archive"]["is_configured"] == (archive is not None)
    assert not [item for item in document["attention"] if "archive" in item["sentence"]]


def test_where_no_gateway_is_the_url_and_what_to_do_are_said(monkeypatch):
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", "http://127.0.0.1:9")
    result = rotulus("status")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9; `rotulus up` starts a gateway" in result.stderr


def deep(levels: int) -> str:
    return '{"queues":' + "[" * levels + "]" * levels + "}"


LIES = {
    "nothing": "{}",
    "another kind": "[]",
    "no JSON": "<html>",
    "deep": deep(200_000),
    "deep, and read": deep(500),
    "numbers for lists": '{"queues":7,"pauses":7,"fleet":7,"halts":7,"set_aside":7,"problem":7}',
    "times beyond all": json.dumps(
        {
            "queues": {},
            "pauses": [],
            "fleet": [
                {
                    "worker_id": "w",
                    "queues": [],
                    "completed": 0,
                    "failed": 0,
                    "in_flight": 0,
                    "seen_at_ms": 10**300,
                }
            ],
        }
    ),
    "escapes": json.dumps({"error": "\x1b[2J"}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize("is_ready", [True, False])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_gateway_that_says_anything_is_said_not_to_be_one(monkeypatch, lie, is_ready, options):
    def answer(request):
        if request.url.path == "/readyz" and is_ready:
            return httpx.Response(200, json={"status": "ready", "problems": {}})
        return httpx.Response(200, text=lie)

    monkeypatch.setattr(
        status_module,
        "GatewayClient",
        partial(GatewayClient, transport=httpx.MockTransport(answer)),
    )
    result = rotulus("status", *options)
    assert result.exit_code == 1
    assert is_ready or "gateway_failed" in result.output
    assert "Nothing needs attention" not in result.output
    assert "\x1b" not in result.output
    if is_ready:
        for path in PARTS.values():
            assert f"does not answer {path}" in result.output


@pytest.mark.parametrize(
    ("withheld", "code"), [("tree", 0), ("checkpoint", 0), ("archive", 0), ("queues", 1)]
)
def test_what_a_role_may_not_read_is_no_fault_where_the_list_has_it_too(
    monkeypatch, withheld, code
):
    answers = {
        "/readyz": {"status": "ready", "problems": {}},
        PARTS["queues"]: {"queues": {}, "pauses": [], "fleet": []},
        PARTS["attention"]: {"items": []},
        PARTS["tree"]: {"tree_size": "1", "root_hash": "0"},
        PARTS["checkpoint"]: {"problem": None, "checkpoint": None},
        PARTS["archive"]: {"is_configured": True, "retention_days": 90},
    }
    denied = {"error": {"code": "access_denied", "message": "it takes the role of auditor"}}

    def answer(request):
        if request.url.path == PARTS[withheld]:
            return httpx.Response(403, json=denied)
        return httpx.Response(200, json=answers[request.url.path])

    client = partial(GatewayClient, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(status_module, "GatewayClient", client)
    result = rotulus("status")
    assert result.exit_code == code, result.output
    assert ("Nothing needs attention" in result.output) == (code == 0)


def test_a_gateway_that_never_ends_its_answer_is_given_up(monkeypatch):
    class Forever(httpx.AsyncBaseTransport):
        async def handle_async_request(self, _):
            await anyio.sleep_forever()

    monkeypatch.setattr(status_module, "ASK_S_MAX", 0.05)
    monkeypatch.setattr(status_module, "GatewayClient", partial(GatewayClient, transport=Forever()))
    result = rotulus("status")
    assert result.exit_code == 1
    assert "gateway_unreachable" in result.output
