"""What a process gets from its machine: settings, folders, clock, logs."""
