"""A source that makes the state up: for design work and for tests, never shipped.

Run as a module it serves the page on 127.0.0.1 at the port given as its argument.
"""

import random
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import uvicorn
from fastapi import FastAPI

from workers.dashboard.hub import SnapshotHub
from workers.dashboard.routes import build_router
from workers.dashboard.snapshot import (
    Count,
    Counters,
    DashboardSnapshot,
    Death,
    Fleet,
    Hold,
    LeaseView,
    LedgerPicture,
    LedgerRow,
    NewestSessions,
    PriorityBacklog,
    PublishedCheckpoint,
    Queue,
    Requests,
    Session,
    SetAsideRequest,
    SnapshotPart,
    Worker,
    WorkerState,
)
from workers.views.attention_items import AttentionAction, AttentionItem, AttentionSubject, Link

NOON = datetime(2026, 3, 14, 12, 0, 0, tzinfo=UTC)

TARGETS = (
    ("critical", 5_000),
    ("user_initiated", 30_000),
    ("standard", 300_000),
    ("background", 3_600_000),
    ("maintenance", None),
)
QUEUES = ("authority-recompute", "binding-evaluation", "extraction-transition")
CASES = (
    "The missing ledger of Aldgate",
    "Regina v. Thornton, 1888",
    "Fever on ward nine",
    "Which valve failed first",
    "A letter without a hand",
    "Cold start after the flush",
)
NAMES = (
    "the steward",
    "Dr Marsh",
    "an unknown third",
    "the night clerk",
    "valve 4B",
    "typhus",
    "relapse",
    "forgery",
    "the heir",
    "a false date",
    "Ada",
    "the ferryman",
    "measles",
    "nobody",
)
INTENTS = ("eliminate_hypotheses", "record_observation", "bind_claim", "extract_clause", "decay")
EFFECTS = ("belief.eliminate", "graph.node.put", "graph.edge.put", "authority.enqueue")


def make_snapshot(
    version: int = 1,
    now: datetime = NOON,
    *,
    workers: int = 5,
    sessions: int = 12,
    rows: int = 1_048_576,
    seed: int = 7,
) -> DashboardSnapshot:
    """Return a made-up state; the same arguments give the same state."""
    rng = random.Random(seed * 1_000_003 + version)
    return DashboardSnapshot(
        version=version,
        time=now,
        attention=SnapshotPart("ledger, Redis and gateway", now, _attention(now)),
        queues=SnapshotPart("Redis", now, tuple(_queue(n, rng) for n in QUEUES)),
        leases=SnapshotPart("Redis", now - timedelta(seconds=0.4), _leases(rng)),
        workers=SnapshotPart("Redis", now, Fleet(_workers(workers, rng), workers)),
        sessions=SnapshotPart(
            "ledger", now, NewestSessions(_sessions(sessions, now, rng), sessions + 2_310)
        ),
        counters=SnapshotPart("ledger", now, Counters(rows + 812, 391_204 + version * 3)),
        ledger=SnapshotPart("ledger", now, _ledger(rows, now)),
        checkpoint=SnapshotPart(
            "published log",
            now,
            PublishedCheckpoint(
                "witnessed",
                "witnessed 2 of 3",
                f"{rows}:{'5e' * 32}",
                "example.com/log",
                "",
            ),
        ),
        gateways=SnapshotPart("ledger", now, (Count("gateway-a", 32), Count("gateway-b", 32))),
        rejections=SnapshotPart(
            "ledger",
            now - timedelta(seconds=2),
            (
                Count("capacity_exhausted", 212),
                Count("scope_violation", 88),
                Count("envelope_idempotency_conflict", 41),
                Count("stale_epoch", 3),
            ),
        ),
        requests=SnapshotPart(
            "ledger",
            now,
            Requests(
                128,
                40_311,
                (
                    Count("completed", 39_120),
                    Count("superseded", 874),
                    Count("dead_letter", 201),
                    Count("cancelled", 116),
                ),
            ),
        ),
        dropped=SnapshotPart("gateway and workers", now, (Count("item", 3), Count("note", 1))),
        set_aside=SnapshotPart(
            "ledger",
            now,
            (SetAsideRequest("7", f"{9:015}-{1:020}", "session-of-a-case", "3", now),),
        ),
        deaths=SnapshotPart(
            "process tree", now, (Death("worker-1", 4, "exit code 1", "MemoryError", now),)
        ),
    )


def _attention(now: datetime) -> tuple[AttentionItem, ...]:
    hour_ago = (now - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    page = Link("queue", (QUEUES[2],))
    return (
        AttentionItem(
            "workers_missing",
            "critical",
            AttentionSubject("queue", QUEUES[1]),
            f"no worker serves {QUEUES[1]}, and 400 requests wait",
            hour_ago,
            Link("queue", (QUEUES[1],)),
            AttentionAction("Start a worker", f"rotulus worker --queues {QUEUES[1]}"),
        ),
        AttentionItem(
            "queue_paused",
            "warning",
            AttentionSubject("priority", f"{QUEUES[2]} background"),
            f"{QUEUES[2]} background is paused by ada (the model is being replaced)",
            hour_ago,
            page,
            AttentionAction(
                "Resume it", f"rotulus queues resume {QUEUES[2]} --priority background", page
            ),
        ),
        AttentionItem(
            "reviews_waiting",
            "notice",
            AttentionSubject("reviews", "observation"),
            "25 observations wait for a person's review",
            link=Link("reviews", query=(("kind", "observation"),)),
            action=AttentionAction("Review them", "rotulus review queue observation"),
        ),
    )


def _queue(name: str, rng: random.Random) -> Queue:
    ready = [rng.randrange(3), rng.randrange(14), 40 + rng.randrange(60), 310, 1_204]
    ages: list[int | None] = [1_200, 25_400, 92_000, 3_900_000, 7_300_000]
    if name == QUEUES[1]:
        ready, ages = [0, 2, 18, 0, 45], [None, 8_300, 61_000, None, 400_000]
    priorities = tuple(
        PriorityBacklog(p, target, n, age if n else None)
        for (p, target), n, age in zip(TARGETS, ready, ages, strict=True)
    )
    dead = 4 if name == QUEUES[2] else 0
    suspended, in_flight, held = rng.randrange(3), 8 + rng.randrange(8), rng.randrange(20)
    return Queue(
        name,
        priorities,
        suspended=suspended,
        delayed=17,
        in_flight=in_flight,
        dead=dead,
        open=sum(ready) + suspended + 17 + in_flight + held,
        held=held,
        oldest_open_ms=90_000,
        pauses=("background paused since 2026-03-14T11:00:00Z by ada",) if dead else (),
        completed_per_s=180 + rng.random() * 40,
    )


def _leases(rng: random.Random) -> tuple[LeaseView, ...]:
    def held(count: int, first: int) -> tuple[Hold, ...]:
        return tuple(
            Hold(f"w-{1 + i % 4}", str(first + i), 2_000 + rng.randrange(28_000))
            for i in range(count)
        )

    busy = 3 + rng.randrange(4)
    return (
        LeaseView("embedding-api", 4, 4, held(4, 90_101)),
        LeaseView("graph-writer", 1, 0, ()),
        LeaseView("model-large", 8, busy, held(busy, 71_204)),
    )


def _workers(count: int, rng: random.Random) -> tuple[Worker, ...]:
    states: dict[int, tuple[WorkerState, int]] = {3: ("late", 9_400), 4: ("lost", 74_000)}
    made = []
    for i in range(count):
        state, seen_ms = states.get(i, ("alive", 300 + rng.randrange(900)))
        in_flight = 2 + rng.randrange(7) if state == "alive" else 3
        serves = QUEUES if i % 2 == 0 else QUEUES[:2]
        made.append(
            Worker(
                f"w-{i + 1}", 4_100 + i, serves, 8, 120_480 - 900 * i, i, in_flight, seen_ms, state
            )
        )
    return tuple(made)


def _sessions(count: int, now: datetime, rng: random.Random) -> tuple[Session, ...]:
    made = []
    for i in range(count):
        universe = (48, 12, 1_000, 7, 240, 16)[i % 6]
        left = max(1, min(universe, (3, 12, 26, 1, 9, 5)[i % 6]))
        names = tuple(NAMES[(i + j) % len(NAMES)] for j in range(min(left, 12)))
        made.append(
            Session(
                f"ses-{i:04d}-7c1e",
                CASES[i % len(CASES)],
                universe,
                left,
                names,
                now - timedelta(seconds=3 * i + rng.random()),
            )
        )
    return tuple(made)


def _ledger(rows: int, now: datetime) -> LedgerPicture:
    tail = tuple(
        LedgerRow(
            sequence=str(rows - i),
            operation_id=f"op-{rows - i:x}-a91f",
            semantic_intent=INTENTS[(rows - i) % len(INTENTS)],
            effect_kinds=EFFECTS[: 1 + (rows - i) % 3],
            session_id=f"ses-{(rows - i) % 12:04d}-7c1e",
            committed_at=now - timedelta(milliseconds=210 * i),
            row_hash=f"{(rows - i) * 0x9E3779B97F4A7C15 % 2**64:016x}"[:12],
        )
        for i in range(20)
    )
    head = f"{rows * 0x9E3779B97F4A7C15 % 2**64:016x}" * 4
    return LedgerPicture(str(rows), head, 4.7, tail)


class FakeSource:
    """Makes a new state at each read; can be told to fail."""

    def __init__(self) -> None:
        self.reads = 0
        self.failing: tuple[str, ...] = ()
        self.error: Exception | None = None
        self.wall_clock = False

    async def read(self) -> DashboardSnapshot:
        await anyio.lowlevel.checkpoint()
        self.reads += 1
        if self.error:
            raise self.error
        now = datetime.now(UTC) if self.wall_clock else NOON + timedelta(seconds=self.reads)
        state = make_snapshot(self.reads, now, rows=1_048_576 + 5 * self.reads)
        broken: dict[str, Any] = {
            n: SnapshotPart("Redis", now, None, "Connection refused (127.0.0.1:6379).")
            for n in self.failing
        }
        return replace(state, **broken)


async def serve(port: int, failing: tuple[str, ...] = ()) -> None:
    """Serve the page until the process is told to stop."""
    source = FakeSource()
    source.wall_clock = True
    source.failing = failing
    hub = SnapshotHub(source)
    app = FastAPI(openapi_url=None)
    app.include_router(build_router(hub))

    class HubServer(uvicorn.Server):
        def handle_exit(self, sig: int, frame: object) -> None:
            hub.stop()
            super().handle_exit(sig, frame)  # type: ignore[arg-type]

    server = HubServer(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    async with anyio.create_task_group() as group:
        group.start_soon(hub.run)
        await server.serve()
        hub.stop()


if __name__ == "__main__":
    anyio.run(serve, int(sys.argv[1]), tuple(sys.argv[2:]))
