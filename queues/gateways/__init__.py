"""Carries what gateways tell each other over Redis: leases of shards, mailboxes."""
