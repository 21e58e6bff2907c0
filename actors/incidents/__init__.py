"""The causal graph on the record, and incidents over it."""
