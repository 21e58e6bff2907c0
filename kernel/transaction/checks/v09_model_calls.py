"""Part of V9: what is sealed stays here unless somebody let it out (INV-B2-CACHING-1, §12.5).

An operation that touched something sealed or firewalled used no prompt cache of a provider, and no
provider but a local one, unless the policy in force authorizes its actor to send such things out.
"""

from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.transaction.outbound import RESTRICTED, is_outbound_authorized, touched_restricted

LOCAL_PROVIDERS = frozenset({"local"})
"""The provider that is local; every other one is outside."""


def check(submission: Submission) -> Verdict:
    """Refuse the output of a model that was shown what may not leave."""
    envelope = submission.envelope
    outputs = envelope.recorded_model_outputs
    if not outputs:
        return None
    # An output that names a more restricted class than the envelope is believed.
    touched = {name for output in outputs for name in output.source_visibility_taint}
    touched.update(output.resolved_output_visibility_class or "" for output in outputs)
    if not touched & RESTRICTED and touched_restricted(submission.transaction, envelope) is None:
        return None
    for index, output in enumerate(outputs):
        field = f"recorded_model_outputs.{index}"
        if output.tier_2_prompt_cache_used:
            return Refusal(
                "envelope_sealed_tier_2_cache_violation",
                f"{field}.tier_2_prompt_cache_used",
                "what is sealed or firewalled went through a provider's prompt cache",
            )
        if output.model_provider not in LOCAL_PROVIDERS and not is_outbound_authorized(
            submission.transaction, envelope.actor
        ):
            return Refusal(
                "envelope_sealed_outbound_unauthorized",
                f"{field}.model_provider",
                f"no policy lets {envelope.actor} send this to {output.model_provider}",
            )
    return None
