"""Takes the steps of archival, one after the other, each short enough for writers to wait (§17.7).

Long work, reading rows and writing to the archive, happens on a snapshot. The head is held while
the rows of one tile move, while the envelopes of one tile or the contents of one page of thoughts
go, and while a few free pages are cut off the file, and never in between. Any number of processes
may take steps at once: what one has done the others find done.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread

from actors.commit.work_units import ArchivalUnit, AuditUnit
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.tables import GivesSpaceBack
from kernel.retention.archival import (
    ArchivalStep,
    PreparedStep,
    Retention,
    prepare_step,
    take_step,
)
from kernel.retention.log_archival import next_segment, rows_of_segment
from kernel.values.errors import LedgerCorrupt
from kernel.values.model_registry import ActiveModels, ModelRegistry
from kernel.verify import Verification
from kernel.verify.recent import audit_rows
from kernel.verify.violation import record_violation
from workers.environment.settings import Settings

US_PER_DAY = 24 * 3600 * 1_000_000
PAGES_AT_ONCE = 128
"""Free pages that are cut off a file while its writers wait: a mebibyte."""
STEPS_AT_ONCE = 16
"""Steps that a call of a cron takes at most; 4,096 rows, or as many thoughts."""


@dataclass(frozen=True, slots=True)
class ArchivalDone:
    """What several steps have done."""

    rows_moved: int = 0
    envelopes_collected: int = 0
    contents_moved: int = 0
    """Contents of thoughts whose rounds are old enough."""

    thoughts_moved: int = 0
    """Thoughts whose records and nodes are cold."""

    operations_released: int = 0
    """Operations past the audit's horizon that no longer keep the answers that they name."""

    answers_collected: int = 0
    is_complete: bool = True
    """Whether nothing more was due."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What an operator keeps in the database, and for how long; see the settings of these names."""

    kernel_retention_days: int | None = None
    thought_rounds_kept: int | None = None
    thought_rounds_warm: int | None = None
    audit_horizon_days: int | None = None
    models: ModelRegistry | None = None

    def of(self, ledger: Ledger, *, days: int | None = None) -> Retention:
        """Return what stays in a ledger now; `days` stand for the setting where they are given.

        Where no place is named for an archive rows stay, however old; whoever gives days is refused
        by the archive.
        """
        if days is None and ledger.archive.is_configured:
            days = self.kernel_retention_days
        now_us = ledger.host.now_us()
        return Retention(
            rows_since_us=_before(now_us, days),
            rounds_kept=self.thought_rounds_kept,
            rounds_warm=self.thought_rounds_warm,
            audited_since_us=_before(now_us, self.audit_horizon_days),
            models=self.models,
        )


KEEPS_ALL = RetentionPolicy()


def retention_policy(settings: Settings) -> RetentionPolicy:
    """Return what an operator's settings say, where 0 days stand for never."""
    return RetentionPolicy(
        settings.kernel_retention_days or None,
        settings.thought_rounds_kept,
        settings.thought_rounds_warm,
        settings.audit_horizon_days or None,
        ActiveModels(settings.current_model_versions),
    )


def _before(now_us: int, days: int | None) -> int | None:
    return None if days is None else now_us - days * US_PER_DAY


def archive_steps(ledger: Ledger, retention: Retention) -> Iterator[ArchivalStep]:
    """Take one step after the other and yield each, until nothing is due.

    Raises:
        ArchiveUnavailable: the archive does not answer, or a segment is gone or another one;
            nothing is half done.
        LedgerCorrupt: a row or an envelope is not what its hash says; that is on the record then,
            and the row is quarantined, so that whoever asks again goes on with other steps.
    """
    prepare = _preparation(ledger, retention)
    # The snapshot has ended when the head is held.
    while (prepared := _prepare_step(ledger, prepare, retention)) is not None:
        with ledger.transaction() as transaction:
            step = take_step(transaction, prepared)
        _delete_erased(ledger, step)
        yield step


def _prepare_step(
    ledger: Ledger, prepare: Callable[[LedgerView], PreparedStep | None], retention: Retention
) -> PreparedStep | None:
    try:
        return ledger.read(prepare)
    except LedgerCorrupt:
        verification = ledger.read(partial(_damage, retention=retention))
        with ledger.transaction() as transaction:
            record_violation(transaction, verification, once=True)
        raise


def _damage(view: LedgerView, retention: Retention) -> Verification:
    """Look at the rows that are to be archived next, because what reads them gave up (§17.5)."""
    index = next_segment(view, retention.rows_since_us or 0, retention.hot_rows_min)
    return audit_rows(view, *((1, 0) if index is None else rows_of_segment(index)))


async def archive_some(
    ledger: Ledger, write: Callable[[Any], Awaitable[Any]], retention: Retention
) -> ArchivalDone:
    """Take a few of the steps that are due through a gateway's committer, off its event loop.

    The space is given back when all is done.

    Raises:
        ArchiveUnavailable, LedgerCorrupt: see `archive_steps`.
    """
    prepare = _preparation(ledger, retention)
    steps: list[ArchivalStep] = []
    is_complete = False
    while not is_complete and len(steps) < STEPS_AT_ONCE:
        try:
            prepared = await anyio.to_thread.run_sync(ledger.read, prepare)
        except LedgerCorrupt:
            damage = partial(_damage, retention=retention)
            await write(AuditUnit(await anyio.to_thread.run_sync(ledger.read, damage)))
            raise
        is_complete = prepared is None
        if prepared is not None:
            steps.append(await write(ArchivalUnit(prepared)))
            await anyio.to_thread.run_sync(_delete_erased, ledger, steps[-1])
    done = ArchivalDone(
        sum(step.rows_moved for step in steps),
        sum(step.envelopes_collected for step in steps),
        sum(step.contents_moved for step in steps),
        sum(step.thoughts_moved for step in steps),
        sum(step.operations_released for step in steps),
        sum(step.answers_collected for step in steps),
        is_complete=is_complete,
    )
    if is_complete and steps:
        await anyio.to_thread.run_sync(deque, give_space_back(ledger), 0)
    return done


def _preparation(
    ledger: Ledger, retention: Retention
) -> Callable[[LedgerView], PreparedStep | None]:
    return partial(
        prepare_step,
        archive=ledger.archive,
        retention=retention,
        now_us=ledger.host.now_us(),
    )


def _delete_erased(ledger: Ledger, step: ArchivalStep) -> None:
    """Delete what was erased while it was written to the archive."""
    for commitment in step.erased_meanwhile:
        ledger.archive.erase_content(commitment)


def give_space_back(ledger: Ledger) -> Iterator[int]:
    """Cut free pages off the ledger's file, a few at a time, and yield how many are left.

    Nothing to do where a server keeps the tables: it has its own way.
    """
    store = ledger.store
    if not isinstance(store, GivesSpaceBack):
        return
    left, before = store.give_space_back(PAGES_AT_ONCE), -1
    while left not in (0, before):
        yield left
        left, before = store.give_space_back(PAGES_AT_ONCE), left
