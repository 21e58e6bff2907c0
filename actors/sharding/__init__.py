"""Shares the shards of the sessions out among gateways."""

SHARDS_DEFAULT = 64
SHARDS_MAX = 4096
