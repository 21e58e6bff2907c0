"""The order of the checks; the first that refuses names itself on the receipt (K4).

V1 has read the envelope before a submission exists, so what stands here for it are its last
questions: whether the actor may write, and whether what models answered is there.
"""

from kernel.transaction.checks import (
    v01_derived_names,
    v01_model_outputs,
    v01_operation_id,
    v01_recorded_at,
    v02_idempotency,
    v02_supersession,
    v03_bindings,
    v03_cascade,
    v03_extractions,
    v03_fires,
    v03_verb,
    v04_causality,
    v04_epoch,
    v04_implication,
    v04_scope,
    v05_policy,
    v06_outcomes,
    v06_source_spans,
    v07_isolation,
    v08_taint,
    v09_overlays,
    v10_inverse,
    v10_reversibility,
    v11_capacity,
    v12_conflicts,
)
from kernel.transaction.checks.check import Check
from kernel.transaction.checks.v01_schema import check_actor

CHECKS: tuple[tuple[str, Check], ...] = (
    ("V1", check_actor),
    ("V1", v01_operation_id.check),
    ("V1", v01_derived_names.check),
    ("V1", v01_recorded_at.check),
    ("V1", v01_model_outputs.check),
    ("V2", v02_idempotency.check),
    ("V2", v02_supersession.check),
    ("V3", v03_verb.check),
    ("V3", v03_bindings.check),
    ("V3", v03_extractions.check),
    ("V3", v03_fires.check),
    ("V3", v03_cascade.check),
    ("V4", v04_scope.check),
    ("V4", v04_epoch.check),
    ("V4", v04_causality.check),
    ("V4", v04_implication.check),
    ("V5", v05_policy.check),
    ("V6", v06_source_spans.check),
    ("V6", v06_outcomes.check),
    ("V7", v07_isolation.check),
    ("V8", v08_taint.check),
    ("V9", v09_overlays.check),
    ("V10", v10_reversibility.check),
    ("V10", v10_inverse.check),
    ("V11", v11_capacity.check),
    ("V12", v12_conflicts.check),
)
