"""Refuses a request that cannot be carried out, with a durable receipt that names its digest.

It failed alone, so it would fail again, whichever gateway carries it out. Its caller is answered
`request_unprocessable`, which says not to send it again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import structlog
from pydantic import BaseModel

from actors.commit.unit_context import CommitContext
from actors.errors import ActorError, RefusalsTooMany, RequestSetAside, RequestUnprocessable
from kernel.ledger.receipts import append_receipt
from kernel.ledger.shards import Position, consumed_position
from kernel.model.receipt import Receipt
from kernel.transaction.refusal_runs import RefusalReason, RefusalRun, record_runs
from kernel.values.canonical import sha256_hex

UNPROCESSABLE = "request_unprocessable"
SET_ASIDE = "mailbox_entry_set_aside"
CAUSE_CHARS_MAX = 200
SESSION_ID_CHARS_MAX = 384

_UNSAID = frozenset(
    {"reply", "request_id", "principal", "position", "traceparents", "put_at_ns", "again"}
)
"""Fields of a message that are not part of the request."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RefusalUnit:
    """Refuse a message that could not even be made into units."""

    request: object
    cause: Exception
    session_id: str

    def run(self, context: CommitContext) -> ActorError:
        """Leave the receipt and return the error for its caller."""
        return refuse(context, self.request, self.cause, self.session_id)


@dataclass(frozen=True, slots=True)
class SetAsideUnit:
    """Record that nobody takes an entry of a mailbox any more."""

    session_id: str
    shard: int
    position: Position
    ends: int
    entry_digest: str

    def run(self, context: CommitContext) -> RequestSetAside | None:
        """Leave the receipt and return the error for the caller; None if it was carried out."""
        transaction, at = context.transaction, self.position
        known = consumed_position(transaction, self.session_id)
        if known is not None and known.mailbox_id == at.mailbox_id and at.offset <= known.offset:
            return None
        receipt_id = f"receipt:{SET_ASIDE}:{at.mailbox_id}:{at.offset}"
        if not transaction.has_receipt(receipt_id):
            body = {
                "reason_code": SET_ASIDE,
                "shard": str(self.shard),
                "mailbox_id": at.mailbox_id,
                "offset": at.offset,
                "process_ends": str(self.ends),
                "entry_digest": self.entry_digest,
            }
            if _is_plain(self.session_id):
                body["session_id"] = self.session_id
            transaction.next_commit_time_us()
            append_receipt(transaction, receipt_id, Receipt(SET_ASIDE, body), None)
        return RequestSetAside(
            f"{self.ends} processes have ended with the request in hand; it was set aside",
            {"receipt_id": receipt_id, "shard": self.shard, "offset": at.offset},
        )


@dataclass(frozen=True, slots=True)
class RefusalRunsUnit:
    """Leaves a receipt for each run of counted refusals."""

    runs: Sequence[RefusalRun]

    def run(self, context: CommitContext) -> None:
        """Write the receipts that are not on the record yet."""
        record_runs(context.transaction, self.runs)


def refuse(
    context: CommitContext, request: object, cause: Exception, session_id: str | None = None
) -> ActorError:
    """Leave a durable receipt of a request that failed by itself; the same one leaves one.

    The receipt holds no word of the request, which may be what cannot be written, but its digest:
    SHA-256 over its JSON with sorted keys and every character beyond ASCII escaped.
    """
    transaction = context.transaction
    kind, digest = type(request).__name__, digest_of(request)
    receipt_id = f"receipt:{UNPROCESSABLE}:{digest}"
    _log.error(
        UNPROCESSABLE, asked=kind, request_digest=digest, cause=repr(cause)[:CAUSE_CHARS_MAX]
    )
    if not transaction.has_receipt(receipt_id):
        body = {
            "reason_code": UNPROCESSABLE,
            "asked": kind,
            "request_digest": digest,
            "cause": type(cause).__name__,
        }
        stated_id = session_id or getattr(request, "session_id", None)
        if isinstance(stated_id, str) and _is_plain(stated_id):
            body["session_id"] = stated_id
        transaction.next_commit_time_us()
        reason = RefusalReason(body.get("session_id", ""), "apply", UNPROCESSABLE)
        if not context.kernel.has_receipt(transaction, reason, None, body["cause"]):
            message = "the request cannot be carried out, as many before it"
            return RefusalsTooMany(message, {"request_digest": digest, "cause": body["cause"]})
        append_receipt(transaction, receipt_id, Receipt(UNPROCESSABLE, body), None)
    return RequestUnprocessable(
        "the request cannot be carried out, and was refused on the record",
        {"receipt_id": receipt_id, "request_digest": digest, "cause": type(cause).__name__},
    )


def digest_of(request: object) -> str:
    """Return the digest by which a refused request is known; any object has one."""
    for render in (_json, repr):
        try:
            return sha256_hex(render(request).encode("ascii", "backslashreplace"))
        except Exception:  # noqa: BLE001, S112 - what was sent may defy either (depth, size)
            continue
    return sha256_hex(type(request).__name__.encode())


def _json(request: object) -> str:
    return json.dumps(_plain(request), sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name not in _UNSAID]
        return {name: getattr(value, name) for name in names}
    if isinstance(value, bytes):
        return value.hex()
    return repr(value) if not isinstance(value, dict | list | tuple | str | int | float) else value


def _is_plain(text: str) -> bool:
    return len(text) <= SESSION_ID_CHARS_MAX and text.isascii() and text.isprintable()
