"""Makes the state of each alert in a gateway of this process, as little as it takes.

A state fills in what the reader of the runbook puts into commands, once it stands; what it holds is
let go at its end. `RED` says of `/metrics`, before and now, that the alert's expression holds.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import anyio
import anyio.to_thread

from kernel.ledger import schema
from kernel.ledger.sqlite.store import SqliteStore
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.build import FakeHost, accept, create
from tests.kernel.implied import halt
from tests.kernel.quarantining import audited
from tests.kernel.tampering import Copy
from tests.scraped import Scraped
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, eventually, running_door
from tests.workers.dashboard.served_gateways import SHARDS, ServedGateway, client_of, without_redis
from tests.workers.dashboard.trouble import HOUR_MS
from workers.environment.checkpoint_key import verifiers_in

Filled = Mapping[str, str]
State = Callable[[ServedGateway], Any]
GROUNDS: Final = {"TEXT": "the cause is mended", "NAME": "ada"}
PRIORITY: Final = "critical"


@contextmanager
def redis_away(served: ServedGateway) -> Iterator[Filled]:
    with without_redis(served):
        yield {}


@contextmanager
def session_damaged(served: ServedGateway) -> Iterator[Filled]:
    served.call(_declare_elsewhere, served)
    copy = Copy(served.folder / "ledger.db")
    row = copy.rows(schema.belief_events)[0]
    copy.set(schema.belief_events, row, event_bytes=row["event_bytes"] + b" ")
    copy.close()
    with client_of(served) as http:
        assert http.get(f"/v1/sessions/{SESSION}").status_code == 500
    yield {}


async def _declare_elsewhere(served: ServedGateway) -> None:
    """Declare a session through another gateway, so that this one has no actor of it."""
    store = SqliteStore(served.folder / "ledger.db")
    try:
        async with running_door(store, host=FakeHost().host) as door:
            answer = await door.declare(SESSION, "butler", "steward")
            assert answer.is_success, answer.text
    finally:
        store.close()


@contextmanager
def row_damaged(served: ServedGateway) -> Iterator[Filled]:
    accept(served.ledger, create("n-0", "Note"))
    whole = _row_written(served, lambda written: written + b" ")
    audited(served.ledger)
    # Mended, so that what is lifted is not found again.
    _row_written(served, lambda _: whole)
    with client_of(served) as http:
        [standing] = http.get("/v1/quarantines").json()["quarantines"]
    yield {"ID": standing["quarantine_id"], "SEQUENCE": "0", **GROUNDS}


def _row_written(served: ServedGateway, change: Callable[[bytes], bytes]) -> bytes:
    """Write other bytes into the first row, and return what it had."""
    copy = Copy(served.folder / "ledger.db")
    row = copy.rows(schema.kernel_event_log)[0]
    copy.set(schema.kernel_event_log, row, row_bytes=change(row["row_bytes"]))
    copy.close()
    return bytes(row["row_bytes"])


@contextmanager
def work_without_workers(served: ServedGateway) -> Iterator[Filled]:
    served.call(enqueued, served.door, BINDINGS, binding("a"))
    yield {}


@contextmanager
def shard_unowned(served: ServedGateway) -> Iterator[Filled]:
    held = served.door.services.fleet.held_shards
    assert held is not None
    fence = held.drop(0)
    yield {}
    held.add([] if fence is None else [fence])


@contextmanager
def urgent_work(served: ServedGateway) -> Iterator[Filled]:
    served.call(enqueued, served.door, BINDINGS, binding("a", capacity_priority=PRIORITY))
    yield {"QUEUE": BINDING_QUEUE}


@contextmanager
def queue_paused(served: ServedGateway) -> Iterator[Filled]:
    with client_of(served) as http:
        for priority in (None, PRIORITY):
            body = {"decided_by": "ada", "reason": "an exchange", "priority": priority}
            named = {name: value for name, value in body.items() if value is not None}
            assert http.post(f"{BINDINGS}/pause", json=named).is_success
    yield {"QUEUE": BINDING_QUEUE, "PRIORITY": PRIORITY}


@contextmanager
def detector_halted(served: ServedGateway) -> Iterator[Filled]:
    accept(served.ledger, halt("motions"))
    yield {"HALT_ID": "detector:motions", **GROUNDS}


@contextmanager
def log_diverged(served: ServedGateway) -> Iterator[Filled]:
    served.call(served.door.declare, SESSION, "butler", "steward")
    _publish(served)
    with client_of(served) as http:
        head = http.get("/v1/tree").json()
    _row_written(served, lambda written: written + b" ")
    audited(served.ledger)
    served.call(served.door.post, "eliminate", _elimination(0))
    _publish(served)
    folder = served.folder.parent
    vkey = verifiers_in(folder / "log.key")[0].vkey
    size_root = f"{head['tree_size']}:{head['root_hash']}"
    yield {"SIZE:ROOT": size_root, "FILE": str(folder / "public" / "checkpoint"), "KEY": vkey}


@contextmanager
def folder_unusable(served: ServedGateway) -> Iterator[Filled]:
    public = served.folder.parent / "public"
    shutil.rmtree(public, ignore_errors=True)
    public.touch()
    served.call(served.door.declare, SESSION, "butler", "steward")
    _publish(served)
    yield {}


def _publish(served: ServedGateway) -> None:
    publishing = served.door.services.publishing
    assert publishing is not None
    served.call(publishing.publish_last)


@contextmanager
def requests_given_up(served: ServedGateway) -> Iterator[Filled]:
    served.call(_give_up, served)
    yield {"QUEUE": BINDING_QUEUE}


async def _give_up(served: ServedGateway) -> None:
    [requested] = await enqueued(served.door, BINDINGS, binding("a"))
    queue = served.door.services.work.queues[BINDING_QUEUE]

    async def is_relayed() -> bool:
        return sum((await queue.depth()).ready.values()) == 1

    await eventually(is_relayed)
    claims = await queue.claim(1, HOUR_MS)
    await given_up(served.door, BINDING_QUEUE, requested["request_id"], "model: away")
    await queue.bury(claims)


def _elimination(number: int) -> dict[str, Any]:
    return {"source_id": "s", "observation_id": f"o-{number}", "eliminated": ["butler"]}


@contextmanager
def places_taken(served: ServedGateway) -> Iterator[Filled]:
    producers = served.door.services.admission.places["producers"]
    limit, producers.limit = producers.limit, 0
    with client_of(served) as http:
        assert http.get("/v1/queues").status_code == 503
    yield {}
    producers.limit = limit


@contextmanager
def ledger_locked(served: ServedGateway) -> Iterator[Filled]:
    with _ledger_held(served):
        refused = served.call(served.door.declare, SESSION, "butler", "steward")
        assert refused.status_code == 503
        yield {}


@contextmanager
def commit_late(served: ServedGateway) -> Iterator[Filled]:
    assert served.portal is not None
    with _ledger_held(served):
        waiting = served.portal.start_task_soon(served.door.declare, SESSION, "a", "b")
        served.call(anyio.sleep, 1.2)
    waiting.result()
    yield {}


@contextmanager
def _ledger_held(served: ServedGateway) -> Iterator[None]:
    """Hold the file as another program does that writes to it and does not end."""
    with closing(sqlite3.connect(served.folder / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        with suppress(sqlite3.OperationalError):
            other.execute("ROLLBACK")


@contextmanager
def mail_forged(served: ServedGateway) -> Iterator[Filled]:
    for shard in range(SHARDS):
        entry = {"mailbox": "0" * 16, "body": b"not sealed"}
        served.call(served.redis.xadd, f"rotulus:{{shard:{shard}}}:mail", entry)
    yield {}


STATES: Final[Mapping[str, State]] = {
    "RotulusDependencyDown": redis_away,
    "RotulusSessionsCorrupt": session_damaged,
    "RotulusRecordDamaged": row_damaged,
    "RotulusNoWorkers": work_without_workers,
    "RotulusShardsUnowned": shard_unowned,
    "RotulusQueueLate": urgent_work,
    "RotulusQueuePaused": queue_paused,
    "RotulusImplicationsHalted": detector_halted,
    "RotulusLogDiverged": log_diverged,
    "RotulusLogNotPublished": folder_unusable,
    "RotulusDeadLettersGrow": requests_given_up,
    "RotulusRequestsRefused": places_taken,
    "RotulusCommitsRolledBack": ledger_locked,
    "RotulusCommitsSlow": commit_late,
    "RotulusRequestsFail": places_taken,
    "RotulusItemsFail": requests_given_up,
    "RotulusMailRefused": mail_forged,
}

SEEN_ELSEWHERE: Final[Mapping[str, str]] = {
    "RotulusLedgerWentBack": "tests/workers/cli/test_printed_commands.py",
    "RotulusMailboxesFull": "tests/workers/api/test_session_operations.py",
    "RotulusClocksDiffer": "tests/queues/gateways/test_shard_mailboxes.py",
}
"""Alerts whose state is made of less, or of more, than a gateway: the tests that make it."""


def _grew(name: str, **labels: str) -> Callable[[Scraped, Scraped], bool]:
    return lambda before, now: now.total(name, **labels) > before.total(name, **labels)


def _above(name: str, **labels: str) -> Callable[[Scraped, Scraped], bool]:
    return lambda _, now: now.total(name, **labels) > 0


RED: Final[Mapping[str, Callable[[Scraped, Scraped], bool]]] = {
    "RotulusDependencyDown": lambda _, now: (
        now.value("rotulus_dependency_up", dependency="redis") == 0
    ),
    "RotulusSessionsCorrupt": _above("rotulus_sessions_corrupt"),
    "RotulusRecordDamaged": _above("rotulus_records_damaged"),
    "RotulusNoWorkers": lambda _, now: (
        now.value("rotulus_workers_alive") == 0 and now.total("rotulus_requests_open") > 0
    ),
    "RotulusShardsUnowned": lambda _, now: (
        now.value("rotulus_shards_owned") < now.value("rotulus_shards")
    ),
    "RotulusQueueLate": lambda _, now: any(
        value > now.value("rotulus_queue_service_target_seconds", **dict(labels))
        for (name, labels), value in now.values.items()
        if name == "rotulus_queue_oldest_eligible_age_seconds"
    ),
    "RotulusQueuePaused": _above("rotulus_queue_paused", queue=BINDING_QUEUE),
    "RotulusImplicationsHalted": _above("rotulus_implications_halted"),
    "RotulusLogDiverged": _above("rotulus_checkpoint_refused", code="checkpoint_diverged"),
    "RotulusLogNotPublished": _above("rotulus_checkpoint_refused"),
    "RotulusDeadLettersGrow": _grew("rotulus_queue_items", state="dead"),
    "RotulusRequestsRefused": _grew("rotulus_http_requests_refused_total"),
    "RotulusCommitsRolledBack": _grew("rotulus_commits_total", outcome="rolled_back"),
    "RotulusCommitsSlow": lambda before, now: _slow(now) > _slow(before),
    "RotulusRequestsFail": _grew("rotulus_http_requests_total", status="503"),
    # A worker counts its items; what it gave up is what a gateway sees of them.
    "RotulusItemsFail": _grew("rotulus_requests_closed_total", outcome="dead_letter"),
    "RotulusMailRefused": _grew("rotulus_mail_refused_total", what="entry"),
}


def _slow(scraped: Scraped) -> float:
    """How many commits took longer than a second."""
    name = "rotulus_commit_duration_seconds"
    return scraped.total(f"{name}_count") - scraped.total(f"{name}_bucket", le="1.0")
