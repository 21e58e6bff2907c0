"""From an intent to an envelope: the orchestrator is the only author of operations."""
