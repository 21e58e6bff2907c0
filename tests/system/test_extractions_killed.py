"""Extractions under kill -9 of worker and gateway and FLUSHALL, on SQLite and on PostgreSQL."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.commit.units import IntentUnit, commit_alone
from actors.commit.work_units import RequestWorkUnit, WorkReportUnit
from actors.orchestrator.intents import CreateSource
from actors.orchestrator.orchestrator import Orchestrator
from actors.orchestrator.untrusted_content import wrap_untrusted
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres.store import PostgresStore
from kernel.ledger.sqlite.store import SqliteStore
from kernel.records.extraction import attempts_of
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.extraction_runs import replacement_of
from kernel.work.reports import ExtractionBegun
from kernel.work.requests import request_id_of, status_of
from tests.kernel.attempts import given_up
from tests.kernel.build import code_of, effect, envelope, submit
from tests.kernel.extractions import task
from tests.system.test_three_queues import flush, in_redis
from tests.system.tree_run import TreeRun, running, wait_for
from workers.environment.system_host import system_host

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

EACH = 8
ENTRY = "ORDER granting 12 Motion to Dismiss. Signed by Judge Ann Bell. Fee Amount $350."
CHANGED = "ORDER denying 14 Motion to Convert. Signed by Judge Ann Bell."

RUNS = {
    kind: [f"{kind}-{number}" for number in range(EACH)] for kind in ("new", "begun", "changed")
}
ABANDONED = "abandoned-0"


def prepare(ledger: Ledger) -> None:
    """Runs that wait, that a worker died with, whose source changed since, and one abandoned."""
    kernel, orchestrator = Kernel(), Orchestrator(ledger.host)

    def do(unit: Any) -> Any:
        return commit_alone(unit, ledger, kernel, orchestrator)

    for run in [*(run for runs in RUNS.values() for run in runs), ABANDONED]:
        source = CreateSource(
            intent_key=run,
            node_id=f"doc-{run}",
            corpus_id="corpus",
            content_kind="ecf_entry_text",
            text=ENTRY,
        )
        do(IntentUnit(source, None))
        do(RequestWorkUnit((task(run, f"doc-{run}"),)))
    for run in (*RUNS["begun"], *RUNS["changed"], ABANDONED):
        begun = ExtractionBegun(request_id=request_of(run), extractor="docket_entry_rules")
        assert do(WorkReportUnit(begun))[0] == "recorded"
    do(WorkReportUnit(given_up(request_id=request_of(ABANDONED), error_signature="spent")))
    for run in RUNS["changed"]:
        content = wrap_untrusted(CHANGED, source=f"doc-{run}", kind="ecf_entry_text")
        write = effect("node_write", f"doc-{run}", content=content)
        result = submit(ledger, envelope("field_adapt", [write]), submitter="orchestrator")
        assert code_of(result) is None


def request_of(run: str) -> str:
    return request_id_of(EXTRACTION_QUEUE, run)


def states(ledger: Ledger, run: str) -> list[str]:
    steps = ledger.read(lambda view: attempts_of(view, run, limit=50))
    return [step["current_state"] for step in steps]


@contextmanager
def opened(run: TreeRun, url: str | None) -> Iterator[Ledger]:
    store = SqliteStore(run.ledger_path) if url is None else PostgresStore(url)
    ledger = Ledger(store, system_host())
    yield ledger
    ledger.close()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str | None:
    """A new database for the store that is asked for; None where that is a file."""
    if request.param == "sqlite":
        return None
    empty: str = request.getfixturevalue("postgres_empty_url")
    return empty


@pytest.mark.spec("INV-EXT-4", "INV-EXT-6", "K19")
@pytest.mark.parametrize(
    ("url", "killed"),
    [
        ("sqlite", "worker"),
        ("postgres", "gateway"),
        pytest.param("sqlite", "gateway", marks=pytest.mark.nightly),
        pytest.param("postgres", "worker", marks=pytest.mark.nightly),
    ],
    indirect=["url"],
)
def test_every_run_ends_once_whoever_is_killed(
    url: str | None, killed: str, tmp_path: Path
) -> None:
    env = {"ROTULUS_WORKER_SLOTS": "2"} | ({} if url is None else {"ROTULUS_DATABASE_URL": url})
    with running(tmp_path / "data", "up", env=env) as run:
        run.wait_until_up()
        worker, gateway = run.pid_of("worker"), run.pid_of("gateway")
        os.kill(worker, signal.SIGSTOP)
        with opened(run, url) as ledger:
            prepare(ledger)
            wait_for("the relay", lambda: in_redis(run, "ready")[EXTRACTION_QUEUE], 60.0)
            os.kill(gateway, signal.SIGSTOP)
            os.kill(worker, signal.SIGCONT)
            wait_for("claims", lambda: in_redis(run, "in-flight")[EXTRACTION_QUEUE], 60.0)
            os.kill({"worker": worker, "gateway": gateway}[killed], signal.SIGKILL)
            flush(run)
            if killed == "worker":
                os.kill(gateway, signal.SIGCONT)
            wait_for("the end of the work", _nothing_open(ledger), 90.0)
            _judge(ledger)


def _nothing_open(ledger: Ledger) -> Callable[[], bool]:
    return lambda: not ledger.read(lambda view: view.open_requests(queue=EXTRACTION_QUEUE))


def _judge(ledger: Ledger) -> None:
    for run in (*RUNS["new"], *RUNS["begun"]):
        assert states(ledger, run) == ["running", "succeeded"], run
    for run in RUNS["changed"]:
        assert states(ledger, run) == ["running", "cancelled"], run
        assert states(ledger, replacement_of(run)) == ["running", "succeeded"], run
    assert states(ledger, ABANDONED) == ["running", "abandoned"]
    ended = [*RUNS["new"], *RUNS["begun"], *map(replacement_of, RUNS["changed"])]
    with ledger.view() as view:
        stated = [attempts_of(view, run, limit=9)[-1]["claim_refs"] for run in ended]
        claims = view.nodes_of_kind("VersionedClaim", after=None, limit=1000)
        status = status_of(view, request_of(ABANDONED))
        assert verify(view).findings == ()
    assert status is not None
    assert (status.state, status.reason) == ("dead_letter", "spent")
    # Every claim is of one result, and every result has all of its claims.
    of_runs = Counter(claim["payload"]["extracted"]["extraction_run_id"] for claim in claims)
    assert sorted(ref for refs in stated for ref in refs) == sorted(c["node_id"] for c in claims)
    assert of_runs == {run: len(refs) for run, refs in zip(ended, stated, strict=True)}
