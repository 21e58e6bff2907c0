"""Tells whether what is answered was read from the archive, in part at least.

A door begins an answer; whatever reads the record for it notes what came from there, in the same
task or in a thread that the task waits for; the door says so with its answer.
"""

from contextvars import ContextVar
from dataclasses import dataclass

from kernel.records.access.readable_view import ReadableView

HEADER = "Rotulus-Storage"
ARCHIVE = "archive"


@dataclass(slots=True)
class ColdReads:
    """What is known of one answer."""

    was_archive_read: bool = False


_answer: ContextVar[ColdReads | None] = ContextVar("rotulus_cold_reads", default=None)


def begin_answer() -> ColdReads:
    """Begin an answer of this task, of which nothing was read yet."""
    reads = ColdReads()
    _answer.set(reads)
    return reads


def note_archive_read() -> None:
    """Note that the archive was read for the answer that was begun, if one was."""
    reads = _answer.get()
    if reads is not None:
        reads.was_archive_read = True


def was_archive_read() -> bool:
    """Tell whether the archive was read for the answer that was begun."""
    reads = _answer.get()
    return reads is not None and reads.was_archive_read


def is_archived(view: ReadableView, target: str | tuple[int, int]) -> bool:
    """Tell whether an operation, or the first of a range, lies in the archive."""
    if isinstance(target, tuple):
        return view.archived_at_us(target[0]) is not None
    row = view.log_row_of(target)
    return row is not None and view.archived_at_us(row["ec_sequence_number"]) is not None
