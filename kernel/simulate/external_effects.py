"""Holds what an operation would set off outside against what a simulation may (§11.3).

The dry run performs nothing, so what is judged here is what the operation would do in earnest and
what asking a model has done already. Of the first, what the policy forbids is a violation. Of the
second, everything that the policy does not allow by name: a call cannot be taken back.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kernel.algebra.effects import canonical_kind
from kernel.algebra.simulation_support import MODEL_PERMITTED
from kernel.model.envelope import KernelEffect
from kernel.model.simulation import (
    ExternalEffectViolation,
    ForbiddenExternalEffect,
    SimulationExternalEffectPolicy,
    SimulationPrediction,
)

OF_KIND: Mapping[str, ForbiddenExternalEffect] = MappingProxyType(
    {
        "document_artifact_write": "materialization_side_effect",
        "materialization_emit": "materialization_side_effect",
        "share_link_grant": "third_party_notification",
        "share_link_revoke": "third_party_notification",
    }
)
"""The external effect of each canonical kind."""

OF_NODE_KIND: Mapping[str, ForbiddenExternalEffect] = MappingProxyType(
    {
        "MaterializedArtifactRef": "materialization_side_effect",
        "ShareTokenPolicy": "third_party_notification",
    }
)
"""Nodes whose writing reaches outside (§4.3.1)."""

OF_PAYLOAD_FLAG: Mapping[str, ForbiddenExternalEffect] = MappingProxyType(
    {
        "external_index": "external_index_update",
        "embedding_cache": "embedding_cache_persistence",
        "token_refresh": "token_refresh",
        "provider_call": "provider_api_call_with_persistence",
        "billing_chargeable": "billing_chargeable_call",
        "third_party_notification": "third_party_notification",
    }
)
"""Flags by which a payload names an effect; any value but absent, null or false counts."""


def external_effects_of(effect: KernelEffect) -> tuple[ForbiddenExternalEffect, ...]:
    """Return what one effect would set off outside, each once."""
    externals = [OF_KIND.get(canonical_kind(effect.effect_kind))]
    externals.append(OF_NODE_KIND.get(str(effect.payload.get("node_kind"))))
    for flag, external in OF_PAYLOAD_FLAG.items():
        if effect.payload.get(flag) not in (None, False):
            externals.append(external)
    return tuple(dict.fromkeys(external for external in externals if external is not None))


def violations_of(
    effects: Iterable[KernelEffect],
    policy: SimulationExternalEffectPolicy,
    prediction: SimulationPrediction | None,
    support_level: str,
) -> tuple[ExternalEffectViolation, ...]:
    """Return what may not happen, in the order of the effects, the model's call last."""
    violations = [
        ExternalEffectViolation(
            external_effect=external, cause=effect.effect_kind, effect_id=effect.effect_id
        )
        for effect in effects
        for external in external_effects_of(effect)
        if external in policy.forbidden_external_effects
    ]
    if prediction is not None:
        permitted = support_level == MODEL_PERMITTED
        violations += [
            ExternalEffectViolation(external_effect=external, cause="prediction")
            for external in prediction.external_effects
            if not permitted or external not in policy.allowed_external_effects
        ]
    return tuple(violations)
