"""Migration of version 1.5: lite envelopes are taken as they are, then superseded (§2.8, K24)."""
