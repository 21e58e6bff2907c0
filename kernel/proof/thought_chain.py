"""Chains one session's thoughts: ζ (seed 002); pure.

A thought is stored as the canonical bytes of its record. Its content hash is the SHA-256 of those
bytes, and the next record names it: so one hash is a link of the chain and a leaf of the tree. The
content itself is not in the record, which holds a salted commitment to it; so a content may be
erased, and everything that was proved before stays so (P6).

Sorted by name, what stands before `prev_hash` is of fixed length in every record. Whoever walks a
chain therefore reads the link at one place and parses nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from kernel.values.canonical import GENESIS_HASH, canonicalize, sha256_hex
from kernel.values.errors import KernelError

THOUGHT_FORMAT = "rotulus/thought/v1"
"""What the first record of a session names."""

ThoughtType = Literal["plan", "analysis", "decision", "reflection"]
CLOSING_TYPE = "reflection"
"""The type of the record that closes a chain."""


class ThoughtChainBroken(KernelError):
    """A record does not name the one before it, so the chain is not the one that was recorded."""

    code = "thought_chain_broken"

    def __init__(self, sequence: int) -> None:
        super().__init__(f"thought {sequence} does not follow the one before it")
        self.sequence = sequence
        """The place in the session of the first record that does not follow, from one."""


@dataclass(frozen=True, slots=True)
class ThoughtRecord:
    """One thought: its place in its session, what it follows, what it commits to."""

    session_id: str
    sequence: int
    """Counted from one in each session."""

    thought_id: str
    thought_type: ThoughtType
    content_commitment: str
    """Salted, under which the content is kept until it is erased."""

    recorded_at: str
    prev_hash: str

    def to_bytes(self) -> bytes:
        """Return the bytes that are stored and hashed."""
        return canonicalize(
            {
                "content_commitment": self.content_commitment,
                "format": THOUGHT_FORMAT,
                "prev_hash": self.prev_hash,
                "recorded_at": self.recorded_at,
                "sequence": self.sequence,
                "session_id": self.session_id,
                "thought_id": self.thought_id,
                "thought_type": self.thought_type,
            }
        )


def content_hash(record_bytes: bytes) -> str:
    """Return the hash of a record, which the next one names and which is its leaf."""
    return sha256_hex(record_bytes)


_BEFORE = b'{"content_commitment":"%064d","format":"%s","prev_hash":"' % (
    0,
    THOUGHT_FORMAT.encode(),
)
_LINK = slice(len(_BEFORE), len(_BEFORE) + 64)


def chain_head(records: Iterable[bytes], *, after: int = 0, head: str = GENESIS_HASH) -> str:
    """Return the hash of the last of some records, each of which has to follow the one before.

    `after` and `head` are how many thoughts precede them, and the hash of the last of those.

    Raises:
        ThoughtChainBroken: at the first that does not follow.
    """
    expected = head.encode()
    sequence = after
    for record in records:
        sequence += 1
        if record[_LINK] != expected:
            raise ThoughtChainBroken(sequence)
        expected = sha256(record).hexdigest().encode()
    return expected.decode()
