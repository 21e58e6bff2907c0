"""Submits the operation in earnest, looks at it, and undoes it (§11.5 step 2, kernel/0040).

It goes through the same `Kernel.submit` as any other, checks included, under a savepoint that is
always left by an exception. So a preview shows what would happen and not a model of it. The
savepoint takes back records, log row, receipts, requests and the head, so nothing of it stays.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import Envelope
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.model.simulation import RecordChange, WouldBeRejection
from kernel.transaction.checks.check import Refusal, Submitter
from kernel.transaction.checks.schema import parse
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import canonicalize, sha256_hex


@dataclass(frozen=True, slots=True)
class DryRun:
    """The changes of an operation that was carried out and undone, or why it was refused."""

    envelope: Envelope | None
    """The envelope; None where the document is none."""

    rejection: WouldBeRejection | None = None
    changes: tuple[RecordChange, ...] = ()
    """The change of each record, in the order in which they were first written."""

    receipt_kinds: tuple[str, ...] = ()
    recomputes: tuple[str, ...] = ()
    policy_before: str = ""
    policy_after: str = ""


class _Over(Exception):
    pass


def dry_run(
    kernel: Kernel,
    transaction: LedgerTransaction,
    document: object,
    submitter: Submitter,
    principal: str | None = None,
) -> DryRun:
    """Submit a document, read what it came to, and undo everything."""
    parsed = parse(document)
    if isinstance(parsed, Refusal):
        rejection = WouldBeRejection(
            check="V1",
            reason_code=parsed.reason_code,
            field=parsed.field,
            message=parsed.message[:1000],
        )
        return DryRun(None, rejection)
    run: DryRun | None = None
    with suppress(_Over), transaction.savepoint():
        submit = partial(kernel.submit, transaction, document, submitter, principal=principal)
        run = _submit_dry(transaction, parsed[0], submit)
        raise _Over
    assert run is not None  # noqa: S101 - for the type checker: only `_Over` gets here
    return run


def _submit_dry(
    transaction: LedgerTransaction,
    envelope: Envelope,
    submit: Callable[..., SubmissionResult | RejectedResult],
) -> DryRun:
    policy = transaction.policy_generation_id()
    result = submit(draws=False)
    if isinstance(result, RejectedResult):
        refusal = result.rejection
        rejection = WouldBeRejection(
            check=refusal.check,
            reason_code=refusal.reason_code,
            field=refusal.field,
            message=refusal.message[:1000],
        )
        return DryRun(envelope, rejection, policy_before=policy, policy_after=policy)
    if result.duplicate:
        rejection = WouldBeRejection(
            check="V2",
            reason_code="envelope_already_recorded",
            field="idempotency_key",
            message=f"it would be answered as operation {result.operation_id} was",
        )
        return DryRun(envelope, rejection, policy_before=policy, policy_after=policy)
    return DryRun(
        envelope,
        None,
        tuple(_changes(transaction, result)),
        tuple(receipt["receipt_kind"] for receipt in result.emitted_receipts),
        _recomputes(transaction, result.ec_sequence_number),
        policy,
        transaction.policy_generation_id(),
    )


def _changes(transaction: LedgerTransaction, result: SubmissionResult) -> Iterable[RecordChange]:
    where = {"ec_sequence_number": result.ec_sequence_number}
    rows = transaction.tables.scan(TableQuery(schema.applied_effects, where, order_by="ordinal"))
    applied: dict[tuple[str, str], list[Document]] = {}
    for row in rows:
        if "record" in schema.metadata.tables[row["store"]].columns:
            effects = applied.setdefault((row["store"], row["record_key"]), [])
            effects.append(effect_of(row))
    for (store, key), effects in applied.items():
        after = transaction.record(schema.metadata.tables[store], key)
        shown = None if after is None else _without_times(after, result.committed_at)
        before_hash = effects[0]["pre_image_hash"] or None
        yield RecordChange(
            store=store,
            record_key=key,
            effect_kinds=tuple(effect["effect_kind"] for effect in effects),
            before_hash=before_hash,
            after_hash=None if shown is None else sha256_hex(canonicalize(shown)),
            before=_pre_image(transaction, before_hash),
            after=shown,
        )


def _without_times(record: Document, committed_at: str) -> Document:
    """Leave out the times of writing: nothing was written, and later it has another time."""
    return {name: value for name, value in record.items() if value != committed_at}


def _pre_image(transaction: LedgerTransaction, content_hash: str | None) -> dict[str, Any] | None:
    content = None if content_hash is None else transaction.pre_image(content_hash)
    return None if content is None else orjson.loads(content)


def _recomputes(transaction: LedgerTransaction, sequence: int) -> tuple[str, ...]:
    where = {"queue": AUTHORITY_QUEUE, "cause_sequence": sequence}
    rows = transaction.tables.scan(TableQuery(schema.outbox, where, order_by="request_sequence"))
    return tuple(dict.fromkeys(row["item_key"] for row in rows))
