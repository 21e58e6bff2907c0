"""Shares the shards of the sessions out among gateways."""
