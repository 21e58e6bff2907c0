"""Records the outcome of an effect outside, as an operation that closes its request (K19).

A report names its request and what was asked for, so it cannot close another's. It is applied like
any effect, so closing a request follows from the log, and replaying closes it again without
performing anything (decision kernel/0085).
"""

from collections.abc import Mapping
from types import MappingProxyType

from kernel.algebra.effects import canonical_kind
from kernel.ledger import schema
from kernel.ledger.ledger import Document, Request
from kernel.ledger.outbox import end_request
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.model.stated_receipts import (
    ExternalEffectFailed,
    ExternalEffectPerformed,
    ExternalEffectReport,
)
from kernel.records.external import EXTERNAL_QUEUE
from kernel.records.record import Applied, Operation, write_record
from kernel.records.typed import stamp, validate_payload
from kernel.values.errors import EffectInapplicable

PERFORMED = "external_effect_performed"
FAILED = "external_effect_failed"

_REPORTS: Mapping[str, tuple[type[ExternalEffectReport], str]] = MappingProxyType(
    {
        PERFORMED: (ExternalEffectPerformed, "completed"),
        FAILED: (ExternalEffectFailed, "dead_letter"),
    }
)
"""By the kind of receipt: its model, and the outcome that the request gets."""


def report_external_effect(effect: KernelEffect, operation: Operation) -> Applied:
    """Close the request that the report answers, and emit the report as a durable receipt.

    Raises:
        EffectInapplicable: when there is no such open request, or the report is about another.
    """
    kind = effect.receipt_subkind or ""
    if kind not in _REPORTS:
        raise EffectInapplicable(
            f"{kind or 'nothing'} does not report an effect outside",
            code="receipt_kind_unknown",
            field="receipt_subkind",
        )
    model, outcome = _REPORTS[kind]
    report = validate_payload(model, effect.payload)
    request = _open_request(report, operation)
    if isinstance(report, ExternalEffectPerformed):
        _check_performed(report, request)
    _close(report, outcome, operation)
    receipt_id = operation.emit(Receipt(kind, report.model_dump(mode="json", exclude_none=True)))
    if isinstance(report, ExternalEffectPerformed) and report.token_sha256 is not None:
        return _keep_token_hash(report.token_sha256, request["target_ref"], operation)
    return Applied(str(schema.receipts.name), receipt_id, None, None)


def _open_request(report: ExternalEffectReport, operation: Operation) -> Document:
    row = operation.transaction.tables.get(schema.outbox, report.request_id)
    if row is None or row["queue"] != EXTERNAL_QUEUE:
        raise EffectInapplicable(
            f"no effect outside was asked for by {report.request_id}",
            code="external_request_unknown",
            field="payload.request_id",
        )
    if not row["open"]:
        raise EffectInapplicable(
            f"{report.request_id} has its outcome",
            code="external_request_closed",
            field="payload.request_id",
        )
    request = Request.of_row(row).document
    stated = {
        "operation_id": report.original_operation_id,
        "effect_id": report.effect_id,
        "effect_kind": report.effect_kind,
    }
    for name, value in stated.items():
        if request[name] != value:
            raise _mismatch(f"{report.request_id} asks for another {name}")
    return request


def _check_performed(report: ExternalEffectPerformed, request: Document) -> None:
    """Refuse a report whose written content is not the content that was asked for."""
    payload = request["payload"]
    if canonical_kind(report.effect_kind) == "share_link_grant":
        if report.token_sha256 is None:
            raise _mismatch("a token is known by its hash")
        if report.recipient_email_hash != payload["recipient_email_hash"]:
            raise _mismatch("the token is another recipient's")
        return
    if report.token_sha256 is not None:
        raise _mismatch(f"{report.effect_kind} issues no token")
    if payload["content_hash"] not in {file.sha256 for file in report.written}:
        raise _mismatch("nothing of what was written has the content's hash")


def _mismatch(message: str) -> EffectInapplicable:
    return EffectInapplicable(message, code="external_report_mismatch", field="payload")


def _close(report: ExternalEffectReport, outcome: str, operation: Operation) -> None:
    why = report.error_code if isinstance(report, ExternalEffectFailed) else ""
    end_request(
        operation.transaction.tables,
        report.request_id,
        error_signature=why,
        outcome=outcome,
        operation_id=operation.operation_id,
        closed_sequence=operation.sequence,
        closed_at_us=operation.transaction.head_now.committed_at_us,
    )


def _keep_token_hash(token_sha256: str, share_link_id: str, operation: Operation) -> Applied:
    before = operation.transaction.record(schema.share_links, share_link_id)
    if before is None:
        raise _mismatch(f"no link {share_link_id}")
    record = {
        **before,
        "version": before["version"] + 1,
        "token_sha256": token_sha256,
        **stamp(operation),
    }
    return write_record(operation, schema.share_links, share_link_id, record)
