"""Decides what may be told to which model (INV-B2-CACHING-1, §12.5).

Sealed and firewalled sources go to a model on this machine. They go to one outside only where the
policy in force says so, and never into a prompt cache.
"""

from actors.errors import ModelError
from actors.synthesis.model_client import ModelAnswer
from kernel.transaction.outbound import RESTRICTED


def is_disclosable(visibility_class: str, *, external: bool, authorized: bool) -> bool:
    """Tell whether a model may be given a source of this class."""
    return visibility_class not in RESTRICTED or not external or authorized


def check_cache(answer: ModelAnswer, *, caching: bool) -> None:
    """Refuse an answer for which a prompt was cached that must not have been.

    Raises:
        ModelError: `sealed_tier_2_cache_violation`.
    """
    if answer.tier_2_prompt_cache_used and not caching:
        raise ModelError(
            "sealed_tier_2_cache_violation", "the provider cached a prompt with sealed sources"
        )
