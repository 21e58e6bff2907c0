"""`rotulus status`: one screen, and a sentence for each thing that needs somebody."""

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import httpx
import pytest

from kernel.landscape.recorder import Recorder
from kernel.ledger.archive import NO_ARCHIVE
from kernel.ledger.ledger import Ledger
from tests.kernel.archives import memory_archive
from tests.kernel.jobs import do_jobs
from tests.workers.cli.command import rotulus
from tests.workers.cli.test_queues import OneRecord
from workers.cli import status as status_module
from workers.client.typed.gateway import GatewayClient
from workers.use_cases.log_archiving import KEEPS_ALL, RetentionPolicy
from workers.views.attention import PARTS, attention


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
            door.app.state.services = replace(door.services, retention=self.retention)
            yield door


@pytest.fixture
def record(monkeypatch) -> ArchivedRecord:
    record = ArchivedRecord()
    monkeypatch.setattr(status_module, "GatewayClient", record.client)
    return record


def queue(**changes):
    priorities = ("critical", "user_initiated", "background")
    nothing = dict.fromkeys(priorities, 0)
    state = {"ready": nothing, "suspended": nothing, "delayed": 0, "in_flight": 0, "dead": 0}
    return state | {"oldest_eligible_age_ms": nothing} | changes


def state(**changes):
    calm = {
        "readiness": {"status": "ready", "problems": {}},
        "queues": {
            "queues": {"binding-evaluation": queue()},
            "pauses": [],
            "fleet": [{"queues": ["binding-evaluation"]}],
        },
        "set_aside": {"set_aside": []},
        "implications": {"halts": []},
        "tree": {"tree_size": "1", "root_hash": "00"},
        "checkpoint": {
            "publishes": False,
            "problem": None,
            "checkpoint": None,
            "receipts_not_under_the_tree": 0,
            "run_groups_not_under_the_tree": 0,
        },
        "runs": {"problems": []},
        "archive": {"is_configured": True, "retention_days": 90, "audit_horizon_days": 2557},
    }
    return calm | changes


def queues(**changes):
    return {"queues": state()["queues"] | changes}


def published(verdict, message, problem=None, *, quorum_met=False):
    checkpoint = {"verdict": verdict, "message": message, "quorum_met": quorum_met}
    return {"checkpoint": {"problem": problem, "checkpoint": checkpoint}}


def problem(severity, kind, message):
    return {"severity": severity, "type": kind, "run_id": "r-1", "message": message}


REFUSED = {"code": "checkpoint_diverged", "message": "3 rows are signed"}
HALT = {"halt_id": "h-1", "operation_kind": "", "detector": "d"}
PAUSE = {"queue": "binding-evaluation", "priority": None, "decided_by": "A. B."}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"readiness": {"problems": {"ledger": "held"}}},
            "the gateway is not ready: ledger: held",
        ),
        (
            queues(pauses=[PAUSE]),
            "binding-evaluation is paused by A. B.: rotulus queues resume binding-evaluation",
        ),
        (
            queues(pauses=[PAUSE | {"priority": "critical"}]),
            (
                "binding-evaluation critical is paused by A. B.:"
                " rotulus queues resume binding-evaluation --priority critical"
            ),
        ),
        (
            queues(late_workers=["worker-1"]),
            "worker-1 missed a beat: if it is dead, others take over what it had in hand",
        ),
        (
            queues(fleet=[]),
            "no worker serves binding-evaluation: rotulus worker --queues binding-evaluation",
        ),
        (
            queues(queues={"binding-evaluation": queue(dead=2)}),
            "2 of binding-evaluation were given up: rotulus queues dead binding-evaluation",
        ),
        (
            queues(
                queues={"binding-evaluation": queue(oldest_eligible_age_ms={"critical": 9_000})}
            ),
            "binding-evaluation critical is late: the oldest has waited 9 s, its target is 5 s",
        ),
        (
            {"set_aside": {"set_aside": [{}]}},
            "1 requests are set aside, because they ended their takers",
        ),
        (
            {"implications": {"halts": [HALT]}},
            "detector d is halted: rotulus implications resume h-1",
        ),
        (
            published("diverged", "diverged: 3 rows are signed", REFUSED),
            "the log is not published: checkpoint_diverged: 3 rows are signed",
        ),
        (
            published("invalid", "invalid: the note is no text"),
            (
                "the published checkpoint is invalid: the note is no text: `rotulus doctor` looks"
                " at keys and tiles; ROTULUS_CHECKPOINT_KEY, or the policy of"
                " ROTULUS_WITNESS_POLICY, says which key counts"
            ),
        ),
        (
            published("unwitnessed", "unwitnessed"),
            "the published checkpoint is unwitnessed: its witnesses do not answer",
        ),
        (
            {"runs": {"problems": [problem("CRITICAL", "failed_run", "the run failed")]}},
            "run r-1: the run failed: rotulus landscape report r-1 failure_context",
        ),
        (
            {
                "runs": {
                    "problems": [
                        problem("WARNING", "failed_tokens", "requests given up: 1"),
                        problem("INFO", "quarantined_rows", "2 rows are quarantined"),
                        problem("WARNING", "high_error_rate", "70 of 100 tokens"),
                    ]
                }
            },
            "run r-1: 70 of 100 tokens: rotulus landscape report r-1 failure_context",
        ),
        (
            {"tree": {"error": "ledger_unavailable: away"}},
            "the gateway does not answer /v1/tree: ledger_unavailable: away",
        ),
    ],
)
def test_what_needs_somebody_is_said_with_the_command_for_it(changes, sentence):
    assert list(attention(state(**changes))) == [sentence]


def test_what_is_calm_needs_nobody():
    assert list(attention(state())) == []
    witnessed = published("witnessed", "witnessed 2 of 3", quorum_met=True)
    assert list(attention(state(**witnessed))) == []


def test_a_gateway_without_workers_is_shown_and_needs_one(record):
    result = rotulus("status")
    assert result.exit_code == 1
    assert "is ready" in result.stdout
    assert "! no worker serves authority-recompute" in result.stdout
    document = json.loads(rotulus("status", "--json").stdout)
    assert [sentence for sentence in document["attention"] if "no worker" in sentence]
    assert document["tree"]["tree_size"] == "0"


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
    assert not [sentence for sentence in document["attention"] if "archive" in sentence]


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


def test_a_gateway_that_never_ends_its_answer_is_given_up(monkeypatch):
    class Forever(httpx.AsyncBaseTransport):
        async def handle_async_request(self, _):
            await anyio.sleep_forever()

    monkeypatch.setattr(status_module, "ASK_S_MAX", 0.05)
    monkeypatch.setattr(status_module, "GatewayClient", partial(GatewayClient, transport=Forever()))
    result = rotulus("status")
    assert result.exit_code == 1
    assert "gateway_unreachable" in result.output
