"""Belief sessions: a universe of hypotheses that evidence can only shrink, and its audit trail."""
