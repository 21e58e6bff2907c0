"""Defines the input of a check and its verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Literal

from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.model.envelope import Envelope
from kernel.model.receipt import Receipt
from kernel.model.result import SubmissionResult
from kernel.records.capacity import CapacityPort

Submitter = Literal["orchestrator", "caller"]
"""Who submits the envelope: the orchestrator, or a caller outside it (K18)."""


_SAID_CHARS = 80


def printable_excerpt(stated: object) -> str:
    """Return what an envelope states as a message may show it: short, and in ASCII."""
    return ascii(stated)[:_SAID_CHARS]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first thing wrong: its reason code and the field where it is."""

    reason_code: str
    field: str
    message: str
    retry_after_s: int | None = None
    """After how long a repetition may succeed."""

    receipt_kind: str = "envelope_validation_failed"
    details: Document = dataclass_field(default_factory=dict)
    """What else its receipt says."""

    follow_ups: tuple[Document, ...] = ()
    """Envelopes of the kernel's own that are applied instead of the refused one."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The envelope passes on, and something is recorded with it."""

    receipts: tuple[Receipt, ...] = ()
    """Receipts that rest on more than the record, so they are not the operation's own."""

    follow_ups: tuple[Document, ...] = ()
    """Envelopes of the kernel's own that are applied right after it, or undone with it."""

    cost: float = 0.0
    """What it draws on its lease once it is applied."""


@dataclass(slots=True)  # not frozen: one is made for every envelope, and freezing triples its cost
class Submission:
    """An envelope under examination; for the checks to read only."""

    document: Document
    content: bytes
    """The canonical bytes of the document, as they will be stored."""

    content_digest: str
    envelope: Envelope
    submitter: Submitter
    transaction: LedgerTransaction
    idempotency_window_us: int
    capacity: CapacityPort | None = None
    """What the leases hold; without limit where there is none."""

    throttle_ops_per_sec: int | None = None
    """Operations in a second above which background work is put off, where no policy states it."""

    conflict_window_us: int = 0
    """How long after a commit a write that had not seen it is concurrent (K10)."""

    id_is_drawn: bool = False
    """Whether the operation's id was drawn at random for this very submission."""

    answered_key: str | None = None
    """Its key in the scope of who submits; None where it is the runtime's, and he is not."""


Verdict = Refusal | SubmissionResult | Passage | None
"""None lets the envelope pass; a result is the earlier answer under its key (V2)."""

Check = Callable[[Submission], Verdict]
