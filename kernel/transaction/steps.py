"""Puts the steps of applying an operation in order: those of every operation, and its verb's own.

Receipts are emitted in this order, and their ids count them, so it is a part of the rules. The room
of its noun lists what a verb does.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

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


class OrderedStep(NamedTuple):
    """A step in its place, and when it has something to do: always, where nothing is said."""

    step: Step
    field: str | None = None
    """The field of the envelope from which it follows."""

    of_records: bool = False
    """Whether it follows from records that the effects have written, beside their receipts."""


class OrderedSteps(NamedTuple):
    """The steps of applying an operation of one verb, in order."""

    before: tuple[OrderedStep, ...]
    """Steps before the effects."""

    after: tuple[OrderedStep, ...]
    """Steps after the effects."""


def note_changes(operation: AppliedOperation) -> None:
    """Keep what was written for whoever looks back in this transaction."""
    operation.transaction.changes.note(operation.sequence, operation.writes)


def order_steps(own: Steps) -> OrderedSteps:
    """Return the steps of a verb among those of every operation."""
    after = (
        OrderedStep(record_implied, "implication"),
        OrderedStep(record_model_outputs, "recorded_model_outputs"),
        OrderedStep(emit_node_write_events, of_records=True),
        OrderedStep(record_undone, "compensates_operation_id", of_records=True),
        OrderedStep(cancel_requests_for_removed, of_records=True),
        OrderedStep(emit_taint_receipts, "source_visibility_taint"),
        OrderedStep(own.after) if own.after else OrderedStep(record_requests, of_records=True),
        OrderedStep(note_changes, of_records=True),
        OrderedStep(follow_operation, of_records=True),
        OrderedStep(follow_extractions, of_records=True),
    )
    return OrderedSteps(
        (
            OrderedStep(count_operation),
            OrderedStep(record_adjudications, "adjudicates_receipt_ids"),
            *((OrderedStep(own.before),) if own.before else ()),
            OrderedStep(make_taint_receipts, "source_visibility_taint"),
        ),
        after,
    )


ORDINARY = order_steps(Steps())
"""The steps of a verb that means nothing beside its effects."""

STEPS: Mapping[str, OrderedSteps] = MappingProxyType(
    {verb: order_steps(own) for verb, own in VERB_STEPS.items()}
)
