"""Defines the result of a submission: applied, rejected, or the answer that was given before."""

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from kernel.model.numbers import Count


class AppliedEffectDocument(TypedDict):
    """An effect that was applied, as an answer names it."""

    effect_id: str
    applied_at: str


class EmittedReceiptDocument(TypedDict):
    """A receipt that was emitted, as an answer names it."""

    receipt_id: str
    receipt_kind: str
    retention_class: Literal["durable", "ephemeral"]


class SubmissionDocument(TypedDict):
    """The answer to an operation that is on the record."""

    operation_id: str
    ec_sequence_number: str
    committed_at: str
    applied_effects: list[AppliedEffectDocument]
    emitted_receipts: list[EmittedReceiptDocument]
    row_hash: str
    validation_result: Literal["accepted"]


class RejectionDocument(TypedDict):
    """The answer to an operation that the kernel refused."""

    operation_id: str | None
    validation_result: Literal["rejected"]
    check: str
    reason_code: str
    field: str
    message: str
    receipt_id: str | None
    """None where so many refusals came that they are only counted."""

    retry_after_s: NotRequired[Count]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why an envelope was refused: the check, its reason code, the offending field."""

    check: str
    reason_code: str
    field: str
    message: str
    retry_after_s: int | None = None
    """After how long a repetition may succeed; None where waiting changes nothing."""


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """The answer to a submission (§2.3); a duplicate gets the first answer verbatim."""

    operation_id: str
    ec_sequence_number: int
    committed_at: str
    applied_effects: tuple[dict[str, str], ...]
    emitted_receipts: tuple[dict[str, str], ...]
    row_hash: str
    duplicate: bool = field(default=False, compare=False)
    """True when this is the answer to an earlier submission of the same key; not stored."""

    def document(self) -> SubmissionDocument:
        """Return the stored form; the sequence is a string outside the process (K27)."""
        return {
            "operation_id": self.operation_id,
            "ec_sequence_number": str(self.ec_sequence_number),
            "committed_at": self.committed_at,
            "applied_effects": cast("list[AppliedEffectDocument]", list(self.applied_effects)),
            "emitted_receipts": cast("list[EmittedReceiptDocument]", list(self.emitted_receipts)),
            "row_hash": self.row_hash,
            "validation_result": "accepted",
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "SubmissionResult":
        """Rebuild a stored answer as a duplicate's answer."""
        return cls(
            operation_id=document["operation_id"],
            ec_sequence_number=int(document["ec_sequence_number"]),
            committed_at=document["committed_at"],
            applied_effects=tuple(document["applied_effects"]),
            emitted_receipts=tuple(document["emitted_receipts"]),
            row_hash=document["row_hash"],
            duplicate=True,
        )


@dataclass(frozen=True, slots=True)
class RejectedResult:
    """The answer to a refused submission; the receipt is durable, nothing else was written.

    There is no receipt where so many refusals came that they are counted instead (§17.6).
    """

    operation_id: str | None
    rejection: Rejection
    receipt_id: str | None

    def document(self) -> RejectionDocument:
        """Return the form that leaves the process."""
        document: RejectionDocument = {
            "operation_id": self.operation_id,
            "validation_result": "rejected",
            "check": self.rejection.check,
            "reason_code": self.rejection.reason_code,
            "field": self.rejection.field,
            "message": self.rejection.message,
            "receipt_id": self.receipt_id,
        }
        if self.rejection.retry_after_s is not None:
            document["retry_after_s"] = self.rejection.retry_after_s
        return document
