"""Envelopes replayed a second over a range, beside reading and hashing the same stored bytes.

    python -m tests.bench.bench_replay [--json]

The record is mixed: notes created in a corpus, changed, linked, confirmed as members and put under
topics, and recomputed authorities, in a file in the temporary directory (TMPDIR). Every replay
computes effects again and compares them byte for byte. The peer reads the rows, envelopes and
effects of the same range through the driver and takes a SHA-256 of each; it computes nothing.
With two processes each takes half of the range: a range stands on its own.
"""

import hashlib
import os
import sqlite3
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.replay.reproduce import reproduce_range
from kernel.transaction.kernel import Kernel
from kernel.values.host import Host
from tests.bench.report import figure, rate_per_s
from tests.kernel.build import adapt, create, effect, envelope, link
from workers.environment.memory import settle_memory

ROUNDS = 3_000
ROUND = 7
PROCESSES = 2
TEXT = "MOTION to dismiss for failure to state a claim, filed under seal. " * 4


def course(number: int) -> list[dict]:
    """ROUND envelopes about two nodes of their own."""
    first_id, second_id = f"n-{number}-a", f"n-{number}-b"
    member = effect("membership_write", first_id, corpus_id="corpus:test", to_state="confirmed")
    entry = effect("index_update", first_id, index_name="i", entry={"n": number})
    topic = effect("membership_write", first_id, corpus_id="topics")
    creation = create(first_id, "Note", text=TEXT)
    change = adapt(first_id, note="x", weight=0.25)
    return [
        creation,
        create(second_id, "Note", text=TEXT),
        change,
        link(f"e-{number}", first_id, second_id),
        envelope("corpus_membership_confirm", [member]) | caused_by(creation),
        envelope("topic_assign", [topic, entry]),
        adapt(first_id, note="y") | caused_by(change),
    ]


def caused_by(document: dict) -> dict:
    """What an envelope states that has seen another one."""
    return {"causal_parent_operation_ids": [document["operation_id"]]}


def write(path: Path) -> int:
    clock = count(1_700_000_000_000_000)
    ledger = Ledger.create(SqliteStore(path), Host(lambda: next(clock), os.urandom))
    kernel, written = Kernel(), 0
    for start in range(0, ROUNDS, 100):
        with ledger.transaction() as transaction:
            for number in range(start, start + 100):
                for document in course(number):
                    result = kernel.submit(transaction, document, "orchestrator")
                    if hasattr(result, "rejection"):
                        raise TypeError(f"refused: {result}")
                    written += 1
    ledger.close()
    return written


def replay(path: Path, first: int, last: int) -> int:
    done = 0
    with closing(SqliteStore(path, read_only=True)) as store, store.view() as tables:
        for reproduction in reproduce_range(LedgerView(tables), first, last):
            if reproduction.difference is not None or reproduction.erased:
                raise TypeError(f"not reproduced: {reproduction}")
            done += 1
    return done


def read_and_hash(path: Path) -> int:
    done = 0
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(
            "SELECT row_bytes, content FROM kernel_event_log JOIN blobs "
            "ON blob_ref = envelope_payload_blob_ref ORDER BY ec_sequence_number"
        )
        for row_bytes, content in rows:
            hashlib.sha256(row_bytes).hexdigest()
            hashlib.sha256(content).hexdigest()
            done += 1
        effects = "SELECT * FROM applied_effects ORDER BY ec_sequence_number, ordinal"
        for effect_columns in db.execute(effects):
            hashlib.sha256(repr(effect_columns).encode()).hexdigest()
    return done


def replay_in_parts(path: Path, total: int, pool: ProcessPoolExecutor) -> int:
    half = total // PROCESSES
    parts = [(1 + half * part, half * (part + 1)) for part in range(PROCESSES)]
    parts[-1] = (parts[-1][0], total)
    return sum(pool.map(replay, [path] * PROCESSES, *zip(*parts, strict=True)))


def main() -> None:
    settle_memory()  # as every command does
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        started_s = time.perf_counter()
        total = write(path)
        figure("envelopes written for it", total / (time.perf_counter() - started_s), "/s")
        bare = rate_per_s(lambda: read_and_hash(path))
        figure("read and hashed, nothing computed", bare, "/s")
        of = "read and hashed"
        alone = rate_per_s(lambda: replay(path, 1, total))
        figure("replayed, one process", alone, "/s", ratio=alone / bare, of=of)
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            replay_in_parts(path, total, pool)
            in_parts = rate_per_s(lambda: replay_in_parts(path, total, pool))
        figure(f"replayed, {PROCESSES} processes", in_parts, "/s", ratio=in_parts / bare, of=of)


if __name__ == "__main__":
    main()
