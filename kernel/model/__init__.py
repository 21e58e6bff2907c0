"""The frozen values that cross the kernel's border: envelopes, effects, receipts, results."""
