"""Speaks to a gateway in the kernel's own types, for Rotulus' own processes."""
