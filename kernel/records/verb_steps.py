"""Lists what the verbs of the records mean beside their effects, as `appliers.py` lists effects."""

from collections.abc import Mapping
from types import MappingProxyType

from kernel.algebra.verbs import (
    EPOCH_ROLLBACK,
    FIRE_RECORD,
    IMPLICATION_HALT,
    IMPLICATION_RESUME,
    IMPLICATION_RUN,
    KEY_HANDOVER,
    OPERATOR_VERBS,
    RECEIPTS_SEAL,
    REVIEW_DISCARD,
)
from kernel.records.binding_cycles import record_manifests
from kernel.records.conflicts.adjudications import check_discard
from kernel.records.implications.halts import record_halt, record_resume
from kernel.records.implications.runs import record_run
from kernel.records.key_handovers import check_handover
from kernel.records.operation_steps import Steps
from kernel.records.operator_decisions import check_decision
from kernel.records.receipt_seals import check_seal
from kernel.records.rollbacks_under_way import record_page

VERB_STEPS: Mapping[str, Steps] = MappingProxyType(
    {
        EPOCH_ROLLBACK: Steps(after=record_page),
        FIRE_RECORD: Steps(after=record_manifests),
        IMPLICATION_HALT: Steps(after=record_halt),
        IMPLICATION_RESUME: Steps(after=record_resume),
        IMPLICATION_RUN: Steps(after=record_run),
        KEY_HANDOVER: Steps(after=check_handover),
        RECEIPTS_SEAL: Steps(after=check_seal),
        REVIEW_DISCARD: Steps(before=check_discard),
        **dict.fromkeys(OPERATOR_VERBS, Steps(after=check_decision)),
    }
)
