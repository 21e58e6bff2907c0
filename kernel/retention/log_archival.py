"""Moves old rows of the log into segments of the archive, tile by tile (§17.7).

1. *Written.* The file of a segment is put into the archive and read back from there.
2. *Moved.* In one transaction the index of its rows and the segment's row are written, a durable
   receipt says so, and the rows leave the log.
3. *Collected.* Seven days later the file is read once more, and the envelopes, to which no row of
   the log refers any longer, leave the blobs. A receipt says that too.

A step that was interrupted is taken again and comes to the same: the file has the name of its
content, and of two that move the same rows the second finds them moved. Segments follow each other
without a gap. The newest rows stay, however old they are: what a submission looks back at is never
in the archive.

Moving a row releases nothing that it refers to: an operation whose envelope is in the archive is
replayed and verified as before. Another fact ends the references to a model's answer, the end of
the audit's horizon (`kernel/retention/model_retention.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kernel.ledger import schema
from kernel.ledger.archive import Archive
from kernel.ledger.archive_segment import (
    SEGMENT_ROWS,
    SegmentRow,
    content_hash_of,
    first_sequence_of,
    pack_segment,
)
from kernel.ledger.blob_commitment import blob_commitment
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.receipt import Receipt
from kernel.proof.merkle_tree import leaf_hash
from kernel.proof.tiles import hashes_of
from kernel.values.errors import LedgerCorrupt
from kernel.values.host import parse_time_us

ARCHIVED = "log_segment_archived"
COLLECTED = "log_segment_collected"
GRACE_US = 7 * 24 * 3600 * 1_000_000
"""For how long the envelopes of archived rows stay in the database as well (§17.1)."""

HOT_ROWS_MIN = 1024
"""So many of the newest rows are not archived."""


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A segment that lies in the archive, and whose rows are to be moved."""

    segment_index: int
    content_hash: str
    stored_bytes: int
    blob_refs: frozenset[str]
    """The commitments of the envelopes that it holds."""


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """A segment that was read whole from the archive, and whose envelopes are to be collected."""

    segment_index: int
    content_hash: str
    blob_refs: frozenset[str]


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    """How much lies in the archive, and what is still in the database."""

    segments: int
    rows_archived: int
    rows_in_database: int
    stored_bytes: int
    """Of the files in the archive."""

    segments_to_collect: int
    """Whose envelopes are still in the database as well."""

    oldest_in_database: str | None
    """When the oldest row was committed that is not archived."""


def archive_status(view: LedgerView) -> ArchiveStatus:
    """Return how much lies in the archive; linear in the number of segments."""
    rows = view.tables.scan(TableQuery(schema.archive_segments))
    archived = len(rows) * SEGMENT_ROWS
    oldest = view.log_entries(after=archived, limit=1)
    return ArchiveStatus(
        len(rows),
        archived,
        view.head().ec_sequence_number - archived,
        sum(row["stored_bytes"] for row in rows),
        sum(not row["collected"] for row in rows),
        oldest[0].committed_at if oldest else None,
    )


def next_segment(view: LedgerView, before_us: int, hot_rows_min: int = HOT_ROWS_MIN) -> int | None:
    """Return the segment whose rows were all committed before a time, None where none is due.

    None as well while a row of it is quarantined: where it lies it is looked at.
    """
    newest = view.tables.scan(TableQuery(schema.archive_segments, descending=True, limit=1))
    index = newest[0]["segment_index"] + 1 if newest else 0
    last = first_sequence_of(index) + SEGMENT_ROWS - 1
    if last > view.head().ec_sequence_number - hot_rows_min:
        return None
    # Commit times rise with the sequence.
    row = view.log_row_at(last)
    is_due = row is not None and parse_time_us(row["committed_at"]) < before_us
    if not is_due or view.quarantines().over(first_sequence_of(index), last) is not None:
        return None
    return index


def rows_of_segment(segment_index: int) -> tuple[int, int]:
    """Return the first and the last row of a segment."""
    first = first_sequence_of(segment_index)
    return first, first + SEGMENT_ROWS - 1


def write_segment(view: LedgerView, archive: Archive, segment_index: int) -> WrittenSegment:
    """Put the file of a segment into the archive, and read it back.

    Raises:
        ArchiveUnavailable: the archive does not answer; what it has by now harms nobody.
        LedgerCorrupt: a row or an envelope is not what its hash says.
    """
    rows, held = _rows_with_openings(view, segment_index)
    content = pack_segment(segment_index, held)
    content_hash = content_hash_of(content)
    archive.files.put(content_hash, content)
    if archive.read(content_hash).rows != tuple(held):
        raise LedgerCorrupt(f"the segment {content_hash} is read back otherwise")
    return WrittenSegment(segment_index, content_hash, len(content), _refs_of(rows, held))


def move_rows(transaction: LedgerTransaction, written: WrittenSegment) -> int:
    """Move the rows of a written segment out of the log and return their number.

    0 where others have moved them.
    """
    tables, first = transaction.tables, first_sequence_of(written.segment_index)
    if tables.get(schema.archive_segments, written.segment_index) is not None:
        return 0
    for row in transaction.log_rows(after=first - 1, limit=SEGMENT_ROWS):
        tables.append(
            schema.archived_rows, {name: row[name] for name in column_names(schema.archived_rows)}
        )
        tables.delete(schema.kernel_event_log, row["ec_sequence_number"])
    transaction.next_commit_time_us()
    _append(
        transaction,
        ARCHIVED,
        {
            "segment_index": str(written.segment_index),
            "first_sequence": str(first),
            "last_sequence": str(first + SEGMENT_ROWS - 1),
            "content_hash": written.content_hash,
            "stored_bytes": written.stored_bytes,
            "envelopes": len(written.blob_refs),
        },
    )
    return SEGMENT_ROWS


def next_to_collect(view: LedgerView, now_us: int) -> int | None:
    """Return the first segment whose envelopes are still in the blobs after their grace."""
    rows = view.tables.scan(TableQuery(schema.archive_segments, {"collected": 0}, limit=1))
    if not rows or now_us - rows[0]["archived_at_us"] < GRACE_US:
        return None
    return int(rows[0]["segment_index"])


def read_segment(view: LedgerView, archive: Archive, segment_index: int) -> ReadSegment:
    """Read a segment from the archive as it lies there now, and hold every envelope to its row.

    Raises:
        ArchiveUnavailable: the archive does not answer, lacks the file, or has another one.
        LedgerCorrupt: a row or an envelope in it is not what its hash says.
    """
    row = view.tables.get(schema.archive_segments, segment_index)
    if row is None:
        raise LedgerCorrupt(f"nobody knows the segment {segment_index}")
    segment, first = archive.read(row["content_hash"]), first_sequence_of(segment_index)
    rows = view.tables.scan(TableQuery(schema.archived_rows, after=first - 1, limit=SEGMENT_ROWS))
    check_rows(view, segment_index, rows, segment.rows)
    return ReadSegment(segment_index, row["content_hash"], _refs_of(rows, segment.rows))


def collect_envelopes(transaction: LedgerTransaction, read: ReadSegment) -> int:
    """Delete the envelopes of a segment from the blobs and return their number.

    0, and nothing deleted, where others have done it or the segment has another file by now.
    """
    row = transaction.tables.get(schema.archive_segments, read.segment_index)
    if row is None or row["collected"] or row["content_hash"] != read.content_hash:
        return 0
    for blob_ref in read.blob_refs:
        transaction.drop_blob(blob_ref)
    transaction.next_commit_time_us()
    body = {"segment_index": str(read.segment_index), "content_hash": read.content_hash}
    _append(transaction, COLLECTED, body)
    return len(read.blob_refs)


def apply_archival(transaction: LedgerTransaction, body: Document) -> None:
    """Write what a receipt says of a segment; verification makes the same rows of it."""
    transaction.tables.put(
        schema.archive_segments,
        {
            "segment_index": int(body["segment_index"]),
            "content_hash": body["content_hash"],
            "stored_bytes": body["stored_bytes"],
            "envelopes": body["envelopes"],
            "collected": 0,
            "archived_at_us": transaction.head_now.committed_at_us,
        },
    )


def apply_collection(transaction: LedgerTransaction, body: Document) -> None:
    """Write that a segment's envelopes are collected."""
    key = (int(body["segment_index"]),)
    transaction.tables.update(schema.archive_segments, key, {"collected": 1})


SEGMENT_WRITES: Mapping[str, Callable[[LedgerTransaction, Document], None]] = MappingProxyType(
    {ARCHIVED: apply_archival, COLLECTED: apply_collection}
)
"""By the kind of receipt."""


def _append(transaction: LedgerTransaction, kind: str, body: Document) -> None:
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, Receipt(kind, body), None)
    SEGMENT_WRITES[kind](transaction, body)


def _refs_of(rows: Sequence[Row], held: Sequence[SegmentRow]) -> frozenset[str]:
    """Return the commitments of the envelopes that a segment holds."""
    pairs = zip(rows, held, strict=True)
    return frozenset(row["envelope_payload_blob_ref"] for row, opened in pairs if opened.salt)


def _rows_with_openings(view: LedgerView, segment_index: int) -> tuple[list[Row], list[SegmentRow]]:
    """Return the rows of a segment that is not archived, and each with its envelope."""
    first = first_sequence_of(segment_index)
    rows = view.log_rows(after=first - 1, limit=SEGMENT_ROWS)
    openings = [view.blob_opening(row["envelope_payload_blob_ref"]) for row in rows]
    held = [
        SegmentRow(bytes(row["row_bytes"]), *(opening or (None, None)))
        for row, opening in zip(rows, openings, strict=True)
    ]
    check_rows(view, segment_index, rows, held)
    return rows, held


def check_rows(
    view: LedgerView, segment_index: int, rows: Sequence[Row], held: Sequence[SegmentRow]
) -> None:
    """Refuse rows that are not those of the tree's tile, or an envelope that is not its row's.

    Raises:
        LedgerCorrupt: naming the first row that does not fit.
    """
    tile = view.tables.get(schema.tree_tiles, 0, segment_index)
    leaves = [] if tile is None else hashes_of(tile["hashes"])
    if not len(leaves) == len(rows) == len(held) == SEGMENT_ROWS:
        raise LedgerCorrupt(f"the segment {segment_index} lacks rows")
    for row, opened, leaf in zip(rows, held, leaves, strict=True):
        sequence, blob_ref = row["ec_sequence_number"], row["envelope_payload_blob_ref"]
        if leaf_hash(opened.row_bytes) != leaf:
            raise LedgerCorrupt(f"row {sequence} is not the one that the log's tree holds")
        if opened.salt is None or opened.content is None:
            continue
        if blob_commitment(opened.salt, opened.content) != blob_ref:
            raise LedgerCorrupt(f"the envelope of row {sequence} does not keep its commitment")
