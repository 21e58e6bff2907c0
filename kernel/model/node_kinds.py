"""Lists the kinds of node that the kernel itself knows, and names that it derives."""

import re
from typing import Final

UNDERSTANDING = "ConsolidatedUnderstanding"
CLAIM = "VersionedClaim"
SOURCE_ARTIFACT = "SourceArtifact"
ACCESS_OVERLAY = "AccessOverlay"
SOURCE_BINDING = "SourceBinding"
CASE_RECORD = "CaseRecord"

FRAMING_KINDS = frozenset({"RecentActivityRollup"})
"""Kinds that report what went on and are evidence of nothing: they taint nothing (EC3 of §7.7)."""

CAUSAL_NODE = "CausalNode"
CAUSAL_NODE_PREFIX = "causal-node:"
CAUSAL_EDGE_PREFIX = "causal-edge:"

RUNTIME_KINDS = (CAUSAL_NODE,)
RUNTIME_PREFIXES = (CAUSAL_NODE_PREFIX, CAUSAL_EDGE_PREFIX)
"""Kinds that the runtime alone writes, so that a reader finds only what it put there."""

_DERIVED: Final = re.compile("claim:[0-9a-f]{64}|extraction:[0-9a-f]{32}")


def derived_name_in(ref: str) -> str | None:
    """Return the extracted claim, or the run of an extraction, that the runtime calls so.

    Such a name follows from what is public, so nobody else gives it to what is not there yet.
    """
    match = _DERIVED.search(ref)
    return None if match is None else match[0]
