"""What a source binding is, and which bindings a source event concerns (§13); pure, without I/O."""
