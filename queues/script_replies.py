"""What the scripts reply, read: a row is a key, an attempt and a flat record."""

from collections.abc import Sequence
from typing import Any, Final

from queues.items import Claim, DeadItem, Lineage, LiveItem
from queues.priorities import Priority

_UNKNOWN: Final = Lineage("", "")


def _causes(record: dict[bytes, bytes]) -> tuple[tuple[str, ...], tuple[Lineage, ...]]:
    """Return the causes and their lineage in order of arrival."""
    found = []
    for field, value in record.items():
        if field[:2] == b"c:":
            order, _, lineage = value.partition(b"\0")
            found.append((int(order), field[2:].decode(), lineage))
    found.sort()
    return (
        tuple([cause for _, cause, _ in found]),
        tuple([_lineage(lineage) if lineage else _UNKNOWN for _, _, lineage in found]),
    )


def _lineage(stored: bytes) -> Lineage:
    operation_id, _, traceparent = stored.decode().partition("\0")
    return Lineage(operation_id, traceparent)


def _shared(row: Any, priorities: Sequence[Priority]) -> tuple[dict[bytes, bytes], dict[str, Any]]:
    flat = row[2]
    record = dict(zip(flat[::2], flat[1::2], strict=True))
    causes, lineage = _causes(record)
    return record, {
        "key": row[0].decode(),
        "payload": record[b"payload"],
        "priority": priorities[int(record[b"rank"])].name,
        "causes": causes,
        "lineage": lineage,
        "causes_count": int(record[b"causes"]),
        "enqueued_at_ms": int(record[b"enqueued"]),
    }


def read_claim(row: Any, token: str, priorities: Sequence[Priority]) -> Claim:
    """Read one row of the claim script."""
    record, shared = _shared(row, priorities)
    return Claim(**shared, token=token, attempt=row[1], deadline_ms=int(record[b"deadline"]))


def read_live(row: Any, priorities: Sequence[Priority]) -> LiveItem:
    """Read one row of the peek script."""
    record, shared = _shared(row, priorities)
    return LiveItem(
        **shared,
        state=record[b"state"].decode(),  # type: ignore[arg-type]  # the scripts write no other
        attempts=row[1],
        deadline_ms=int(record[b"deadline"]),
        state_ends_at_ms=int(float(row[3])) if row[3] else None,
        error=record.get(b"error", b"").decode(),
    )


def read_dead(row: Any, priorities: Sequence[Priority]) -> DeadItem:
    """Read one row of the dead script."""
    record, shared = _shared(row, priorities)
    return DeadItem(
        **shared,
        attempts=row[1],
        error_signature=record[b"signature"].decode(),
        error=record.get(b"error", b"").decode(),
        died_at_ms=int(record[b"died"]),
    )
