"""Access overlays: what may be written of a thing, by what was laid over it and around it (§12)."""
