"""The worker process: drains queues and reports to a gateway."""
