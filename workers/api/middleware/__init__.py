"""What stands before every route: admission and the guard."""
