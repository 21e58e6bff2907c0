"""The kinds of node that the kernel itself knows something about."""

UNDERSTANDING = "ConsolidatedUnderstanding"
CLAIM = "VersionedClaim"
SESSION = "BeliefSession"
SOURCE_ARTIFACT = "SourceArtifact"
ACCESS_OVERLAY = "AccessOverlay"

SESSION_NODE_PREFIX = "belief-session:"
"""The nodes of belief sessions have ids of their own, which nothing else may take."""

CAUSAL_NODE = "CausalNode"
CAUSAL_NODE_PREFIX = "causal-node:"
CAUSAL_EDGE_PREFIX = "causal-edge:"

RUNTIME_KINDS = (SESSION, CAUSAL_NODE)
RUNTIME_PREFIXES = (SESSION_NODE_PREFIX, CAUSAL_NODE_PREFIX, CAUSAL_EDGE_PREFIX)
"""What the runtime alone writes, so that whoever reads it finds what the runtime put there."""
