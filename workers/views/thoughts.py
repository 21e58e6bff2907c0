"""Describes sessions of thoughts and rounds as JSON, from a snapshot (seed 002)."""

from typing import Any

from typing_extensions import TypedDict

from actors.commit.thought_units import (
    AuditSessionDocument,
    MerkleRootDocument,
    RoundDocument,
    SealSignatureDocument,
    ThoughtDocument,
    read_session_document,
    root_document,
    round_document,
    thought_document_of,
)
from actors.errors import ThoughtNotTaken
from kernel.records.access.readable_view import ReadableView
from kernel.retention.thought_contents import Storage, read_content
from kernel.thoughts.reading import read_chain, round_rows, thought_path, thought_rows
from kernel.thoughts.sessions import session_of


class ShownThought(ThoughtDocument):
    """A thought with its content, null where that was erased, and where it was read."""

    content: str | None
    content_storage: Storage


class ThoughtsDocument(TypedDict):
    """Where a session stands, and a page of its thoughts."""

    session: AuditSessionDocument
    thoughts: list[ShownThought]
    next_after: int | None


class RoundsDocument(TypedDict):
    """A page of rounds."""

    rounds: list[RoundDocument]
    next_after: int | None


class ThoughtChainDocument(TypedDict):
    """A chain that was read again from its first thought, and follows link by link."""

    session_id: str
    thought_count: int
    zeta_head: str
    recorded_as_verified: int
    """How many of its thoughts the record states as verified."""


class ThoughtProofDocument(TypedDict):
    """What proves that a thought is in its session: the path to the root in the seal."""

    record: str
    """The bytes that were hashed, as text."""

    thought: ThoughtDocument
    path: list[str]
    seal: dict[str, Any]
    signatures: list[SealSignatureDocument]
    seal_sequence: str


def session_view(view: ReadableView, session_id: str) -> AuditSessionDocument:
    """Return where a session stands.

    Raises:
        ThoughtNotTaken: `audit_session_unknown`.
    """
    return read_session_document(view, session_id)


def chain_view(view: ReadableView, session_id: str) -> ThoughtChainDocument:
    """Read the chain of a session again; nothing is recorded, and finalizing needs that it is.

    Raises:
        ThoughtNotTaken: `audit_session_unknown`.
        LedgerCorrupt: a thought does not follow the one before it.
    """
    session = session_view(view, session_id)
    count, head = read_chain(view, session_id)
    return {
        "session_id": session_id,
        "thought_count": count,
        "zeta_head": head,
        "recorded_as_verified": session["verified_count"],
    }


def root_view(view: ReadableView, session_id: str) -> MerkleRootDocument:
    """Return the root of a session, null until it is finalized.

    Raises:
        ThoughtNotTaken: `audit_session_unknown`.
    """
    session_view(view, session_id)
    return root_document(session_of(view, session_id))


def thoughts_document(
    view: ReadableView, session_id: str, *, after: int, limit: int
) -> ThoughtsDocument:
    """Return where a session stands, and its thoughts behind a place.

    Raises:
        ThoughtNotTaken: `audit_session_unknown`.
    """
    session = session_view(view, session_id)
    rows = thought_rows(view, session_id, after=after, limit=limit)
    shown: list[ShownThought] = []
    for row in rows:
        thought = thought_document_of(row, duplicate=False)
        read = read_content(view, thought["content_commitment"])
        content = None if read.content is None else read.content.decode()
        shown.append({**thought, "content": content, "content_storage": read.storage})
    last = rows[-1]["thought_sequence"] if rows else after
    goes_on = last < session["thought_count"] and bool(rows)
    return {"session": session, "thoughts": shown, "next_after": last if goes_on else None}


def rounds_document(view: ReadableView, *, after: int, limit: int) -> RoundsDocument:
    """Return rounds behind a number."""
    rows = round_rows(view, after=after, limit=limit)
    last = rows[-1]["round_number"] if len(rows) == limit else None
    return {"rounds": [round_document(row) for row in rows], "next_after": last}


def thought_proof(view: ReadableView, session_id: str, sequence: int) -> ThoughtProofDocument:
    """Return the proof of a thought of a session that was finalized.

    Raises:
        ThoughtNotTaken: `audit_session_unknown`, `audit_session_not_finalized`, `thought_unknown`.
    """
    session_view(view, session_id)
    root = root_document(session_of(view, session_id))
    if root["seal"] is None or root["seal_sequence"] is None:
        message = f"{session_id} is not finalized yet"
        raise ThoughtNotTaken("audit_session_not_finalized", message)
    rows = thought_rows(view, session_id, after=sequence - 1, limit=1) if sequence > 0 else []
    if not rows:
        raise ThoughtNotTaken("thought_unknown", f"{session_id} has no thought {sequence}")
    path = thought_path(view, session_id, sequence, root["seal"]["leaf_count"])
    return {
        "record": rows[0]["record_bytes"].decode(),
        "thought": thought_document_of(rows[0], duplicate=False),
        "path": [node.hex() for node in path],
        "seal": root["seal"],
        "signatures": root["signatures"],
        "seal_sequence": root["seal_sequence"],
    }
