"""The environment of a process: its settings, folders, clock and logs."""
