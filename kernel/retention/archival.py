"""Takes the steps of archival: the long ones on a snapshot, the rest in one transaction.

Old rows of the log are moved first, then envelopes are collected (`log_archival.py`), then contents
of thoughts are moved (`thought_contents.py`) and then their records and trees
(`thought_records.py`), then answers of models are released and collected (`model_retention.py`).
Of two processes that prepare the same step the second one finds it taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kernel.ledger.archive import Archive
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.retention.log_archival import (
    HOT_ROWS_MIN,
    ReadSegment,
    WrittenSegment,
    collect_envelopes,
    move_rows,
    next_segment,
    next_to_collect,
    read_segment,
    write_segment,
)
from kernel.retention.model_retention import (
    DueAnswers,
    PastSegment,
    collect_answers,
    due_answers,
    next_past_segment,
    read_past_segment,
    release_segment,
)
from kernel.retention.thought_contents import (
    FinishedRound,
    WrittenContents,
    finish_round,
    move_contents,
    prepare_contents,
)
from kernel.retention.thought_records import WrittenRecords, move_records, prepare_records
from kernel.values.model_registry import ModelRegistry

PreparedStep = (
    WrittenSegment
    | ReadSegment
    | PastSegment
    | DueAnswers
    | WrittenContents
    | WrittenRecords
    | FinishedRound
)


@dataclass(frozen=True, slots=True)
class Retention:
    """What stays in the database."""

    rows_since_us: int | None = None
    """Rows of the log committed before are old; None keeps all of them."""

    rounds_kept: int | None = None
    """So many rounds that were sealed last keep the contents of their thoughts; None: all do."""

    rounds_warm: int | None = None
    """So many rounds that were sealed last keep records and trees of thoughts; None: all do."""

    audited_since_us: int | None = None
    """Archived rows committed before are past the audit's horizon; None: none of them is."""

    models: ModelRegistry | None = None
    """Which models are in use; None collects no answer."""

    hot_rows_min: int = HOT_ROWS_MIN
    """So many of the newest rows stay, however old."""


@dataclass(frozen=True, slots=True)
class ArchivalStep:
    """What one step has done."""

    rows_moved: int = 0
    envelopes_collected: int = 0
    contents_moved: int = 0
    thoughts_moved: int = 0
    operations_released: int = 0
    answers_collected: int = 0
    erased_meanwhile: tuple[str, ...] = ()
    """Commitments whose contents have to be deleted from the archive again."""


def prepare_step(
    view: LedgerView, archive: Archive, retention: Retention, now_us: int
) -> PreparedStep | None:
    """Do what takes long of the next step that is due, None where none is.

    Raises:
        ArchiveUnavailable: the archive does not answer, or gives back something else.
        LedgerCorrupt: a row or an envelope is not what its hash says.
    """
    if retention.rows_since_us is not None:
        index = next_segment(view, retention.rows_since_us, retention.hot_rows_min)
        if index is not None:
            return write_segment(view, archive, index)
        index = next_to_collect(view, max(now_us, view.head().committed_at_us))
        if index is not None:
            return read_segment(view, archive, index)
    if archive.is_configured:
        thoughts = _prepare_thoughts(view, archive, retention)
        if thoughts is not None:
            return thoughts
    # Answers are looked for last: that reads each receipt by which one was released.
    return _prepare_answers(view, retention, now_us)


def _prepare_answers(
    view: LedgerView, retention: Retention, now_us: int
) -> PastSegment | DueAnswers | None:
    """Return what is to be done about the answers of models (§6.5)."""
    if retention.audited_since_us is not None:
        index = next_past_segment(view, retention.audited_since_us)
        if index is not None:
            return read_past_segment(view, index)
    return None if retention.models is None else due_answers(view, retention.models, now_us)


def _prepare_thoughts(
    view: LedgerView, archive: Archive, retention: Retention
) -> WrittenContents | WrittenRecords | FinishedRound | None:
    """Do what takes long of the next contents or records that are due."""
    if retention.rounds_kept is not None:
        contents = prepare_contents(view, archive, retention.rounds_kept)
        if contents is not None:
            return contents
    if retention.rounds_warm is None:
        return None
    return prepare_records(view, archive, retention.rounds_warm)


def take_step(transaction: LedgerTransaction, prepared: PreparedStep) -> ArchivalStep:
    """Write what was prepared; nothing where others have done it."""
    return _TAKEN[type(prepared)](transaction, prepared)


def _contents(transaction: LedgerTransaction, written: WrittenContents) -> ArchivalStep:
    moved = move_contents(transaction, written)
    return ArchivalStep(contents_moved=moved.moved, erased_meanwhile=moved.erased_meanwhile)


def _answers(transaction: LedgerTransaction, due: DueAnswers) -> ArchivalStep:
    return ArchivalStep(answers_collected=len(collect_answers(transaction, due)))


def _finish_step(transaction: LedgerTransaction, finished: FinishedRound) -> ArchivalStep:
    finish_round(transaction, finished)
    return ArchivalStep()


_TAKEN: Mapping[type, Callable[[LedgerTransaction, Any], ArchivalStep]] = MappingProxyType(
    {
        WrittenSegment: lambda transaction, prepared: ArchivalStep(
            rows_moved=move_rows(transaction, prepared)
        ),
        ReadSegment: lambda transaction, prepared: ArchivalStep(
            envelopes_collected=collect_envelopes(transaction, prepared)
        ),
        PastSegment: lambda transaction, prepared: ArchivalStep(
            operations_released=release_segment(transaction, prepared)
        ),
        DueAnswers: _answers,
        WrittenContents: _contents,
        WrittenRecords: lambda transaction, prepared: ArchivalStep(
            thoughts_moved=move_records(transaction, prepared)
        ),
        FinishedRound: _finish_step,
    }
)
"""What each step writes."""
