"""Turns a failed extraction into blocked, with or without a next try, or abandoned (§16.3).

A table from the code of the failure. If a wait may help, the run enters again by itself after the
waits of the table, and is abandoned when they are used up. If a person has to do something first,
it stays blocked until somebody asks for it again (§16.4). Nobody enters an abandoned run
(INV-EXT-4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernel.records.extraction import BlockReason

_HOURS = 3600


@dataclass(frozen=True, slots=True)
class Failure:
    """A row of the table."""

    block_reason: BlockReason
    retries_s: tuple[int, ...] = ()
    """The waits before the tries that follow by themselves."""

    waits_for_worker: bool = False
    """Whether it enters again as soon as a worker has what this one lacked, and costs no try."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends that failed, and when it is tried again."""

    block_reason: BlockReason | None
    """None where it is abandoned."""

    retry_s: int | None = None
    """None where nothing follows by itself."""


MODEL_NOT_CONFIGURED = "model_not_configured"

_SERVER = (60, 300, 1800, 2 * _HOURS, 8 * _HOURS)
_DEFECT = (60, 600)

FAILURES: Mapping[str, Failure] = MappingProxyType(
    {
        # What the extractor did.
        "extractor_failed": Failure("document_unparseable", _DEFECT),
        "extractor_timed_out": Failure("document_unparseable", _DEFECT),
        "extractor_unknown": Failure("upstream_dependency_unmet"),
        "extraction_result_invalid": Failure("quality_hard_fail", _DEFECT),
        "extraction_result_too_large": Failure("quality_hard_fail", _DEFECT),
        "extraction_span_outside_text": Failure("quality_hard_fail", _DEFECT),
        "extraction_span_invented": Failure("quality_hard_fail", _DEFECT),
        "extraction_completeness_contradicted": Failure("quality_hard_fail", _DEFECT),
        # What the source is.
        "extraction_source_unavailable": Failure("source_unavailable"),
        "extraction_source_not_isolated": Failure("prompt_injection_risk_unresolved"),
        "extraction_source_too_large": Failure("context_window_exhausted"),
        # What the model did.
        MODEL_NOT_CONFIGURED: Failure("model_unavailable", waits_for_worker=True),
        "model_unavailable": Failure("model_unavailable", _SERVER),
        "model_timeout": Failure("model_unavailable", _SERVER),
        "model_busy": Failure("rate_limit", _SERVER),
        "model_refused": Failure("auth_required"),
        "model_answer_invalid": Failure("quality_hard_fail", _DEFECT),
        "model_answer_too_large": Failure("quality_hard_fail", _DEFECT),
        "model_prompt_too_large": Failure("context_window_exhausted"),
        "sealed_outbound_unauthorized": Failure("visibility_blocked"),
        "sealed_tier_2_cache_violation": Failure("policy_blocked"),
    }
)
"""By the code of a failure. What the kernel refuses of a result is `policy_blocked`."""

REFUSED = Failure("policy_blocked")
UNKNOWN = Failure("document_unparseable", _DEFECT)
"""Of a code that is not in the table."""

RESOLVED: Mapping[BlockReason, str] = MappingProxyType(
    {
        "model_unavailable": "model_available",
        "rate_limit": "rate_limit_cleared",
        "document_unparseable": "retry_after_failure",
        "quality_hard_fail": "retry_after_failure",
    }
)
"""Why a run enters again by itself, by what blocked it; every reason with tries has a row."""


def ending_of(failure: Failure, blocked_before: int) -> Ending:
    """Return how a run ends that was blocked so often before."""
    if failure.waits_for_worker:
        return Ending(failure.block_reason, 0)
    if not failure.retries_s:
        return Ending(failure.block_reason)
    if blocked_before < len(failure.retries_s):
        return Ending(failure.block_reason, failure.retries_s[blocked_before])
    return Ending(None)
