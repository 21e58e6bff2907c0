"""Puts the steps of applying an operation in order: those of every operation, and its verb's own.

Receipts are emitted in this order, and their ids count them, so it is a part of the rules. What a
verb does is listed in the room of its noun.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernel.authority import enqueue_pages, recompute_checks
from kernel.authority.request_recording import record_requests
from kernel.authority.requests import cancel_requests_for_removed
from kernel.belief import anchors
from kernel.landscape import seals
from kernel.records import verb_steps
from kernel.records.conflicts.adjudications import record_adjudications
from kernel.records.implications.runs import record_implied
from kernel.records.model_outputs import record_model_outputs
from kernel.records.operation_steps import AppliedOperation, Step, Steps
from kernel.records.rollback_marks import record_undone
from kernel.records.running_extractions import follow_extractions
from kernel.records.taint_receipts import emit_taint_receipts, make_taint_receipts
from kernel.records.views import emit_node_write_events
from kernel.thoughts import recording
from kernel.transaction.operation_counts import count_operation
from kernel.work.pair_routing import follow_operation

VERB_STEPS: Mapping[str, Steps] = MappingProxyType(
    {
        **enqueue_pages.VERB_STEPS,
        **recompute_checks.VERB_STEPS,
        **anchors.VERB_STEPS,
        **seals.VERB_STEPS,
        **verb_steps.VERB_STEPS,
        **recording.VERB_STEPS,
    }
)
"""What the verbs mean beside their effects, those that mean something."""


@dataclass(frozen=True, slots=True)
class OrderedSteps:
    """The steps of applying an operation of one verb, in order."""

    before: tuple[Step, ...]
    """Steps before the effects."""

    after: tuple[Step, ...]
    """Steps after the effects."""

    after_receipts: tuple[Step, ...]
    """Those of the steps after the effects that have something to do where no record is written."""


def note_changes(operation: AppliedOperation) -> None:
    """Keep what was written for whoever looks back in this transaction."""
    operation.transaction.changes.note(operation.sequence, operation.writes)


def ordered(own: Steps) -> OrderedSteps:
    """Return the steps of a verb among those of every operation."""
    after = (
        record_implied,
        record_model_outputs,
        emit_node_write_events,
        record_undone,
        cancel_requests_for_removed,
        emit_taint_receipts,
        own.after or record_requests,
        note_changes,
        follow_operation,
        follow_extractions,
    )
    return OrderedSteps(
        before=(
            count_operation,
            record_adjudications,
            *((own.before,) if own.before else ()),
            make_taint_receipts,
        ),
        after=after,
        after_receipts=tuple(step for step in after if step not in _OF_WRITES),
    )


_OF_WRITES = frozenset[Step](
    {
        emit_node_write_events,
        cancel_requests_for_removed,
        record_requests,
        note_changes,
        follow_operation,
        follow_extractions,
    }
)
"""Steps that follow from the records which the effects have written."""

ORDINARY = ordered(Steps())
"""The steps of a verb that means nothing beside its effects."""

STEPS: Mapping[str, OrderedSteps] = MappingProxyType(
    {verb: ordered(own) for verb, own in VERB_STEPS.items()}
)
