"""Eliminations a second in memory, next to raw SHA-256 over the same events in the same run.

    python -m tests.bench.bench_belief [--json]

Each elimination removes one hypothesis that survives, with a justification, and seals its event.
The first figure of a universe is compared with SHA-256 over the stored bytes of those events and
nothing else; the second with the least that a survivors hash allows, SHA-256 over the event and
over one bitmap of the universe.
"""

import hashlib
import time
from itertools import count

from kernel.belief.session import BeliefSession
from kernel.belief.terms import OntologyBundle
from tests.bench.report import figure

ROUNDS = 3
# Hypotheses in the universe, sessions for each round, eliminations in each session. The sessions
# of the largest universe are one and the same: it is declared once and struck in every round.
CASES = ((10, 1_000, 10), (1_000, 10, 1_000), (1_000_000, 1, 3_000))
SHARED_FROM = 1_000_000

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


def main():
    for case in CASES:
        measure(*case)


if __name__ == "__main__":
    main()
