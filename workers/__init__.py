"""The processes of a runtime, the doors to them, and what several of them share."""
