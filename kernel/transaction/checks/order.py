"""Runs the checks in their order; the first that refuses names itself on the receipt (K4).

V1 has read the envelope before a submission exists, so what stands here for it are its last
questions: whether the actor may write, and whether what models answered is there.
"""

from kernel.transaction.checks.causality import (
    check_causality,
    check_epoch,
    check_implication,
    check_scope,
)
from kernel.transaction.checks.check import Check
from kernel.transaction.checks.conflicts import check_conflicts
from kernel.transaction.checks.evidence import check_outcomes, check_source_spans
from kernel.transaction.checks.governance import check_capacity, check_policy
from kernel.transaction.checks.idempotency import check_idempotency, check_supersession
from kernel.transaction.checks.overlays import check_overlays
from kernel.transaction.checks.reversibility import check_inverse, check_reversibility
from kernel.transaction.checks.schema import (
    check_actor,
    check_derived_names,
    check_model_outputs,
    check_operation_id,
    check_recorded_at,
)
from kernel.transaction.checks.taint import check_isolation, check_taint
from kernel.transaction.checks.verbs import (
    check_bindings,
    check_cascade,
    check_extractions,
    check_fires,
    check_verb,
)

CHECKS: tuple[tuple[str, Check], ...] = (
    ("V1", check_actor),
    ("V1", check_operation_id),
    ("V1", check_derived_names),
    ("V1", check_recorded_at),
    ("V1", check_model_outputs),
    ("V2", check_idempotency),
    ("V2", check_supersession),
    ("V3", check_verb),
    ("V3", check_bindings),
    ("V3", check_extractions),
    ("V3", check_fires),
    ("V3", check_cascade),
    ("V4", check_scope),
    ("V4", check_epoch),
    ("V4", check_causality),
    ("V4", check_implication),
    ("V5", check_policy),
    ("V6", check_source_spans),
    ("V6", check_outcomes),
    ("V7", check_isolation),
    ("V8", check_taint),
    ("V9", check_overlays),
    ("V10", check_reversibility),
    ("V10", check_inverse),
    ("V11", check_capacity),
    ("V12", check_conflicts),
)
