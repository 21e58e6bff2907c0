"""Defines one entry of a session's audit trail, sealed by its hash and chained to the one before.

    event hash = SHA-256(RFC 8785 bytes of every field but event_hash)

The hash covers the payload and the verb as well as the survivors, and the previous event's hash, so
no entry can be altered, dropped from the middle, reordered or moved to another session. The first
entry follows 64 zeros. The RFC 8785 bytes are stored with the hash among the fields; the bytes are
made once and are the truth, the attributes are what they say.
"""

import hashlib
import re
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, get_args

from kernel.belief.errors import CorruptBeliefEvent
from kernel.belief.id_lists import canonical_object
from kernel.belief.limits import decode_json

Verb = Literal[
    "DECLARE_SESSION",
    "ELIMINATE",
    "ENTER_OBLIGATION",
    "REQUEST_EXIT",
    "DECLARE_CONCLUSION",
    "REQUEST_TERMINATION",
    "SUCCEED_SESSION",
]
VERBS: tuple[Verb, ...] = get_args(Verb)

_HEX64 = re.compile(r"[0-9a-f]{64}").fullmatch
_FRONT = re.compile(rb'"event_hash":"([0-9a-f]{64})","event_id":"((?:[^"\\]|\\.)*)"').search
_PRIOR = re.compile(rb'"prev_event_hash":"([0-9a-f]{64})"').match


@dataclass(frozen=True, slots=True)
class BeliefEvent:
    """A sealed audit entry; made by ``seal`` or ``from_bytes``, never by its constructor."""

    event_id: str
    session_id: str
    ts: str
    """ISO 8601 in UTC with microseconds."""
    verb: Verb
    payload: dict[str, Any]
    delta: dict[str, list[str]]
    """``{"eliminated": [...]}``, sorted: what this entry removed."""
    survivors_before_hash: str
    survivors_after_hash: str
    prev_event_hash: str
    event_hash: str
    _stored: bytes = field(repr=False, compare=False)

    @classmethod
    def seal(  # noqa: PLR0913 - an entry has nine fields, and all are hashed
        cls,
        *,
        event_id: str,
        session_id: str,
        ts: str,
        verb: Verb,
        payload: dict[str, Any],
        delta: dict[str, list[str]],
        survivors_before_hash: str,
        survivors_after_hash: str,
        prev_event_hash: str,
    ) -> Self:
        """Make the entry, its canonical bytes and its hash.

        Raises:
            CanonicalizationError: when a value has no canonical JSON.
        """
        # In canonical order "delta" comes first and "event_hash" second: the bytes to hash and
        # the bytes to store differ by one insertion, and the payload is written only once.
        head = b'{"delta":' + canonical_object(delta)
        tail = canonical_object(
            {
                "event_id": event_id,
                "payload": payload,
                "prev_event_hash": prev_event_hash,
                "session_id": session_id,
                "survivors_after_hash": survivors_after_hash,
                "survivors_before_hash": survivors_before_hash,
                "ts": ts,
                "verb": verb,
            }
        )[1:]
        event_hash = hashlib.sha256(head + b"," + tail).hexdigest()
        return cls(
            event_id=event_id,
            session_id=session_id,
            ts=ts,
            verb=verb,
            payload=payload,
            delta=delta,
            survivors_before_hash=survivors_before_hash,
            survivors_after_hash=survivors_after_hash,
            prev_event_hash=prev_event_hash,
            event_hash=event_hash,
            _stored=b'%s,"event_hash":"%s",%s' % (head, event_hash.encode(), tail),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a stored entry, which must be canonical to the byte and match its hash.

        Raises:
            CorruptBeliefEvent: on any difference.
        """
        try:
            document = decode_json(data)
        except (ValueError, RecursionError) as error:
            raise CorruptBeliefEvent(f"not readable as JSON: {error}") from error
        _check_shape(document)
        claimed = document.pop("event_hash")
        try:
            event = cls.seal(**document)
        except ValueError as error:
            raise CorruptBeliefEvent(f"not canonical: {error}") from error
        if event.event_hash != claimed:
            raise CorruptBeliefEvent("its hash is not the hash of its content")
        if event.to_bytes() != data:
            raise CorruptBeliefEvent("its bytes are not canonical")
        return event

    def to_bytes(self) -> bytes:
        """Return the canonical bytes with the hash, as they are stored."""
        return self._stored

    def to_dict(self) -> dict[str, Any]:
        """Return a fresh object of every field, as it stands in the stored bytes."""
        content: dict[str, Any] = decode_json(self._stored)
        return content


_FIELDS = frozenset(item.name for item in fields(BeliefEvent)) - {"_stored"}
_OBJECTS = frozenset({"payload", "delta"})
_HASHES = (
    "survivors_before_hash",
    "survivors_after_hash",
    "prev_event_hash",
    "event_hash",
)


def read_link(content: bytes) -> tuple[str, str, str]:
    """Read id, hash and prior hash off stored bytes, without verifying them.

    Raises:
        CorruptBeliefEvent: when they are not where canonical bytes have them.
    """
    # Before the first two stand only lists of texts, whose quotes are escaped; so is every quote
    # between the third and the end. The markers occur nowhere else.
    matches = _FRONT(content), _PRIOR(content, content.rfind(b'"prev_event_hash":"'))
    if matches[0] is None or matches[1] is None:
        raise CorruptBeliefEvent("its bytes are not canonical")
    event_hash, event_id = matches[0].groups()
    return decode_json(b'"%s"' % event_id), event_hash.decode(), matches[1][1].decode()


def _check_shape(document: object) -> None:
    if not isinstance(document, dict) or document.keys() != _FIELDS:
        raise CorruptBeliefEvent("its fields are not those of an event")
    for name, value in document.items():
        if not isinstance(value, dict if name in _OBJECTS else str):
            raise CorruptBeliefEvent(f"{name} has the wrong type")
    if not all(_HEX64(document[name]) for name in _HASHES):
        raise CorruptBeliefEvent("a hash is not 64 hex digits")
    if document["verb"] not in VERBS:
        raise CorruptBeliefEvent("its verb is unknown")
    struck = document["delta"].get("eliminated")
    if len(document["delta"]) != 1 or not isinstance(struck, list):
        raise CorruptBeliefEvent("its delta is not a list of eliminated ids")
    if not all(isinstance(name, str) for name in struck):
        raise CorruptBeliefEvent("its delta names something that is not an id")
