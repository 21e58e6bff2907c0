"""Records which queues workers serve that are no part of Rotulus, and what each takes.

A worker states the JSON Schema of a queue's contents, to what its requests belong and how urgent
they may be. Gateways check by that, so they need none of the worker's modules (decision
kernel/0670). A registration is a durable receipt, and `queue_registrations` holds the newest of
each queue. If there are as many as may be, a new one takes the place of the oldest that nobody
serves and of which no request is open.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.values.canonical import canonicalize
from kernel.values.priorities import QueuePriority
from kernel.work import receipts
from kernel.work.content_schema import ContentSchema
from kernel.work.errors import WorkRefused
from kernel.work.queue_kinds import QueueKind, check_queue, is_built_in

REGISTERED_MAX: Final = 48
"""Registrations of a ledger; a process has room for some queues of its own beside them."""

_COMPILED: Final = 256


@dataclass(frozen=True, slots=True)
class QueueRegistration:
    """What a worker states of a queue that it serves."""

    queue: str
    content_schema: Mapping[str, Any]
    item_key: str
    priorities: tuple[QueuePriority, ...]
    default_priority: str
    priority_field: str | None = None

    def document(self) -> Document:
        """Return it as it is recorded."""
        document: Document = {
            "queue": self.queue,
            "content_schema": dict(self.content_schema),
            "item_key": self.item_key,
            "priorities": [
                {
                    "name": row.name,
                    "capacity": row.capacity,
                    "service_target_s": row.service_target_s,
                }
                for row in self.priorities
            ],
            "default_priority": self.default_priority,
        }
        if self.priority_field is not None:
            document["priority_field"] = self.priority_field
        return document


def register(
    transaction: LedgerTransaction,
    registration: QueueRegistration,
    served: Collection[str],
    *,
    is_new: bool,
) -> bool:
    """Record a registration; False, and nothing recorded, where it is on the record.

    Args:
        transaction: in which it is recorded.
        registration: what a worker states.
        served: the queues that workers serve now, whose registrations stay.
        is_new: whether it takes the place of another one of the same queue; False where a worker
            only repeats what it has stated before.

    Raises:
        WorkRefused: `queue_registration_invalid`, `work_queues_too_many`.
    """
    document = registration.document()
    kind = _check_kind(document)
    known = transaction.tables.get(schema.queue_registrations, kind.name)
    if known is not None and (not is_new or known["definition"] == canonicalize(document)):
        return False
    if known is None and transaction.tables.count(_ALL) >= REGISTERED_MAX:
        document["replaces"] = _idle_queue(transaction, served)
    transaction.next_commit_time_us()
    receipt_id = f"receipt:{transaction.host.new_id()}"
    receipts.record(transaction, receipts.REGISTERED, receipt_id, document)
    return True


def registered_definitions(view: LedgerView) -> dict[str, bytes]:
    """Return the newest registration of each queue, in the bytes that `kind_of` reads."""
    return {row["queue"]: row["definition"] for row in view.tables.scan(_ALL)}


def newest_registration(view: LedgerView) -> int | None:
    """Return when a queue was registered last; the same as before where none was since."""
    newest = TableQuery(
        schema.queue_registrations, order_by="registered_at_us", descending=True, limit=1
    )
    return next((row["registered_at_us"] for row in view.tables.scan(newest)), None)


def registered_kind(view: LedgerView, queue: str) -> QueueKind | None:
    """Return the row of a queue as it is registered, None where it is not."""
    row = view.tables.get(schema.queue_registrations, queue)
    return None if row is None else kind_of(row["definition"])


@lru_cache(maxsize=_COMPILED)
def kind_of(definition: bytes) -> QueueKind:
    """Return the row of a queue by a registration; its schema is compiled once.

    Raises:
        ValueError: it cannot be used.
    """
    document = orjson.loads(definition)
    kind = QueueKind(
        document["queue"],
        ContentSchema(document["content_schema"]),
        document["item_key"],
        tuple(QueuePriority(**row) for row in document["priorities"]),
        document["default_priority"],
        document.get("priority_field"),
    )
    check_queue(kind)
    return kind


_ALL: Final = TableQuery(schema.queue_registrations, order_by="registered_at_us")


def _check_kind(document: Document) -> QueueKind:
    try:
        kind = kind_of(canonicalize(document))
    except (ValueError, RecursionError) as error:
        message = f"the queue {document['queue']!r}: {error}"
        raise WorkRefused("queue_registration_invalid", message, "content_schema") from error
    if is_built_in(kind.name):
        message = f"{kind.name!r} is a queue of Rotulus"
        raise WorkRefused("queue_registration_invalid", message, "queue")
    return kind


def _idle_queue(view: LedgerView, served: Collection[str]) -> str:
    """Return the queue whose registration is the oldest of those that nobody needs."""
    for row in view.tables.scan(_ALL):
        queue = str(row["queue"])
        if queue not in served and not view.count_open_requests(queue):
            return queue
    message = f"{REGISTERED_MAX} queues are registered, and each is served or has open requests"
    raise WorkRefused("work_queues_too_many", message, "queue")
