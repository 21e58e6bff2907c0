"""The kinds of node that the kernel itself knows something about."""

UNDERSTANDING = "ConsolidatedUnderstanding"
CLAIM = "VersionedClaim"
SOURCE_ARTIFACT = "SourceArtifact"
ACCESS_OVERLAY = "AccessOverlay"

CAUSAL_NODE = "CausalNode"
CAUSAL_NODE_PREFIX = "causal-node:"
CAUSAL_EDGE_PREFIX = "causal-edge:"

RUNTIME_KINDS = (CAUSAL_NODE,)
RUNTIME_PREFIXES = (CAUSAL_NODE_PREFIX, CAUSAL_EDGE_PREFIX)
"""What the runtime alone writes, so that whoever reads it finds what the runtime put there."""
