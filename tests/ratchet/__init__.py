"""Counts of what a request costs, each under a bound that only goes down."""
