"""Writes that had not seen each other: found, classified, resolved by policy (§15.5, §19)."""
