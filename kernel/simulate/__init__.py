"""Simulation of an operation: a dry run, its preview, and the receipts of both (§11)."""
