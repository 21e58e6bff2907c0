"""The work queues, capacity leases and heartbeats; the only place that speaks Redis."""
