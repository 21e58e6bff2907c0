"""Which gateway owns which shard of the sessions."""
