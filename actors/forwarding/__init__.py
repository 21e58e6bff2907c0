"""Forwards a message to the gateway that owns its session, and brings the answer back."""
