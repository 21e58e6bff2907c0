"""What any door may do."""
