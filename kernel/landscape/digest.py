"""Computes the digest of a run: over every record, table by table, each in the order of its keys.

A record enters as the bytes of its values; one that breaks a rule of its table stops the digest. A
change after a run's end (when its payloads went) is in no digest. The digest of the run is that of
the canonical JSON of its tables' counts and digests, so a table that was changed is named.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Table

from kernel.landscape.record_rules import KEYS, TABLES, check_stored, record_bytes
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery, TablesView, rows_in_pages
from kernel.values.canonical import canonicalize, sha256_hex

PAGE_RECORDS = 2000


@dataclass(frozen=True, slots=True)
class RunDigest:
    """What an operation states of a run that has ended."""

    run_id: str
    record_count: int
    table_digests: dict[str, dict[str, int | str]]
    """Of each table that has records of the run: their number and their digest."""

    @property
    def table_bytes(self) -> bytes:
        """The canonical JSON of the digests of the tables."""
        return canonicalize(self.table_digests)

    @property
    def run_digest(self) -> str:
        """The SHA-256 of it, in hex."""
        return sha256_hex(self.table_bytes)


def records_of(tables: TablesView, run_id: str, name: str) -> Iterator[Row]:
    """Yield a run's records of a table in the order of their keys, in pages."""
    return rows_in_pages(
        tables,
        TableQuery(TABLES[name], {"run_id": run_id}, order_by=KEYS[name], limit=PAGE_RECORDS),
    )


def digest_of(view: LedgerView, run_id: str) -> RunDigest:
    """Compute the digest of a run from what is stored; linear in its records.

    Raises:
        RecordDamaged: a record breaks a rule.
    """
    return digest_of_records(
        run_id,
        (
            (name, (check_stored(table, row) for row in records_of(view.tables, run_id, name)))
            for name, table in TABLES.items()
        ),
    )


def digest_of_records(run_id: str, records: Iterable[tuple[str, Iterable[Row]]]) -> RunDigest:
    """Compute the digest of a run from its records by table, each in the order of its keys."""
    stated: dict[str, dict[str, int | str]] = {}
    total = 0
    for name, rows in records:
        count, digest = _digest_of_table(TABLES[name], rows)
        if count:
            stated[name] = {"records": count, "digest": digest}
            total += count
    return RunDigest(run_id, total, stated)


def _digest_of_table(table: Table, rows: Iterable[Row]) -> tuple[int, str]:
    hasher, count = sha256(), 0
    for row in rows:
        hasher.update(record_bytes(table, row))
        count += 1
    return count, hasher.hexdigest()
