"""Verifies segments of the archive: each file is there, is the named one, holds its tile's rows.

The index beside the segments is held to the rows in them, and each envelope to its commitment. What
the rows say, that they follow each other and that the tree is theirs, the walk along the log
checks, which reads them as rows like any other; that the segments are those of the record, the fold
of the receipts.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from kernel.ledger import schema
from kernel.ledger.archive import Archive, ArchiveUnavailable
from kernel.ledger.archive_segment import SEGMENT_ROWS, Segment, SegmentRow
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.values.errors import LedgerUnavailable
from kernel.verify.log import keeps_commitment
from kernel.verify.model_outputs import erased_payloads
from kernel.verify.reading import (
    LIMIT_FINDINGS,
    EnoughFindings,
    Finding,
    Findings,
    Reader,
    Rule,
    load_object,
    printable,
)
from kernel.verify.thought_segments import (
    check_thought_segments,
    thoughts_of_all,
    unreadable_rule,
)

_SEGMENTS, _INDEX = schema.archive_segments, schema.archived_rows
_RULES_OF_CONTENTS: Mapping[str, Rule] = MappingProxyType(
    {"archived_content_missing": "missing", "archived_content_damaged": "bytes_changed"}
)
"""Likewise of a content."""

_REPEATED = (
    "operation_id",
    "envelope_payload_blob_ref",
    "semantic_intent",
    "session_id",
    "commit_epoch_id",
    "committed_at",
)
"""Columns of the index that repeat a field of the row; null where it has none."""


@dataclass(frozen=True, slots=True)
class ArchiveCheck:
    """How many rows lie in segments, and whether all of them can be read."""

    rows: int
    is_readable: bool


@dataclass(frozen=True, slots=True)
class ArchiveVerification:
    """What was found in the archive by itself."""

    segments: int
    rows: int
    contents: int
    """Contents of thoughts that were read."""

    thought_segments: int
    """Files with records of cold thoughts."""

    files_of_no_segment: int
    """Files that the ledger does not name: of an archival that was interrupted, or other people's.
    They are not read, and nobody removes them."""

    findings: tuple[Finding, ...]


def verify_archive(view: LedgerView, progress: Callable[[int], None]) -> ArchiveVerification:
    """Read every segment, as `check_archive` does, and every content of a thought that is there.

    At most so many findings are named as by `verify`.

    Raises:
        LedgerUnavailable: the archive does not answer.
    """
    findings = Findings(LIMIT_FINDINGS)
    reader = Reader(view.tables, findings)
    rows = strangers = 0
    contents: set[str] = set()
    with suppress(EnoughFindings):
        rows = check_archive(reader, view.archive, progress).rows
        check_thought_segments(reader, view.archive)
        contents |= _check_contents(reader, view.archive)
    cold = {
        row["content_hash"]
        for row in reader.pages(schema.thought_segments, order_by="content_hash")
    }
    if rows or contents or cold:
        named = contents | cold | {row["content_hash"] for row in reader.pages(_SEGMENTS)}
        strangers = sum(name not in named for name in view.archive.files.names())
    return ArchiveVerification(
        rows // SEGMENT_ROWS, rows, len(contents), len(cold), strangers, tuple(findings.entries)
    )


class ArchivedNames:
    """The names of what lies in an archive, listed once somebody asks for one."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._names: frozenset[object] | None = None

    def __contains__(self, name: object) -> bool:
        """Tell whether there is such a file; where no archive is named there is none.

        Raises:
            LedgerUnavailable: the archive does not answer.
        """
        if self._names is None:
            is_configured = self._archive.is_configured
            try:
                names = self._archive.files.names() if is_configured else ()
                self._names = frozenset(names)
            except ArchiveUnavailable as error:
                raise LedgerUnavailable(str(error), code=error.code) from error
        return name in self._names


def _check_contents(reader: Reader, archive: Archive) -> set[str]:
    """Read what thoughts commit to and the blobs do not have; return the commitments.

    Raises:
        LedgerUnavailable: the archive does not answer.
    """
    contents: set[str] = set()
    erased = erased_payloads(reader)
    for row in thoughts_of_all(reader):
        commitment = str((load_object(row["record_bytes"]) or {}).get("content_commitment"))
        if commitment in erased or reader.get(schema.blobs, commitment) is not None:
            continue
        contents.add(commitment)
        with reader.findings.guard(schema.blobs, commitment):
            try:
                archive.content(commitment)
            except ArchiveUnavailable as error:
                rule = unreadable_rule(error, _RULES_OF_CONTENTS)
                reader.findings.add(schema.blobs, commitment, rule, str(error))
    return contents


def check_archive(
    reader: Reader, archive: Archive, progress: Callable[[int], None] = lambda _: None
) -> ArchiveCheck:
    """Read every segment from the archive and note what is wrong with it.

    `progress` is told how many rows were read.

    Raises:
        LedgerUnavailable: the archive does not answer, which says nothing about a segment.
    """
    rows, is_readable = 0, True
    for row in reader.pages(_SEGMENTS):
        index = row["segment_index"]
        with reader.findings.guard(_SEGMENTS, index):
            if index * SEGMENT_ROWS != rows:
                message = f"row {rows + 1} of the log is in no segment"
                reader.findings.add(_SEGMENTS, index, "gap", message)
                is_readable = False
            segment = _read(reader, archive, row)
            is_readable = is_readable and segment is not None
            if segment is not None:
                _check_segment(reader, row, segment)
        rows += SEGMENT_ROWS
        progress(rows)
    _check_extra(reader, rows)
    return ArchiveCheck(rows, is_readable)


def _read(reader: Reader, archive: Archive, row: Row) -> Segment | None:
    """Return what lies in the archive under a segment's hash; None where that is a finding."""
    index = row["segment_index"]
    first = index * SEGMENT_ROWS + 1
    place = f"rows {first} to {first + SEGMENT_ROWS - 1} of the log"
    try:
        segment = archive.read(str(row["content_hash"]))
    except ArchiveUnavailable as error:
        reader.findings.add(_SEGMENTS, index, unreadable_rule(error), f"{place}: {error}")
        return None
    if segment.first_sequence != first or len(segment.rows) != SEGMENT_ROWS:
        message = f"the file holds {len(segment.rows)} rows from {segment.first_sequence} on"
        reader.findings.add(_SEGMENTS, index, "segment_damaged", f"{place}: {message}")
        return None
    return segment


def _check_segment(reader: Reader, row: Row, segment: Segment) -> None:
    index, findings = row["segment_index"], reader.findings
    envelopes = sum(held.salt is not None for held in segment.rows)
    for name, actual in (("stored_bytes", segment.stored_bytes), ("envelopes", envelopes)):
        if row[name] != actual:
            message = f"{name} is {printable(row[name])}, the file has {actual}"
            findings.add(_SEGMENTS, index, "column_differs", message)
    stored = {entry["ec_sequence_number"]: entry for entry in _index_of(reader, segment)}
    for place, held in enumerate(segment.rows):
        sequence = segment.first_sequence + place
        _check_row(reader, index, sequence, stored.get(sequence), held)


def _index_of(reader: Reader, segment: Segment) -> Iterator[Row]:
    first = segment.first_sequence
    for row in reader.pages(_INDEX, after=first - 1, page_rows=SEGMENT_ROWS + 1):
        if row["ec_sequence_number"] >= first + SEGMENT_ROWS:
            return
        yield row


def _check_row(
    reader: Reader, index: int, sequence: int, entry: Row | None, held: SegmentRow
) -> None:
    if entry is None:
        message = f"the segment {index} holds row {sequence}"
        reader.findings.add(_INDEX, sequence, "missing", message)
        return
    document = load_object(held.row_bytes) or {}
    stated = {name: _text(document.get(name)) for name in _REPEATED}
    superseded = document.get("supersedes")
    place = superseded.get("ec_sequence_number") if isinstance(superseded, dict) else "0"
    differing = {
        name: value
        for name, value in {**stated, "supersedes_sequence": _number(place)}.items()
        if entry[name] != value
    }
    for name, value in differing.items():
        message = f"{name} is {printable(entry[name])}, the row says {printable(value)}"
        reader.findings.add(_INDEX, sequence, "column_differs", message)
        return
    blob = {"blob_ref": stated["envelope_payload_blob_ref"], **held._asdict()}
    if held.salt is not None and not keeps_commitment(blob):
        message = f"the envelope of row {sequence} does not keep its commitment"
        reader.findings.add(_SEGMENTS, index, "segment_damaged", message)


def _check_extra(reader: Reader, rows: int) -> None:
    """Name what the index has of rows that no segment holds."""
    if reader.count(_INDEX) == rows:
        return
    for row in reader.pages(_INDEX):
        if not 0 < row["ec_sequence_number"] <= rows:
            message = "no segment holds this row"
            reader.findings.add(_INDEX, row["ec_sequence_number"], "extra", message)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else None
