"""Keeps what was read, sent and answered under its hash, as long as its run is (seed 003).

A payload is a run's own: the same content in two runs is there twice, so a run's payloads go
without a look at other runs (decision kernel/0421). Every content is held against its hash when it
is read. Hashes in the records stay when payloads go.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kernel.landscape.canonical_types import restore_value
from kernel.landscape.errors import RecordDamaged
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.tables import Row, TableQuery, Tables
from kernel.values.canonical import sha256_hex

PURGE_PAGE = 2000
"""Payloads that one transaction removes."""

READ_AT_ONCE = 50
"""Payloads in memory at once while they are removed; each may be 16 MiB."""

SHOWN_MAX = 40
SHOWN_BYTES_MAX = 16 * 1024

Reason = Literal["running", "not_expired", "failed", "nothing_kept"]


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """What a purge did, and why runs kept their payloads."""

    deleted_count: int
    bytes_freed: int
    runs: tuple[str, ...]
    kept: dict[str, Reason]


def payload_row(run_id: str, content: bytes) -> Row:
    """Return the row under which a run keeps a content."""
    return {"run_id": run_id, "content_hash": sha256_hex(content), "content": content}


def read_payload(view: LedgerView, run_id: str, content_hash: str) -> bytes | None:
    """Return a content, None where it is not kept (any more).

    Raises:
        RecordDamaged: it is not what its hash says.
    """
    row = view.tables.get(schema.landscape_payloads, run_id, content_hash)
    if row is None:
        return None
    content = bytes(row["content"])
    if sha256_hex(content) != content_hash:
        key = f"{run_id}/{content_hash}"
        raise RecordDamaged("landscape_payloads", key, "the content has another hash")
    return content


def purge_payloads(
    ledger: Ledger, *, before_us: int, statuses: tuple[str, ...] = ("completed",)
) -> PurgeResult:
    """Remove the payloads of runs that ended before a time, and say of each other run why not.

    Each page is a transaction; a purge that was cut short goes on where it ended.
    """
    deleted = freed = 0
    purged: list[str] = []
    kept: dict[str, Reason] = {}
    for run_id, reason in _runs_with_reasons(ledger, before_us, statuses):
        if reason is not None:
            kept[run_id] = reason
            continue
        count, size = _purge_run(ledger, run_id)
        if not count:
            kept[run_id] = "nothing_kept"
            continue
        deleted, freed = deleted + count, freed + size
        purged.append(run_id)
    return PurgeResult(deleted, freed, tuple(purged), kept)


def payload_data(view: LedgerView, run_id: str, content_hash: str) -> tuple[bytes, Any] | None:
    """Return a payload and its data; None where it is not kept.

    Raises:
        RecordDamaged: it is not what its hash says, or no canonical data.
    """
    content = read_payload(view, run_id, content_hash)
    if content is None:
        return None
    try:
        return content, restore_value(content)
    except ValueError as error:
        key = f"{run_id}/{content_hash}"
        raise RecordDamaged("landscape_payloads", key, str(error)) from None


def payloads_by_hash(view: LedgerView, run_id: str, refs: Iterable[str | None]) -> dict[str, Any]:
    """Return by their hashes the data of payloads that are kept: `SHOWN_MAX`, none of them long.

    Raises:
        RecordDamaged: see `payload_data`.
    """
    shown: dict[str, Any] = {}
    for ref in [*dict.fromkeys(ref for ref in refs if ref is not None)][:SHOWN_MAX]:
        payload = payload_data(view, run_id, ref)
        if payload is not None and len(payload[0]) <= SHOWN_BYTES_MAX:
            shown[ref] = payload[1]
    return shown


def _runs_with_reasons(
    ledger: Ledger, before_us: int, statuses: tuple[str, ...]
) -> Iterator[tuple[str, Reason | None]]:
    runs = ledger.read(lambda view: view.tables.scan(TableQuery(TABLES["runs"])))
    for run in runs:
        check_stored(TABLES["runs"], run)
        reason: Reason | None = None
        if run["status"] == "running":
            reason = "running"
        elif run["status"] not in statuses:
            reason = "failed"
        elif run["completed_at_us"] >= before_us:
            reason = "not_expired"
        yield run["run_id"], reason


def _purge_run(ledger: Ledger, run_id: str) -> tuple[int, int]:
    count = size = 0
    is_done = False
    while not is_done:
        with ledger.store.transaction() as tables:
            sizes: list[int] = []
            while not is_done and len(sizes) < PURGE_PAGE:
                page = _delete_some(tables, run_id)
                sizes += page
                is_done = len(page) < READ_AT_ONCE
            if sizes:
                purged_at = {"payloads_purged_at_us": ledger.host.now_us()}
                tables.update(TABLES["runs"], (run_id,), purged_at)
        count += len(sizes)
        size += sum(sizes)
    return count, size


def _delete_some(tables: Tables, run_id: str) -> list[int]:
    """Delete some payloads of a run, and return their sizes."""
    rows = tables.scan(
        TableQuery(schema.landscape_payloads, {"run_id": run_id}, limit=READ_AT_ONCE)
    )
    for row in rows:
        tables.delete(schema.landscape_payloads, run_id, row["content_hash"])
    return [len(row["content"]) for row in rows]
