"""Work queues, priorities, leases, and the client of those who ask for work and operations."""
