"""Furnishes a gateway with trouble of every kind, in hostile words wherever there are words."""

import time
from typing import Any

import anyio.to_thread
from fakeredis import FakeAsyncRedis

from actors.commit.refusal_units import SetAsideUnit
from actors.commit.work_units import WorkReportUnit
from actors.errors import RequestSetAside
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import NOBODY, Position, shards_of, take_shards
from kernel.ledger.store.tables import TableQuery
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from kernel.work.reports import WorkFinished
from kernel.work.requests import WorkRequest, enqueue
from queues.fleet.worker_heartbeats import Heartbeats, WorkerBeat
from queues.queue.items import Claim, NewItem
from queues.queue.work_queue import WorkQueue
from tests.kernel import attempts
from tests.kernel.bindings.routed import selector
from tests.kernel.build import accept, adapt, create, submit
from tests.kernel.every import dated, filings, own
from tests.kernel.implied import halt
from tests.kernel.landscape.runs import whole_run
from tests.kernel.lites import lite, migrated
from tests.kernel.quarantining import audited
from tests.kernel.tampering import Copy
from tests.kernel.test_registrations import put, registration
from tests.workers.api.asking import BINDINGS, binding, enqueued
from tests.workers.api.door import SESSION, Door, claim, eventually, source, understanding
from tests.workers.dashboard.served_gateways import ServedGateway
from workers.client.source_bindings import SourceBindings

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\u200b\ufeff&amp;{{7*7}}\u0007"
)
"""What a reader must see as text: markup, quotes, a turn of direction, nothing wide, a bell."""

LONG = "W" * 10_000
ODD = "<img src=x>\"'&?#;\u202e"
"""The same without a slash, for what is one segment of a path."""

HOSTILE_ID = "<i>\"'&\u202e/../?x=1#y</i>"
LONG_WORKER = "w/" + "W" * 126
JOBS = "pictures"
DEAD = ("dead", "dead too", "dead as well", "dead again")
"""One for each action of its page and each of many at once that takes it."""

REQUESTS = ("open", "claimed", "suspended", *DEAD, "retried", "cancelled", "done")
OWN_RUN = "runtime:000000000001-open"
FAILED_RUN = "run <failed>/1?#"
OTHER_SESSION = "00000000-0000-4000-8000-000000000002"
THOUGHTS = "0193514a-9a51-7cc3-8f0e-6a9c2b1d4e5f"
DEATH = {
    "name": "worker-1",
    "times": 4,
    "reason": f"exit code 1 {HOSTILE}",
    "last_line": f"MemoryError: {LONG}",
    "at": "2026-03-14T12:00:00+00:00",
}
HOUR_MS = 3_600_000


Names = dict[str, str]
"""What the pages of a troubled gateway are asked for by, each under the name of what it is."""


async def prepare(redis: FakeAsyncRedis) -> None:
    """Have work in Redis that waits for an hour, and workers that have not been heard of."""
    old = WorkQueue(redis, AUTHORITY_QUEUE, lambda: _ms() - HOUR_MS)
    # The same item as is asked for later, but the deadline of the earlier one stays.
    await old.enqueue(NewItem("u-1", old.priorities[0].name, "an earlier cause", b"{}"))
    beats = Heartbeats(redis, lambda: _ms() - 60_000)
    for worker_id, ttl_ms in (("w-late", 24 * HOUR_MS), ("w-gone", 1)):
        beat = WorkerBeat(worker_id, 8, (JOBS,), 2, 0, 10, 1, 1, host=HOSTILE[:60])
        await beats.beat(beat, ttl_ms)


async def furnish(served: ServedGateway) -> None:
    """Make all the trouble; what is asked for is claimed here and done by nobody."""
    door, names = served.door, served.names
    names |= {"hostile": HOSTILE, "odd": ODD, "jobs": JOBS, "session": SESSION}
    names |= {"worker": LONG_WORKER}
    names |= {"binding": "b<1>"}
    names |= {"late": "w-late", "gone": "w-gone", "understanding": "u-1", "refused": "op-refused"}
    names |= {"run": "run-1", "failed_run": FAILED_RUN, "sealed_run": OWN_RUN}
    await _decide(door, names)
    await _ask(door, names)
    await _work(served)
    await _operate_queues(door, names)
    await anyio.to_thread.run_sync(_record_runs, door.ledger, names)
    await anyio.to_thread.run_sync(_leave_to_persons, door.ledger)
    await eventually(lambda: _is_published(door))
    await anyio.to_thread.run_sync(_damage, served)
    # A row behind the damage, so that the log is seen to differ from what is signed.
    await _ok(door.send(f"/v1/queues/{JOBS}/pause", {"priority": "background"}))


async def _is_published(door: Door) -> bool:
    """Publish the log unless the gateway's own loop was first; tell whether all of it is signed."""
    publishing = door.services.publishing
    assert publishing is not None
    await publishing.publish_last()
    note = publishing.note()
    head = await anyio.to_thread.run_sync(door.ledger.read, LedgerView.head)
    return note is not None and int(note.splitlines()[1]) == head.ec_sequence_number


async def peace(_: ServedGateway) -> None:
    """Leave a gateway as it begins."""


async def _decide(door: Door, names: Names) -> None:
    """Decide things in sessions, with sources that say what they like."""
    hypotheses = (HOSTILE, LONG[:400], *(f"hypothesis {number}" for number in range(70)))
    await _ok(door.declare(SESSION, *hypotheses, metadata={"case_name": f"{HOSTILE} {LONG[:300]}"}))
    await _ok(door.declare(OTHER_SESSION, "the steward", "nobody"))
    for number in range(55):
        struck = [f"hypothesis {number}"]
        body = {"source_id": HOSTILE_ID, "observation_id": f"{HOSTILE} {number}"}
        await _ok(door.post("eliminate", {**body, "eliminated": struck}))
    made = await door.operate(
        source(HOSTILE_ID, f"{HOSTILE} {LONG}"),
        source("s-1", "The motion is DENIED.", source_kind="docket"),
        understanding("u-1", "s-1", HOSTILE_ID, title=f"{HOSTILE} {LONG[:200]}"),
        claim("c-1", "s-1", "u-1"),
    )
    names["operation"] = made[-1]["operation_id"]
    await door.post("envelopes", {"operation_id": "op-refused"})
    async with door.client() as gateway:
        meaning = {
            "selector_list": {"include": [selector("source_kind", "docket")]},
            "target_kind": "court_disposition_observation",
            "corpus_id": "corpus",
        }
        await SourceBindings(gateway).create("b<1>", {**meaning, "title": HOSTILE})
    await _ok(door.http.post(f"/v1/thoughts/{THOUGHTS}/start", json={"task_id": HOSTILE_ID}))
    thought = {"thought_id": HOSTILE_ID, "thought_type": "reflection", "content": HOSTILE + LONG}
    await _ok(door.http.post(f"/v1/thoughts/{THOUGHTS}", json=thought))
    await _ok(door.http.post(f"/v1/thoughts/{THOUGHTS}/finalize"))


async def _ask(door: Door, names: Names) -> None:
    """Ask for work of every outcome: 60 that stay open and one for each other."""
    await anyio.to_thread.run_sync(_register, door.ledger)
    while JOBS not in door.services.work.queues:
        await anyio.sleep(0.01)
    for name in REQUESTS:
        stated = {"request_key": name, "tags": {"customer": f"<b>{name}</b>"}}
        content = {"image_id": f"{HOSTILE_ID} {name}", "width": 7}
        [made] = await enqueued(door, f"/v1/queues/{JOBS}", {**stated, "content": content})
        names[name] = made["request_id"]
    many = (
        {**binding(f"{HOSTILE_ID} {number}", binding_id=HOSTILE), "tags": {"customer": "acme"}}
        for number in range(60)
    )
    await enqueued(door, BINDINGS, *many)


async def _work(served: ServedGateway) -> None:
    """Have workers of every state, and what they report."""
    door, ids = served.door, served.names
    error = {
        "code": "handler_failed: ValueError",
        "message": f"{HOSTILE} {LONG[:900]}",
        "traceback": f"Traceback\n  {HOSTILE}\n  {LONG[:2000]}\n",
        "signature": f"ValueError in jobs.resize: {HOSTILE} {LONG[:200]}",
    }
    queue = door.services.work.queues[JOBS]
    claims = await _claimed(queue, ids)
    for name in DEAD:
        await _report(door, attempts.failed(ids[name], f"claim-{name}", error=error, final=True))
    await _report(door, attempts.failed(ids["retried"], "claim-2", error=error))
    await queue.bury([claims[name] for name in DEAD])
    await queue.retry([claims["retried"]], [HOUR_MS], error["code"])
    await queue.suspend([claims["suspended"]])
    await queue.acknowledge([claims["done"]])
    # Nobody is at work but on the one that is claimed.
    await queue.put_off([claims["cancelled"], claims["open"]], [0, 0], "")
    result = {"width": 7, "says": HOSTILE, "long": LONG}
    await _report(door, WorkFinished(request_id=ids["done"], result=result, took_ms=1250))
    await _ok(
        door.send(
            f"/v1/queues/{JOBS}/requests/{ids['cancelled']}/cancel",
            {"reason": HOSTILE[:90], "decided_by": HOSTILE[:30]},
        )
    )
    for worker_id, queues in ((LONG_WORKER, (JOBS,)), ("w-2", (AUTHORITY_QUEUE,))):
        beat = WorkerBeat(worker_id, 7, queues, 2, 0, 10, 3, 1, last_error=HOSTILE)
        await door.services.work.heartbeats.beat(beat, 24 * HOUR_MS)
    for holder in (f"{LONG_WORKER[:100]}/0", "w-2/0"):
        await door.services.work.leases.acquire(JOBS, 4, holder, HOUR_MS)


async def _claimed(queue: WorkQueue, ids: Names) -> dict[str, Claim]:
    """Claim every request, once all have come into the queue; return the claims by their names."""

    async def all_ready() -> bool:
        return sum((await queue.depth()).ready.values()) == len(REQUESTS)

    await eventually(all_ready)
    claims = await queue.claim(len(REQUESTS), HOUR_MS)
    by_id = {claim.key: claim for claim in claims}
    return {name: by_id[ids[name]] for name in REQUESTS}


async def _report(door: Door, stated: Any) -> None:
    await door.services.write(WorkReportUnit(stated))


async def _operate_queues(door: Door, names: Names) -> None:
    """Pause, begin a bulk operation, set a request aside."""
    pause = {"decided_by": HOSTILE[:40], "reason": f"{HOSTILE[:60]} an exchange"}
    await _ok(door.send(f"{BINDINGS}/pause", pause))
    bulk = {"verb": "cancel", "filter": {"tag": "customer=none"}, "reason": HOSTILE[:90]}
    begun = await _ok(door.http.post("/v1/bulk-operations", json=bulk))
    names["bulk"] = str(begun.json()["bulk_number"])
    position = Position("0" * 16, f"{1:015}-{0:020}")
    try:
        await door.services.write(SetAsideUnit(HOSTILE_ID, 1, position, 3, "0" * 64))
    except RequestSetAside:
        return
    raise AssertionError("a request that is set aside is refused")


def _register(ledger: Ledger) -> None:
    put(ledger, registration(JOBS))


def _record_runs(ledger: Ledger, names: Names) -> None:
    """Record a run that ended, one that failed, and one whose record is damaged."""
    recorder = Recorder(ledger)
    names["token"] = whole_run(recorder, "run-1")["token"]["token_id"]
    recorder.complete_run("run-1")
    for run_id in (FAILED_RUN, "run-damaged"):
        whole_run(recorder, run_id)
        recorder.flush()
    with ledger.store.transaction() as tables:
        for row in ledger.read(lambda view: _tokens(view, "run-damaged"))[:1]:
            tables.update(TABLES["tokens"], ("run-damaged", row), {"created_at_us": -1})


def _tokens(view: Any, run_id: str) -> list[str]:
    rows = view.tables.scan(TableQuery(TABLES["tokens"], {"run_id": run_id}))
    return [row["token_id"] for row in rows]


def _leave_to_persons(ledger: Ledger) -> None:
    """Leave something of each kind to a person's review, and a detector halted."""
    stated = {"disposition": "granted", "lifecycle_state": "observed"}
    date = dated("docket_entry_date")
    accept(ledger, own("court_disposition_observation_write", HOSTILE_ID, **stated, **date))
    unit, related, _, _, relationship, *_ = filings()
    accept(ledger, unit, related, relationship, create("n-0", "Note"), halt(HOSTILE_ID))
    for refs in (["a"], ["a", "b"]):
        submit(ledger, adapt("n-0", cites_refs=refs), unseen=True)
    about = {"binding_id": "b", "source_event_id": "e", "target_kind": "relationship_candidate"}
    result = {"outcome_state": "user_review_required", "outcome_reason_code": "case_unknown"}
    with ledger.transaction() as transaction:
        [requested] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, "to review", about)])
        close(transaction, requested.request_id, "completed", result=result)
    lacking = lite(create("m", "Note"), operation_id="lacking", affected_subgraph_descriptor=None)
    migrated(ledger, lacking)


def _damage(served: ServedGateway) -> None:
    """Quarantine a row, and leave a shard to nobody and one to a gateway that is gone."""
    copy = Copy(served.folder / "ledger.db")
    row = copy.rows(schema.kernel_event_log)[1]
    served.names["quarantined"] = row["operation_id"]
    copy.set(schema.kernel_event_log, row, row_bytes=row["row_bytes"] + b" ")
    copy.close()
    audited(served.ledger)
    with served.ledger.transaction() as transaction:
        *_, unowned, gone = shards_of(transaction)
        take_shards(transaction, NOBODY, [unowned])
        take_shards(transaction, "gateway-gone", [gone])


def _ms() -> int:
    return time.time_ns() // 1_000_000


async def _ok(request: Any) -> Any:
    answer = await request
    assert answer.is_success, answer.text
    return answer
