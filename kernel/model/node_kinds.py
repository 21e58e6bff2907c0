"""The kinds of node that the kernel itself knows something about."""

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
