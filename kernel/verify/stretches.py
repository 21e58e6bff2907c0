"""Walks stretches of the log side by side, each by whoever has a snapshot of the same ledger.

The check of a row needs of the rows before it only what the last of them came to. So a stretch
begins with what the row in front of it states, and where the stretch before came to the same and
nothing was found in either, one walk along both would have found nothing. If anything was found the
stretches say no more than that: the log is then walked once from the beginning, so findings are the
same ones in the same order however many walked (decision kernel/0260).

A stretch's snapshot may be younger than the one that is verified. Rows of the log, of receipts,
of effects and of causes never change; what does, an answer or a payload, is then looked at as it
became.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Protocol

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.verify.log import LogCheck, LogState
from kernel.verify.reading import EnoughFindings, Findings, Reader, parts
from kernel.verify.records import check_row_answers

ROWS_MIN = 4_096
"""The fewest rows of a stretch: fewer are walked sooner than a process has begun."""


@dataclass(frozen=True, slots=True)
class LogStretch:
    """Rows of the log behind one sequence, up to another."""

    after: int
    last: int
    clock_us: int
    """The clock of the head; answers that were archived expired before it."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a stretch came to in which nothing was found."""

    begins: LogState
    ends: LogState
    answers: int


class Helpers(Protocol):
    """Who walks stretches meanwhile, each on a snapshot of its own that is not older than ours."""

    count: int
    """How many stretches at once."""

    rows_min: int
    """The fewest rows of a stretch; a shorter log is walked by who verifies it."""

    def begin(self, stretches: Sequence[LogStretch]) -> None:
        """Have the stretches walked, at most `count`."""

    def finish(self) -> list[Walked | None]:
        """Wait for the stretches, in their order; None where something was found.

        Raises:
            LedgerUnavailable: when the store went away meanwhile.
            VerificationProcessDied: when one of them will never be heard of.
        """


def stretches_of(rows: int, clock_us: int, count: int, rows_min: int) -> list[LogStretch]:
    """Part the rows of a log among so many; none where one would have too few."""
    parts = min(count, rows // max(1, rows_min))
    bounds = [rows * part // parts for part in range(parts + 1)] if parts else []
    return [LogStretch(after, last, clock_us) for after, last in pairwise(bounds)]


def walk(view: LedgerView, stretch: LogStretch, progress: Callable[[], None]) -> Walked | None:
    """Check the rows of a stretch and the answers to them; None where anything is found.

    Raises:
        LedgerUnavailable: when the store went away meanwhile.
    """
    findings = Findings(1)
    reader = Reader(view.tables, findings)
    with suppress(EnoughFindings), findings.guard(schema.kernel_event_log, stretch.after):
        log = LogCheck(reader)
        if stretch.after:
            row = reader.get(schema.kernel_event_log, stretch.after)
            if row is None:
                return None
            log.go_on_after(row)
        begins = log.state
        answers = 0
        rows = reader.pages(schema.kernel_event_log, after=stretch.after or None)
        own = takewhile(lambda row: row["ec_sequence_number"] <= stretch.last, rows)
        for part in parts(own):
            log.check(part, progress)
            answers += check_row_answers(reader, part, stretch.clock_us)
        if log.chain.is_settled and log.chain.last == stretch.last and not findings.entries:
            return Walked(begins, log.state, answers)
    return None


def join_states(walked: Sequence[Walked | None]) -> Walked | None:
    """Return what stretches came to together; None where they are not one walk."""
    whole: Walked | None = None
    for part in walked:
        if part is None or (whole is not None and not part.begins.goes_on(whole.ends)):
            return None
        if whole is None:
            whole = part
        else:
            ends = part.ends.add_counts(whole.ends)
            whole = Walked(whole.begins, ends, whole.answers + part.answers)
    return whole
