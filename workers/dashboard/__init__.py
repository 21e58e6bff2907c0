"""The dashboard: what the runtime is doing now, readable in any browser."""
