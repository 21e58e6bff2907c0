"""Judges to what an envelope belongs: its scope, its epoch, its causes, its implication (V4).

V4: every envelope declares what it writes, and a scope that names at least that (§2.4, §2.6).

V4, the batch: an operation belongs to an epoch that is open, or to none (K22).

An epoch is opened by the first operation that names it and closed by the last one, by whoever
opened it: the same actor in the same session. An operation
that names none is an epoch by itself.

V4, the causes: every causal parent is on the record already, and none is itself (§2.7).

So no operations cause each other, and whoever reads or replays the log in its order meets every
cause before what it caused (decision kernel/0225).

V4, implications: what a detector emits belongs to its run, ends no loop late, and rules nothing.

1. The orchestrator alone says that an operation was implied. Its epoch is that of the newest run,
   and what implied it lies in the stretch that the run has read (§19.1, K31).
2. It is evidence: no ruling and no relationship between filings follows by itself
   (INV-K-OUTCOME-1).
3. A loop that is halted stays so. One that would go on for too many epochs is halted, with a
   durable receipt, and the operation is refused (INV-A-BRIDGE-1).
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kernel.algebra.effects import EFFECT_KINDS, RECEIPT, canonical_kind
from kernel.algebra.verbs import EPOCH_CLOSE, EPOCH_OPEN, ROLLBACK
from kernel.ledger.ledger import LedgerView
from kernel.ledger.schema import STATE_TABLES
from kernel.model.envelope import AffectedSubgraphDescriptor, Envelope, Implied
from kernel.records.implications.halts import EXCEEDED, HALTED, halt_of_loop, is_halted
from kernel.records.implications.loop_limits import CYCLE_EPOCHS_MAX, Loop, loops_of
from kernel.records.implications.runs import placement_problem, unread
from kernel.transaction.checks.check import Refusal, Submission, Verdict

MAX_CASCADE_DEPTH_BY_KIND: Mapping[str, float] = MappingProxyType(
    {
        "single_node": 0,
        "node_with_neighbors": 1,
        "subgraph_within_corpus": 5,
        "cross_corpus_subset": 5,
        "global_sweep": float("inf"),
    }
)


_CANONICAL = frozenset(
    table.name for table in STATE_TABLES if table.info["state"].storage_class == "table"
)
"""Stores that hold more than what is derived from other stores (§4.3.5, §4.3.6)."""


def check_scope(submission: Submission) -> Verdict:
    """Refuse a missing descriptor, an unknown scope, and a scope that contradicts itself."""
    envelope, field = submission.envelope, "affected_subgraph_descriptor"
    scope = envelope.affected_subgraph_descriptor
    if scope is None or (scope.scope_kind is None and not scope.model_fields_set):
        return Refusal("envelope_scope_descriptor_missing", field, "the descriptor is required")
    depth_max = MAX_CASCADE_DEPTH_BY_KIND.get(scope.scope_kind or "")
    if depth_max is None:
        return Refusal(
            "envelope_scope_descriptor_invalid", f"{field}.scope_kind", "unknown scope_kind"
        )
    if scope.scope_kind == "single_node" and len(scope.affected_node_refs) != 1:
        return Refusal(
            "envelope_scope_single_node_violation",
            f"{field}.affected_node_refs",
            "single_node names exactly one node",
        )
    if scope.scope_kind == "global_sweep" and envelope.actor not in ("system", "migration"):
        return Refusal(
            "envelope_scope_global_sweep_unauthorized",
            f"{field}.scope_kind",
            "only system and migration may sweep",
        )
    if scope.estimated_cascade_depth > depth_max:
        return Refusal(
            "envelope_scope_cascade_depth_exceeded",
            f"{field}.estimated_cascade_depth",
            f"too deep for {scope.scope_kind}",
        )
    # A lite envelope had no write set, and what takes its place repeats it (§2.6).
    if not envelope.write_set_refs and envelope.supersedes is None and _writes(envelope):
        return Refusal(
            "envelope_scope_write_set_empty",
            "write_set_refs",
            "an operation that writes names what it writes",
        )
    return _check_complete(envelope, scope)


def _check_complete(envelope: Envelope, scope: AffectedSubgraphDescriptor) -> Refusal | None:
    """Refuse a scope that leaves out what is written.

    A sweep is of everything, and what undoes an operation, or takes its place, repeats its scope.
    """
    repeated = envelope.supersedes is not None or envelope.semantic_intent == ROLLBACK
    if repeated or scope.scope_kind == "global_sweep":
        return None
    scope_refs = {*scope.affected_node_refs, *scope.affected_edge_refs}
    if scope_refs.issuperset(envelope.write_set_refs) and scope_refs.issuperset(
        [
            effect.target_ref
            for effect in envelope.primitive_effects
            if effect.target_ref is not None
        ]
    ):
        return None
    for field, ref in _written_refs(envelope):
        if ref not in scope_refs:
            message = f"{ref} is written, and the scope does not name it"
            return Refusal("envelope_scope_incomplete", field, message)
    return None


def _written_refs(envelope: Envelope) -> Iterator[tuple[str, str]]:
    """What is written, and where it says so; what is computed from it again is not."""
    for index, ref in enumerate(envelope.write_set_refs):
        yield f"write_set_refs.{index}", ref
    for index, effect in enumerate(envelope.primitive_effects):
        if effect.target_ref is not None and EFFECT_KINDS[effect.effect_kind].store in _CANONICAL:
            yield f"primitive_effects.{index}.target_ref", effect.target_ref


def _writes(envelope: Envelope) -> bool:
    return any(
        EFFECT_KINDS[effect.effect_kind].reversibility != RECEIPT
        for effect in envelope.primitive_effects
    )


def check_epoch(submission: Submission) -> Verdict:
    """Refuse an epoch that is not open, is opened twice, or is not named where it must be."""
    envelope, transaction = submission.envelope, submission.transaction
    epoch_id, field = envelope.epoch_id, "epoch_id"
    if epoch_id is None:
        if envelope.semantic_intent in (EPOCH_OPEN, EPOCH_CLOSE):
            return Refusal("envelope_epoch_missing", field, "names the epoch")
        return None
    opened = transaction.epoch_marker(epoch_id, EPOCH_OPEN)
    if envelope.semantic_intent == EPOCH_OPEN:
        if opened is not None or transaction.log_row_of(epoch_id) is not None:
            return Refusal("envelope_epoch_exists", field, f"epoch {epoch_id} exists")
        return None
    if opened is None or transaction.epoch_marker(epoch_id, EPOCH_CLOSE) is not None:
        return Refusal("envelope_epoch_not_open", field, f"epoch {epoch_id} is not open")
    if envelope.semantic_intent == EPOCH_CLOSE:
        return _check_closer(envelope, transaction, str(opened["operation_id"]))
    return None


def _check_closer(envelope: Envelope, view: LedgerView, opened_by: str) -> Verdict:
    opening = view.envelope(opened_by) or {}
    for field in ("actor", "session_id"):
        if getattr(envelope, field) != opening.get(field):
            message = f"epoch {envelope.epoch_id} is closed by the {field} that opened it"
            return Refusal("envelope_epoch_of_another", field, message)
    return None


_FIELD = "causal_parent_operation_ids"
_READ_MAX = 256
"""Declared references of which the records are asked who wrote them."""


def check_causality(submission: Submission) -> Verdict:
    """Refuse an operation that names as its cause what is not on the record before it.

    What takes a lite operation's place names the parents that the lite operation named (K24),
    which a log of version 1.5 may lack.
    """
    envelope = submission.envelope
    parents = envelope.causal_parent_operation_ids
    if not parents or envelope.supersedes is not None:
        return None
    if envelope.operation_id in parents:
        return Refusal(
            "envelope_causal_parent_itself",
            f"{_FIELD}.{parents.index(envelope.operation_id)}",
            "an operation is not its own cause",
        )
    unknown = set(parents) - _writers(submission)
    if unknown:
        unknown -= submission.transaction.operations_on_record(unknown)
    for index, parent in enumerate(parents):
        if parent in unknown:
            message = f"{parent} is on no row of the log, so it caused nothing"
            return Refusal("envelope_causal_parent_unknown", f"{_FIELD}.{index}", message)
    return None


def _writers(submission: Submission) -> set[str]:
    """Return who wrote the nodes that the envelope declares: whoever wrote one is on the record.

    These were read ahead for the batch, and hardly an envelope has other parents.
    """
    envelope, view = submission.envelope, submission.transaction
    refs = (*envelope.read_set_refs, *envelope.write_set_refs)[:_READ_MAX]
    nodes = (view.node(ref) for ref in dict.fromkeys(refs))
    return {node["updated_by_operation_id"] for node in nodes if node is not None}


_ADJUDICATED = frozenset({"ruling_disposition_write", "filing_relationship_write"})
"""Canonical kinds that a person or the safe path of confirmation decides (§13.6)."""

_PLACE = "target_refs"


def check_implication(submission: Submission) -> Verdict:
    """Refuse an implication of no run, one that adjudicates, and one that goes on a loop."""
    implied = submission.envelope.implication
    if implied is None:
        return None
    if submission.submitter != "orchestrator":
        message = "the orchestrator alone says that an operation was implied"
        return Refusal("envelope_actor_unauthorized", "implication", message)
    view = submission.transaction
    problem = placement_problem(view, implied) or unread(view, implied)
    if problem is not None:
        code, field, message = problem
        return Refusal(code, field, message)
    for index, effect in enumerate(submission.envelope.primitive_effects):
        if canonical_kind(effect.effect_kind) in _ADJUDICATED:
            field = f"primitive_effects.{index}.effect_kind"
            message = f"{effect.effect_kind} is decided and never implied"
            return Refusal("implication_adjudicates", field, message)
    return _check_loops(submission, implied)


def _check_loops(submission: Submission, implied: Implied) -> Refusal | None:
    envelope, transaction = submission.envelope, submission.transaction
    loops = list(loops_of(transaction, envelope, implied))
    for loop in loops:
        if is_halted(transaction, loop.loop_id):
            message = f"{loop.operation_kind} on {loop.target_ref} is halted: {loop.loop_id}"
            return Refusal(HALTED, _PLACE, message)
    exceeded = next((loop for loop in loops if loop.is_exceeded), None)
    return None if exceeded is None else _loop_refusal(submission, implied, exceeded)


def _loop_refusal(submission: Submission, implied: Implied, loop: Loop) -> Refusal:
    envelope = submission.envelope
    message = (
        f"{loop.operation_kind} on {loop.target_ref} was implied in {CYCLE_EPOCHS_MAX} epochs in a"
        " row"
        if loop.repetitions > CYCLE_EPOCHS_MAX
        else f"what implies it follows from {loop.chain_epochs - 1} implications in a row"
    )
    return Refusal(
        EXCEEDED,
        _PLACE,
        f"{message}; halted until a person resumes {loop.loop_id}",
        receipt_kind=EXCEEDED,
        details={
            "detector": implied.detector,
            "implication_epoch": implied.implication_epoch,
            "operation_kind": loop.operation_kind,
            "target_ref": loop.target_ref,
            "repetitions": loop.repetitions - 1,
            "chain_epochs": loop.chain_epochs,
            "envelope": submission.document,
        },
        follow_ups=(halt_of_loop(submission.transaction, envelope, implied.detector, loop),),
    )
