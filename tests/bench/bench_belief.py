"""Eliminations a second by the size of the universe, in memory and durable, and memory a session.

    python -m tests.bench.bench_belief [--json]

Each elimination removes one hypothesis that survives, with a justification, and seals its event.
The first figure of a universe is compared with SHA-256 over the stored bytes of those events and
nothing else; the second with the least that a survivors hash allows, SHA-256 over the event and
over one bitmap of the universe.
"""

import gc
import hashlib
import logging
import os
import tempfile
import time
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import structlog

from actors.messages import Declare, Eliminate
from kernel.belief.session import BeliefSession
from kernel.belief.terms import DEFAULT_POLICY, OntologyBundle
from tests.bench.bench_kernel import Run
from tests.bench.report import figure, machine

ROUNDS = 3
# Hypotheses in the universe, sessions for each round, eliminations in each session. The sessions
# of the largest universe are one and the same: it is declared once and struck in every round.
CASES = (
    (10, 1_000, 10),
    (1_000, 10, 1_000),
    (100_000, 1, 3_000),
    (1_000_000, 1, 3_000),
)
SHARED_FROM = 100_000

DURABLE = {10: (4, 500), 1_000: (4, 500), 100_000: (4, 500), 1_000_000: (4, 500)}
"""By the size of the universe: sessions at once, and eliminations of each."""

MEMORY = {10: 10_000, 1_000: 500, 100_000: 5, 1_000_000: 1}
"""By the size of the universe: over how many sessions it is measured."""

ONTOLOGY = OntologyBundle("bench", "v1", "graphstore://bench", "v1")
TS = "2026-02-09T10:00:00.000000Z"
JUSTIFICATION = {"probe": "check_replication_lag", "outcome": "high", "confidence": 0.93}

_numbers = count()


def declare(size):
    names = [f"hypothesis-{number:07d}" for number in range(size)]
    session, _ = BeliefSession.declare("bench", ONTOLOGY, names, event_id="declared", ts=TS)
    return session


def strike(sessions, per_session, offset):
    """Eliminate one hypothesis at a time and return the seconds and the stored events."""
    plan = []
    for session in sessions:
        ids = session.universe.ids
        stride = len(ids) // (per_session * ROUNDS) or 1
        chosen = [
            ids[(offset * per_session + step) * stride % len(ids)] for step in range(per_session)
        ]
        plan += [(session, name, f"event-{next(_numbers)}") for name in chosen]
    start = time.perf_counter()
    results = [
        session.eliminate(
            "adapter://bench", event_id, [name], JUSTIFICATION, event_id=event_id, ts=TS
        )
        for session, name, event_id in plan
    ]
    seconds = time.perf_counter() - start
    if any(len(result.applied) != 1 for result in results):
        raise RuntimeError("an elimination removed nothing; the figure would flatter")
    return seconds, [result.event.to_bytes() for result in results]


def raw(events, bitmap):
    """Hash the events, and a bitmap after each if there is one."""
    start = time.perf_counter()
    for event in events:
        hashlib.sha256(event).hexdigest()
        if bitmap is not None:
            hashlib.sha256(bitmap).hexdigest()
    return time.perf_counter() - start


def measure(size, n_sessions, per_session):
    shared = [declare(size)] if size >= SHARED_FROM else None
    bitmap = bytes((size + 7) // 8)
    own = peer = floor = 0.0
    for offset in range(ROUNDS):
        sessions = shared or [declare(size) for _ in range(n_sessions)]
        seconds, events = strike(sessions, per_session, offset if shared else 0)
        own = max(own, len(events) / seconds)
        peer = max(peer, len(events) / raw(events, None))
        floor = max(floor, len(events) / raw(events, bitmap))
    name = f"eliminations, {size:,} hypotheses"
    figure(name, own, "/s", ratio=own / peer, of="SHA-256 of the event bytes")
    figure(f"{name} (floor)", own, "/s", ratio=own / floor, of="SHA-256 of event and bitmap")


async def declare_durably(size, run, sessions):
    names = tuple(f"hypothesis-{number:07d}" for number in range(size))
    for number in range(sessions):
        await run.sessions.ask(f"s-{number}", Declare(ONTOLOGY, names, DEFAULT_POLICY, None, 0))


async def eliminate_durably(size, eliminations, run, caller, number):
    struck = f"hypothesis-{number * max(1, size // eliminations) % size:07d}"
    message = Eliminate("adapter://bench", f"o-{number}", (struck,), JUSTIFICATION, survivors_max=0)
    await run.sessions.ask(f"s-{caller}", message)


def durable_rate(size, sessions, eliminations):
    """Return eliminations a second, and CPU microseconds of one."""
    rate, cpu_us = 0.0, float("inf")
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(Path(folder))
            prepare = partial(declare_durably, size)
            do = partial(eliminate_durably, size, eliminations)
            anyio.run(run.work, prepare, do, sessions, eliminations)
            rate = max(rate, sessions * eliminations / run.seconds)
            cpu_us = min(cpu_us, run.cpu_seconds / (sessions * eliminations) * 1e6)
    return rate, cpu_us


def measure_durable():
    rates = {size: durable_rate(size, *load) for size, load in DURABLE.items()}
    for size, (rate, cpu_us) in rates.items():
        name = f"durable eliminations, {size:,} hypotheses"
        figure(name, rate, "/s", ratio=rate / rates[1_000][0], of="1,000 hypotheses")
        figure(f"{name}, CPU each", cpu_us, "us", ratio=cpu_us / rates[1_000][1], of="1,000")


def resident_bytes():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure_memory():
    for size, sessions in MEMORY.items():
        before = resident_bytes()
        held = [declare(size) for _ in range(sessions)]
        grown = (resident_bytes() - before) / len(held)
        del held
        figure(f"memory a session, {size:,} hypotheses", grown / 1024, "KiB")


def main():
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    machine(synchronous="FULL", rounds=ROUNDS)
    measure_memory()
    for case in CASES:
        measure(*case)
    measure_durable()


if __name__ == "__main__":
    main()
