"""What each effect kind does to its typed records; `apply_effect` is the only way in."""
