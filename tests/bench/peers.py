"""What the ledger is measured against: the least that could keep the same bytes, and a peer.

The peer is the SQLite recorder of the eventsourcing package, which stores an event for each
envelope. Where the package is not installed, the benchmark says so.
"""

import hashlib
import sqlite3
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path

from sqlalchemy import Table

from kernel.ledger import schema

try:
    from eventsourcing.persistence import StoredEvent
    from eventsourcing.sqlite import SQLiteAggregateRecorder, SQLiteDatastore
except ImportError:
    PEER_MISSING: str | None = "eventsourcing, which is not installed"
else:
    PEER_MISSING = None

SYNCHRONOUS_FULL = 2

Tables = list[tuple[Table, list[tuple]]]


def envelopes_of(tables: Tables, count: int) -> list[bytes]:
    """Return the bytes of every envelope that a run stored."""
    (rows,) = [rows for table, rows in tables if table is schema.blobs]
    place = [column.name for column in schema.blobs.columns].index("content")
    return [row[place] for row in rows][:count]


def insert_envelopes(tables: Tables, count: int, batch: int) -> float:
    """Return the seconds of storing each envelope's bytes as one row, in batches."""
    rows = list(enumerate(envelopes_of(tables, count)))
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(Path(folder) / "rows.db", isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE envelopes (n INTEGER PRIMARY KEY, content BLOB NOT NULL)")
        started_s = time.perf_counter()
        for start in range(0, len(rows), batch):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO envelopes VALUES (?, ?)", rows[start:][:batch])
            connection.execute("COMMIT")
        return time.perf_counter() - started_s


def append_events(tables: Tables, count: int, batch: int) -> float:
    """Return the seconds of recording one event for each envelope, in batches."""
    events = [
        StoredEvent(uuid.uuid4(), 1, "Envelope", content) for content in envelopes_of(tables, count)
    ]
    with tempfile.TemporaryDirectory() as folder:
        datastore = SQLiteDatastore(str(Path(folder) / "events.db"))
        recorder = SQLiteAggregateRecorder(datastore)
        recorder.create_table()
        with datastore.transaction(commit=False) as cursor:
            # The package leaves both to itself; a peer that is less durable is no peer.
            cursor.execute("PRAGMA synchronous")
            synchronous = cursor.fetchone()["synchronous"]
            if synchronous < SYNCHRONOUS_FULL:
                raise RuntimeError(f"eventsourcing writes with synchronous = {synchronous}")
        started_s = time.perf_counter()
        for start in range(0, len(events), batch):
            recorder.insert_events(events[start:][:batch])
        seconds = time.perf_counter() - started_s
        datastore.close()
    return seconds


def hash_rows(contents: list[bytes]) -> int:
    """Hash each row's bytes and return how many there were."""
    for content in contents:
        hashlib.sha256(content).hexdigest()
    return len(contents)
