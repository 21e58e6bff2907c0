"""Leases capacity to workers, and answers the kernel from what is leased."""
