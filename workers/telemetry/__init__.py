"""What the processes say of themselves to Prometheus."""
