"""Moves contents of thoughts out of the database once their round is old (seed 002, tiers).

The rounds that were sealed last, so many as are kept, have everything in the database. Of older
ones the contents move to the archive, a file each, and what stays is what every proof is made of:
records, chain, tree and seal, until the round is cold (`thought_records.py`). A page of a session
is written and read back on a snapshot; then, in one transaction, its contents leave the blobs and a
durable receipt says so. A round all of whose pages were moved has a receipt too, and is not looked
at again.

A legal hold wins: a page of which anything is held stays, and moves after the hold is lifted.
Content to which an envelope or the answer of a model also commits stays as well. Reading a content
is reading the archive where the blobs have none and no receipt says that it was erased.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kernel.ledger import schema
from kernel.ledger.archive import Archive, ArchiveUnavailable
from kernel.ledger.archived_content import CONTENT_BYTES_MAX
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import Row, TableQuery
from kernel.ledger.thought_segment import PAGE_THOUGHTS
from kernel.model.receipt import Receipt
from kernel.model.thought_receipts import ROUND_SESSIONS_MAX
from kernel.records.legal_holds import hold_on, open_holds
from kernel.retention.erasure import is_envelope, is_erased
from kernel.thoughts.sessions import content_commitment, newest_round, sessions_of_round

CONTENTS_ARCHIVED = "thought_contents_archived"
ROUND_ARCHIVED = "round_contents_archived"

_COMMITMENT = re.compile(r"[0-9a-f]{64}")

Storage = Literal["database", "archive", "erased"]


@dataclass(frozen=True, slots=True)
class WrittenContents:
    """Thoughts of a session in a row, whose contents lie in the archive and are to be moved."""

    session_id: str
    round_number: int
    first_sequence: int
    last_sequence: int
    commitments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FinishedRound:
    """A round of which nothing is left to move."""

    round_number: int
    receipt_kind: str


@dataclass(frozen=True, slots=True)
class MovedContents:
    """What moving came to."""

    moved: int = 0
    erased_meanwhile: tuple[str, ...] = ()
    """Commitments whose files have to be deleted from the archive again."""


@dataclass(frozen=True, slots=True)
class ThoughtContent:
    """The content of a thought, and where it was read."""

    storage: Storage
    salt: bytes = b""
    content: bytes | None = None


def read_content(view: LedgerView, commitment: str) -> ThoughtContent:
    """Return the content to which a thought commits; None where it was erased.

    Raises:
        ArchiveUnavailable: it lies in the archive, which does not answer or has another one.
    """
    opening = view.blob_opening(commitment)
    if opening is not None:
        return ThoughtContent("database", *opening)
    if is_erased(view, commitment):
        return ThoughtContent("erased")
    return ThoughtContent("archive", *view.archive.content(commitment))


def lies_in_archive(view: LedgerView, commitment: str) -> bool:
    """Tell whether a content that the blobs do not have lies in the archive.

    Raises:
        ArchiveUnavailable: the archive does not answer, or has another one.
    """
    is_there = view.tables.get(schema.blobs, commitment) is not None
    if is_there or not view.archive.is_configured or not _COMMITMENT.fullmatch(commitment):
        return False
    try:
        view.archive.content(commitment)
    except ArchiveUnavailable as error:
        if error.code != "archived_content_missing":
            raise
        return False
    return True


def prepare_contents(
    view: LedgerView, archive: Archive, rounds_kept: int
) -> WrittenContents | FinishedRound | None:
    """Write the next page that is due into the archive, and read it back; None where none is.

    Raises:
        ArchiveUnavailable: the archive does not answer, or gives back something else.
    """
    for round_number in due_rounds(view, rounds_kept, ROUND_ARCHIVED):
        is_held = False
        for session_id, first, last in pages_of(view, round_number):
            if view.has_receipt(_page_id(session_id, first)):
                continue
            rows = _thoughts(view, session_id, first, last)
            if _is_held(view, rows):
                is_held = True
                continue
            commitments = tuple(_archive_contents(view, archive, rows))
            return WrittenContents(session_id, round_number, first, last, commitments)
        if not is_held:
            return FinishedRound(round_number, ROUND_ARCHIVED)
    return None


def move_contents(transaction: LedgerTransaction, written: WrittenContents) -> MovedContents:
    """Take the contents of a page that was written out of the blobs, on the record.

    Nothing is moved where others have moved it, or where a hold was set meanwhile.
    """
    first, last = written.first_sequence, written.last_sequence
    receipt_id = _page_id(written.session_id, first)
    rows = _thoughts(transaction, written.session_id, first, last)
    if transaction.has_receipt(receipt_id) or _is_held(transaction, rows):
        return MovedContents()
    erased = tuple(name for name in written.commitments if is_erased(transaction, name))
    moved = [name for name in written.commitments if name not in erased]
    for commitment in moved:
        transaction.drop_blob(commitment)
    transaction.next_commit_time_us()
    body = {
        "session_id": written.session_id,
        "round_number": written.round_number,
        "first_sequence": str(first),
        "last_sequence": str(last),
        "contents": len(moved),
    }
    append_receipt(transaction, receipt_id, Receipt(CONTENTS_ARCHIVED, body), None)
    return MovedContents(len(moved), erased)


def finish_round(transaction: LedgerTransaction, finished: FinishedRound) -> None:
    """Put on the record that all of a round was moved, once."""
    receipt_id = _round_id(finished.round_number, finished.receipt_kind)
    if not transaction.has_receipt(receipt_id):
        transaction.next_commit_time_us()
        body = {"round_number": finished.round_number}
        append_receipt(transaction, receipt_id, Receipt(finished.receipt_kind, body), None)


def count_archived_rounds(view: LedgerView) -> int:
    """Return of how many rounds all contents were moved."""
    return view.tables.count(TableQuery(schema.receipts, {"receipt_kind": ROUND_ARCHIVED}))


def round_is_moved(view: LedgerView, round_number: int) -> bool:
    """Tell whether all contents of a round were moved."""
    return view.has_receipt(_round_id(round_number, ROUND_ARCHIVED))


def due_rounds(view: LedgerView, rounds_kept: int, receipt_kind: str) -> Iterator[int]:
    """Yield the rounds that are older than those that are kept and have no receipt of a kind."""
    newest = newest_round(view)
    if newest is None:
        return
    sealed = newest["round_number"] - (newest["sealed_sequence"] is None)
    last = sealed - rounds_kept
    if (
        last > 0
        and view.tables.count(TableQuery(schema.receipts, {"receipt_kind": receipt_kind})) < last
    ):
        for number in range(1, last + 1):
            if not view.has_receipt(_round_id(number, receipt_kind)):
                yield number


def pages_of(view: LedgerView, round_number: int) -> Iterator[tuple[str, int, int]]:
    """Yield the pages of a round: each of a session, its first and its last thought."""
    for session in sessions_of_round(view, round_number, limit=ROUND_SESSIONS_MAX):
        for first in range(1, session["leaf_count"] + 1, PAGE_THOUGHTS):
            last = min(first + PAGE_THOUGHTS - 1, session["leaf_count"])
            yield session["session_id"], first, last


def _thoughts(view: LedgerView, session_id: str, first: int, last: int) -> list[Row]:
    where, count = {"session_id": session_id}, last - first + 1
    return view.tables.scan(TableQuery(schema.thought_records, where, after=first - 1, limit=count))


def _is_held(view: LedgerView, rows: list[Row]) -> bool:
    if not open_holds(view):
        return False
    return any(hold_on(view, content_commitment(row)) is not None for row in rows)


def _archive_contents(view: LedgerView, archive: Archive, rows: list[Row]) -> Iterator[str]:
    """Put the contents of thoughts into the archive and yield their commitments."""
    for commitment in dict.fromkeys(map(content_commitment, rows)):
        opening = view.blob_opening(commitment)
        if opening is None:
            if is_erased(view, commitment):
                # Of a process that was killed between an erasure and the archive.
                archive.erase_content(commitment)
            continue
        salt, content = opening
        text = _text_of(content)
        if text is not None and not _is_needed_elsewhere(view, commitment, content):
            archive.put_content(commitment, salt, text)
            yield commitment


def _text_of(content: bytes) -> str | None:
    try:
        return content.decode() if len(content) <= CONTENT_BYTES_MAX else None
    except UnicodeDecodeError:
        return None


def _is_needed_elsewhere(view: LedgerView, commitment: str, content: bytes) -> bool:
    answers = {"output_payload_blob_ref": commitment}
    return is_envelope(view, commitment, content) or bool(
        view.tables.scan(TableQuery(schema.recorded_model_outputs, answers, limit=1))
    )


def _page_id(session_id: str, first_sequence: int) -> str:
    return f"receipt:thoughts:{session_id}:{first_sequence}:archived"


def _round_id(round_number: int, receipt_kind: str) -> str:
    end = "archived" if receipt_kind == ROUND_ARCHIVED else "cold"
    return f"receipt:round:{round_number}:{end}"
