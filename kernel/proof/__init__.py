"""Proves the log to somebody who trusts nobody here: a Merkle tree, its proofs, its tiles."""
