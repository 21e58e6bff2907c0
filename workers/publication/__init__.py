"""Publishes the log: checkpoints, witnesses, time stamps, and who waits for them."""
