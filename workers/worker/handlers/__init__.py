"""What is done with an item of each queue."""
