"""A worker killed with items of all three queues in hand: each request has one outcome."""

import json
import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from redis import Redis

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.requests import WorkRequest, enqueue
from tests.kernel.build import create, submit
from tests.system.essence import outcomes_for_each_request, reading
from tests.system.extractions import STATES, steps
from tests.system.tree_run import TreeRun, running, wait_for
from workers.environment.ledger_verification import verify_file
from workers.environment.system_host import system_host

pytestmark = pytest.mark.timeout(120)

EACH = 20


def ask_for_everything(ledger_path: Path) -> None:
    """Requests of all three queues, recorded by another process than the tree's."""
    ledger = Ledger(SqliteStore(ledger_path), system_host())
    for number in range(EACH):
        content = {"binding_id": f"b-{number}", "source_event_id": f"e-{number}"}
        submit(ledger, create(f"u-{number}", "ConsolidatedUnderstanding"))
        with ledger.transaction() as transaction:
            binding = WorkRequest(BINDING_QUEUE, f"b-{number}", content)
            enqueue(transaction, [binding, *steps(f"run-{number}")])
    ledger.close()


def in_redis(run: TreeRun, part: str) -> dict[str, int]:
    """How many items of each queue are in a part of it."""
    folder = run.data_dir / "redis"
    port = json.loads((folder / "server.json").read_bytes())["port"]
    password = (folder / "password").read_text()
    with Redis(port=port, password=password) as client:
        prefixes = {name: f"rotulus:{{{name}}}:" for name in QUEUE_KINDS}
        if part == "ready":
            return {
                name: sum(client.zcard(f"{prefix}ready:{rank}") for rank in range(5))
                for name, prefix in prefixes.items()
            }
        return {name: client.zcard(f"{prefix}{part}") for name, prefix in prefixes.items()}


def flush(run: TreeRun) -> None:
    folder = run.data_dir / "redis"
    port = json.loads((folder / "server.json").read_bytes())["port"]
    with Redis(port=port, password=(folder / "password").read_text()) as client:
        assert client.flushall()


def open_requests(ledger_path: Path) -> int:
    with reading(ledger_path) as ledger:
        [(n_open,)] = ledger.execute("SELECT count(*) FROM outbox WHERE open = 1")
    return int(n_open)


def outcomes_by_queue(ledger_path: Path) -> dict[str, set[str]]:
    query = """
        SELECT queue, outcome FROM outbox JOIN outbox_outcomes USING (request_id)
    """
    outcomes: dict[str, set[str]] = defaultdict(set)
    with reading(ledger_path) as ledger:
        for queue, outcome in ledger.execute(query):
            outcomes[queue].add(outcome)
    return dict(outcomes)


def attempts_by_run(ledger_path: Path) -> dict[str, list[dict[str, object]]]:
    """The steps of each run in the order of the log."""
    query = """
        SELECT record FROM extraction_attempts
        JOIN kernel_event_log
          ON operation_id = json_extract(CAST(record AS TEXT), '$.updated_by_operation_id')
        ORDER BY ec_sequence_number
    """
    steps: dict[str, list[dict[str, object]]] = defaultdict(list)
    with reading(ledger_path) as ledger:
        for (record,) in ledger.execute(query):
            step = json.loads(record)
            steps[step["extraction_run_id"]].append(step)
    return dict(steps)


@pytest.mark.spec("K19", "§16.4")
@pytest.mark.parametrize("redis", [pytest.param("kept", marks=pytest.mark.nightly), "flushed"])
def test_a_worker_killed_with_all_three_queues_in_hand_leaves_one_outcome_for_each(
    redis: str, tmp_path: Path
) -> None:
    with running(tmp_path / "data", "up", env={"ROTULUS_WORKER_SLOTS": "3"}) as run:
        run.wait_until_up()
        worker, gateway = run.pid_of("worker"), run.pid_of("gateway")
        os.kill(worker, signal.SIGSTOP)
        ask_for_everything(run.ledger_path)
        wait_for(
            "the relay",
            lambda: set(in_redis(run, "ready").values()) == {EACH},
            30.0,
        )
        # The gateway takes nothing, so what is claimed stays in hand.
        os.kill(gateway, signal.SIGSTOP)
        os.kill(worker, signal.SIGCONT)
        wait_for("claims", lambda: min(in_redis(run, "in-flight").values()) == EACH, 30.0)
        os.kill(worker, signal.SIGKILL)
        if redis == "flushed":
            flush(run)
        os.kill(gateway, signal.SIGCONT)
        wait_for("the end of the work", lambda: open_requests(run.ledger_path) == 0, 60.0)

        assert outcomes_for_each_request(run.ledger_path) == {1}
        assert outcomes_by_queue(run.ledger_path) == {
            "authority-recompute": {"completed"},
            BINDING_QUEUE: {"completed"},
            EXTRACTION_QUEUE: {"completed"},
        }
        runs = attempts_by_run(run.ledger_path)
        assert len(runs) == EACH
        for steps in runs.values():
            assert [step["attempt_number"] for step in steps] == list(range(1, len(STATES)))
            assert [step["current_state"] for step in steps] == list(STATES[1:])
            parents = [step.get("parent_operation_id") for step in steps]
            assert parents == [None, *(operation["operation_id"] for operation in steps[:-1])]
        assert verify_file(run.ledger_path, lambda _done, _total: None).findings == ()
