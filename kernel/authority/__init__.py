"""Authority of understandings: computed when an input changes, never when it is read (§8)."""
