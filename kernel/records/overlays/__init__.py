"""Access overlays: which writes the overlays on a thing and its containers permit (§12)."""
