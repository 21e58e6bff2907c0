"""Models what operations state of sessions of thoughts and of rounds (seed 002).

The body of `session_sealed` and that of `round_sealed` are the seals themselves, with their
signatures. Sequences of thoughts are counted within a session and are numbers; that of the log is a
text, as everywhere (K27).
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from kernel.model.numbers import PositiveCount
from kernel.model.receipt_bodies import ReceiptBody, Sequence, Sha256

THOUGHT_NAME_CHARS_MAX = 128
THOUGHTS_MAX = 1 << 20
"""Thoughts of one session."""

ROUND_SESSIONS_MAX = 256
"""Sessions of one round; the finalization of the last one seals it."""

SEAL_SIGNATURES_MAX = 16

ThoughtName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=THOUGHT_NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f]+$"),
]
"""What a session, a task or a thought is called."""

_Count = Annotated[int, Field(ge=1, le=THOUGHTS_MAX)]
_Time = Annotated[str, StringConstraints(pattern=r"^[0-9T:.-]{26}Z$")]
_Line = Annotated[str, StringConstraints(max_length=512)]


class AuditSessionStarted(ReceiptBody):
    """A session of thoughts begins, for a task."""

    session_id: ThoughtName
    task_id: ThoughtName


class ThoughtRecorded(ReceiptBody):
    """A thought of a session; its content is under a salted commitment."""

    session_id: ThoughtName
    thought_id: ThoughtName
    thought_type: Literal["plan", "analysis", "decision", "reflection"]
    content_commitment: Sha256


class ThoughtChainVerified(ReceiptBody):
    """The chain was read again as far as this thought, and holds."""

    session_id: ThoughtName
    thought_count: _Count
    zeta_head: Sha256


class SealSignature(ReceiptBody):
    """A public key, and its line below the note of a seal (P4)."""

    vkey: _Line
    line: _Line


_Signatures = Annotated[list[SealSignature], Field(max_length=SEAL_SIGNATURES_MAX, fail_fast=True)]


class SessionSealed(ReceiptBody):
    """The seal of a session: it authenticates the count, which the root does not bind (P1)."""

    format: Literal["rotulus/session-seal/v1"]
    algorithm: Literal["eta-dup-sha256-v1"]
    session_id: ThoughtName
    task_id: ThoughtName
    leaf_count: _Count
    first_sequence: _Count
    last_sequence: _Count
    zeta_head: Sha256
    eta_root: Sha256
    rfc6962_root: Sha256
    round_number: PositiveCount
    sealed_at: _Time
    signatures: _Signatures


class AuditSessionEnded(ReceiptBody):
    """A session that was finalized is over."""

    session_id: ThoughtName


class SealedSession(ReceiptBody):
    """A session in the seal of its round."""

    session_id: ThoughtName
    leaf_count: _Count
    eta_root: Sha256
    rfc6962_root: Sha256
    seal_sequence: Sequence
    """The place of its seal on the log."""


_Sessions = Annotated[list[SealedSession], Field(max_length=ROUND_SESSIONS_MAX, fail_fast=True)]


class RoundOpened(ReceiptBody):
    """The genesis of a round; `parents` are the sessions of the round before."""

    format: Literal["rotulus/round-genesis/v1"]
    round_number: PositiveCount
    parent_seal_hash: Sha256
    parents: _Sessions
    opened_at: _Time


class RoundSealed(ReceiptBody):
    """The seal of a round."""

    format: Literal["rotulus/round-seal/v1"]
    round_number: PositiveCount
    genesis_hash: Sha256
    sessions: _Sessions
    sealed_at: _Time
    sealed_by: Literal["command", "time", "count"]
    signatures: _Signatures
