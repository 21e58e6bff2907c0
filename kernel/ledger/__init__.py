"""The record: one append-only log, the state that it folds into, and the proof of both."""
