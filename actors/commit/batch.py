"""Runs callers' units one by one in one transaction of the committer, which is halved if it fails.

A unit that fails is undone alone. Some failures show only for the transaction as a whole: a value
that the store cannot hold is found when everything is written at the end, and anchoring is shared.
Unless the ledger itself has failed (`OF_THE_LEDGER`), one unit is to blame. So the transaction is
undone and its units are tried in halves, until a unit fails alone; that one is refused on the
record (`refusal_units.py`). A batch with one such unit takes about 2·log₂(n) transactions, a batch
of such units alone 2n. A caller's units may then be in several transactions; when the ledger fails
between two of them, the caller gets `actor_failed`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, cast

import anyio
import structlog

from actors.commit.belief_units import AnchorRefused, AnchorUnit
from actors.commit.recompute_units import RecomputeUnit, record_recomputes
from actors.commit.refusal_units import refuse
from actors.commit.unit_context import CommitContext, PendingBelief
from actors.commit.units import Unit
from actors.errors import ActorError, ActorFailed, StaleEpoch
from kernel.belief.errors import BeliefError
from kernel.ledger.shards import Fence
from kernel.ledger.store.tables import DuplicateKey
from kernel.rollback.errors import RollbackRefused
from kernel.values.errors import OF_THE_LEDGER, KernelError, TextNotStorable
from kernel.work.errors import WorkRefused

_VERDICTS = (ActorError, BeliefError, RollbackRefused, WorkRefused, KernelError, DuplicateKey)
"""Errors by which a unit refuses its request; after any other error it cannot be carried out."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Waiting:
    """Holds one caller's units, and their results once the batch ended."""

    units: Sequence[Unit]
    fence: Fence | None = None
    done: anyio.Event = field(default_factory=anyio.Event)
    results: list[Any] | None = None
    """The results of the units whose outcome is durable, in order."""

    error: Exception | None = None

    @property
    def is_settled(self) -> bool:
        """Whether every unit has its result, or the caller an error."""
        has_all = self.results is not None and len(self.results) == len(self.units)
        return has_all or self.error is not None

    def fail(self, error: Exception) -> None:
        """Fail the caller: nothing was written, or `ActorFailed` if some of its units were."""
        if self.results:
            error = ActorFailed(f"what was written is on the record: {error}")
        self.results, self.error = None, error


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Consecutive units of one caller that are written in one transaction."""

    waiting: Waiting
    first: int
    end: int
    cause: Exception | None = None
    """Why the one unit is not run but refused: it failed alone, whatever carried it out."""

    @property
    def units(self) -> Sequence[Unit]:
        """What the transaction runs of the caller, in the caller's order."""
        return self.waiting.units[self.first : self.end]

    def settle(self, outcome: list[Any] | StaleEpoch) -> None:
        """Take over the results of the units, which are durable."""
        waiting = self.waiting
        if isinstance(outcome, StaleEpoch):
            waiting.results, waiting.error = None, outcome
        elif waiting.error is None:
            waiting.results = [*(waiting.results or ()), *outcome]


Outcomes = list[list[Any] | StaleEpoch]
"""The results of each part of a transaction."""


def whole(batch: Sequence[Waiting]) -> list[BatchPart]:
    """Return everything that callers wait for."""
    return [BatchPart(waiting, 0, len(waiting.units)) for waiting in batch]


def units_of(parts: Sequence[BatchPart]) -> Iterator[Unit]:
    """Yield the units of parts, in order."""
    return (unit for part in parts for unit in part.units)


def halve(parts: list[BatchPart]) -> list[list[BatchPart]]:
    """Cut parts in two, to be written in this order; a single unit stays whole."""
    if len(parts) > 1:
        middle = len(parts) // 2
        return [parts[:middle], parts[middle:]]
    [part] = parts
    if len(part.units) < 2:
        return [parts]
    middle = (part.first + part.end) // 2
    return [[replace(part, end=middle)], [replace(part, first=middle)]]


def split_failed(parts: list[BatchPart], cause: Exception) -> list[list[BatchPart]]:
    """Cut parts that failed in two, or mark a single unit as refused.

    Raises:
        Exception: the cause, where there is no unit to blame.
    """
    halves = halve(parts)
    if len(halves) > 1:
        return halves
    [part] = parts
    if not part.units or part.cause is not None:
        raise cause
    return [[replace(part, cause=cause)]]


def run_units(part: BatchPart, context: CommitContext) -> list[Any]:
    """Run the units of a part, each under a savepoint; one that failed has its error as result.

    Recomputes that follow one another are recorded in pages.
    """
    if part.cause is not None:
        return [refuse(context, unit, part.cause) for unit in part.units]

    results: list[Any] = []
    for kind, units in groupby(part.units, key=type):
        if kind is RecomputeUnit:
            alone = partial(run_unit, context)
            results += record_recomputes(cast("list[RecomputeUnit]", [*units]), context, alone)
        else:
            results += [run_unit(context, unit) for unit in units]
    return results


def anchor(outcomes: Outcomes, context: CommitContext) -> None:
    """Record and anchor the pending events of belief sessions, and fill in their outcomes.

    Raises:
        Exception: one of several sessions failed the anchor of all.
    """
    pending = context.pending_belief
    if not pending:
        return
    error = None
    if len(pending) == 1:
        error = run_unit(context, pending[0].batches[0], AnchorUnit().run)
    else:
        try:
            with context.transaction.savepoint():
                AnchorUnit().run(context)
        except AnchorRefused as refused:
            if not refused.may_pass:
                raise
            error = refused
    for outcome in outcomes:
        if isinstance(outcome, list):
            outcome[:] = [
                (result.outcome if error is None else error)
                if isinstance(result, PendingBelief)
                else result
                for result in outcome
            ]


def run_unit(
    context: CommitContext, unit: Any, run: Callable[[CommitContext], Any] | None = None
) -> Any:
    """Run a unit under a savepoint, and return its result or its error.

    `run` is what is done instead of the unit itself, which is refused where that fails.
    """
    try:
        with context.transaction.savepoint():
            return unit.run(context) if run is None else run(context)
    except OF_THE_LEDGER:
        raise
    except TextNotStorable as error:
        return refuse(context, unit, error)
    except _VERDICTS as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this unit's
        _log.exception("unit_failed", unit=type(unit).__name__)
        return refuse(context, unit, error)


def fail_unsettled(batch: Sequence[Waiting], error: Exception) -> None:
    """Fail every caller whose units are not all durable."""
    for waiting in batch:
        if not waiting.is_settled:
            waiting.fail(error)


def answer_all(batch: Sequence[Waiting], error: Exception) -> None:
    """Fail every caller: nothing of theirs was begun, or the outcome is unknown."""
    for waiting in batch:
        waiting.results, waiting.error = None, error
        waiting.done.set()
