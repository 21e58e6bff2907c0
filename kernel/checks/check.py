"""What a check is given and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.model.envelope import Envelope
from kernel.model.result import SubmissionResult

Submitter = Literal["orchestrator", "caller"]
"""Who hands the envelope in: the orchestrator, or somebody outside it (K18)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first thing wrong: its reason code and the field where it is."""

    reason_code: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Submission:
    """An envelope under examination."""

    document: Document
    content: bytes
    """The canonical bytes of the document, as they will be stored."""

    content_digest: str
    envelope: Envelope
    submitter: Submitter
    transaction: LedgerTransaction
    idempotency_window_us: int


Verdict = Refusal | SubmissionResult | None
"""None lets the envelope pass on; a result is the answer that was given before (V2)."""

Check = Callable[[Submission], Verdict]
