"""The kinds of node that the kernel itself knows something about."""

UNDERSTANDING = "ConsolidatedUnderstanding"
CLAIM = "VersionedClaim"
SESSION = "BeliefSession"
SOURCE_ARTIFACT = "SourceArtifact"
ACCESS_OVERLAY = "AccessOverlay"

SESSION_NODE_PREFIX = "belief-session:"
"""The nodes of belief sessions have ids of their own, which nothing else may take."""
