"""Defines the parameters and the answers of a replay (§6.2, §6.3, §6.6)."""

from dataclasses import dataclass
from typing import Any, Literal

from kernel.model.receipt import Retention

AuditReplayStrategy = Literal["record_only", "blocked_on_fingerprint_mismatch"]

BlockReason = Literal[
    "fingerprint_mismatch", "recorded_output_unavailable", "operation_not_replayable"
]

CallerKind = Literal[
    "audit_view_browse",
    "expert_deposition_reconstruction",
    "litigation_evidence_re_derivation",
    "ci_test",
    "other",
]

_LEGALLY_SIGNIFICANT = frozenset(
    {"expert_deposition_reconstruction", "litigation_evidence_re_derivation"}
)


@dataclass(frozen=True, slots=True)
class AuditContext:
    """Who asks for a replay; it decides how long its receipt is kept."""

    caller_kind: CallerKind = "other"
    retention_upgrade_required: bool = False
    caller_attribution: str | None = None

    @property
    def asks_for_durable(self) -> bool:
        """Whether the receipt is to outlive its day."""
        return self.retention_upgrade_required or self.caller_kind in _LEGALLY_SIGNIFICANT

    def document(self) -> dict[str, Any]:
        """Return the context as a receipt has it."""
        stated = {name: getattr(self, name) for name in AuditContext.__slots__}
        known = {name: value for name, value in stated.items() if value is not None}
        return known | {"schema_version": 1}


@dataclass(frozen=True, slots=True)
class AuditReplayReceipt:
    """The answer of one replay of one operation, as it was recorded."""

    receipt_id: str
    original_operation_id: str
    replay_strategy: AuditReplayStrategy
    fingerprint_match: bool
    output_reproduced: bool
    retention_class: Retention
    block_reason: BlockReason | None = None
    recorded_model_version: str | None = None
    current_model_version: str | None = None
    blocked_by_operation_id: str | None = None
    """The causal parent that was not replayed, where that is why."""

    request_id: str | None = None
    """The request by which one recompute of the operation was named."""

    schema_version: int = 1

    def document(self) -> dict[str, Any]:
        """Return the receipt as JSON has it; what is absent is left out."""
        fields = {name: getattr(self, name) for name in AuditReplayReceipt.__slots__}
        return {name: value for name, value in fields.items() if value is not None}
