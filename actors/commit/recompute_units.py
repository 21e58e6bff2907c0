"""Recomputes that arrive together are recorded in pages, each page by one operation (K32).

A page has one visibility class, because its taint would raise a less restricted understanding; and
one session, actor, moment, urgency and attempt, because each is stated once of it. It ends where an
envelope has no room: for effects, for causes, for the inputs that it names (decision kernel/0250).

A page that is refused, or that cannot be carried out, is undone and taken apart: its recomputes are
recorded one by one, so that whatever is wrong with one is answered to that one alone. A page is put
off as a whole.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import structlog

from actors.commit.unit_context import CommitContext
from actors.orchestrator.intents import Intent, RecalculateAuthority, RecalculatePage
from kernel.authority.requests import Due, RecomputeReadiness, due
from kernel.authority.triggers import ENQUEUED_KINDS, MIGRATION
from kernel.ledger.ledger import LedgerView
from kernel.model.envelope import MAX_CAUSAL_PARENTS
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.records.sources import class_of_nodes
from kernel.values.canonical import digest
from kernel.values.errors import OF_THE_LEDGER
from kernel.work.attempts import keep_success
from kernel.work.reports import SuccessfulAttempt

PAGE_MAX = 64
"""Recomputes in a page; an envelope has room for 85 with three effects each."""

INPUTS_MAX = 2048
"""Inputs that the recomputes of a page name together."""

RecomputeOutcome = Literal["completed", "closed", "input_pending", "rejected"]
Recorded = tuple[RecomputeOutcome, SubmissionResult | RejectedResult | None]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecomputeUnit:
    """Record an authority that a worker computed, if it is still asked for."""

    intent: RecalculateAuthority
    session_id: str | None
    attempt: SuccessfulAttempt | None = None
    """Of the worker that has computed it, together with others."""

    def run(self, context: CommitContext) -> Recorded:
        """Submit it when it is due; a late or early one leaves no trace."""
        state = self.due(context.transaction)
        answer = _NOT_DUE.get(state.readiness)
        if answer is not None:
            return answer
        return _outcome_of(_submit(context, [self], _actor_of(state)))

    def due(self, view: LedgerView) -> Due:
        """Return whether it may be recorded now, and what it would answer."""
        return due(view, self.intent.target_cu_id, self.intent.as_of_sequence)


_NOT_DUE: dict[RecomputeReadiness, Recorded] = {
    RecomputeReadiness.CLOSED: ("closed", None),
    RecomputeReadiness.INPUT_PENDING: ("input_pending", None),
}


class _Kind(NamedTuple):
    """What the recomputes of a page have in common."""

    session_id: str | None
    as_of_sequence: int
    actor: str
    priority: str | None
    visibility_class: str
    attempt: SuccessfulAttempt | None
    alone: int
    """Its own number where a node that it names is gone; 0 where all are there."""


@dataclass(slots=True)
class _Page:
    """Recomputes that are recorded together, by their places among all."""

    places: list[int] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)
    causes: set[str] = field(default_factory=set)
    inputs: int = 0

    def takes(self, target: str, causes: set[str], inputs: int) -> bool:
        """Add a recompute's needs, if there is room."""
        fits = (
            len(self.places) < PAGE_MAX
            and target not in self.targets
            and len(self.causes | causes) <= MAX_CAUSAL_PARENTS
            and self.inputs + inputs <= INPUTS_MAX
        )
        if not self.places or fits:
            self.targets.add(target)
            self.causes |= causes
            self.inputs += inputs
            return True
        return False


def record_recomputes(
    units: Sequence[RecomputeUnit],
    context: CommitContext,
    run_alone: Callable[[RecomputeUnit], Any],
) -> list[Any]:
    """Record recomputes in pages and return what came of each, in order.

    `run_alone` runs one under a savepoint of its own and answers its error.
    """
    results: dict[int, Any] = {}
    since = context.orchestrator.causes_since()
    for places in _pages(units, context.transaction, since):
        page = [units[place] for place in places]
        recorded = _record_page(page, context) if len(page) > 1 else None
        for place, unit in zip(places, page, strict=True):
            results[place] = run_alone(unit) if recorded is None else recorded
    return [results[place] for place in range(len(units))]


def _pages(units: Sequence[RecomputeUnit], view: LedgerView, since: str) -> Iterator[list[int]]:
    """Cut recomputes into pages, each to be recorded before the next is asked for.

    One that is not due, or whose target is in the page already, is not in that page.
    """
    open_pages: dict[_Kind, _Page] = {}
    for place, unit in enumerate(units):
        intent, state = unit.intent, unit.due(view)
        if state.readiness is not RecomputeReadiness.READY:
            yield [place]
            continue
        refs = [intent.target_cu_id, *_inputs_of(intent)]
        visibility_class = class_of_nodes(view, refs)
        kind = _Kind(
            unit.session_id,
            intent.as_of_sequence,
            _actor_of(state),
            state.most_urgent,
            visibility_class or "",
            unit.attempt,
            0 if visibility_class else place + 1,
        )
        page = open_pages.setdefault(kind, _Page())
        causes = _causes_of(view, refs, state, since)
        if not page.takes(intent.target_cu_id, causes, len(refs)):
            yield page.places
            page = open_pages[kind] = _Page()
            page.takes(intent.target_cu_id, causes, len(refs))
        page.places.append(place)
    yield from (page.places for page in open_pages.values())


def _inputs_of(intent: RecalculateAuthority) -> Iterable[str]:
    return (version.parent_node_id for version in intent.inputs.excerpt)


def _causes_of(view: LedgerView, refs: Iterable[str], state: Due, since: str) -> set[str]:
    """Return a name for each cause that the operation will name: who wrote, and who asked."""
    nodes = (view.node(ref) for ref in refs)
    causes = {
        node["updated_by_operation_id"]
        for node in nodes
        if node is not None and node["updated_at"] > since
    }
    return causes | {
        f"asked at {request.cause_sequence}"
        for request in state.served
        if request.document["trigger_kind"] in ENQUEUED_KINDS
    }


def _record_page(page: Sequence[RecomputeUnit], context: CommitContext) -> Recorded | None:
    """Record a page; None where nothing was recorded and each has to be tried alone."""
    try:
        with context.transaction.savepoint():
            result = _submit(context, page, _actor_of(page[0].due(context.transaction)))
            _check_recorded(result)
    except OF_THE_LEDGER:
        raise
    except _PageRefused:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is one recompute's
        _log.warning("recompute_page_taken_apart", recomputes=len(page), error=repr(error)[:200])
        return None
    return _outcome_of(result)


class _PageRefused(Exception):
    """A page was refused; raised to undo what the refusal left."""


def _check_recorded(result: SubmissionResult | RejectedResult) -> None:
    """Pass what is recorded, and what is put off: that is no recompute's fault."""
    if isinstance(result, RejectedResult) and result.rejection.retry_after_s is None:
        raise _PageRefused


def _submit(
    context: CommitContext, page: Sequence[RecomputeUnit], actor: Any
) -> SubmissionResult | RejectedResult:
    intents = [unit.intent for unit in page]
    intent: Intent = intents[0]
    if len(intents) > 1:
        key = digest([[each.target_cu_id, each.bucket] for each in intents])
        intent = RecalculatePage(intent_key=key, recomputes=tuple(intents))
    document = context.orchestrator.construct(
        intent,
        context.transaction,
        actor=actor,
        session_id=page[0].session_id,
    )
    result = context.kernel.submit(context.transaction, document, "orchestrator", id_is_drawn=True)
    if page[0].attempt is not None and not isinstance(result, RejectedResult):
        keep_success(context.transaction, result.operation_id, page[0].attempt)
    return result


def _outcome_of(result: SubmissionResult | RejectedResult) -> Recorded:
    return ("rejected" if isinstance(result, RejectedResult) else "completed"), result


def _actor_of(state: Due) -> str:
    migrates = all(request.document["trigger_kind"] == MIGRATION for request in state.served)
    return "migration" if migrates else "system"
