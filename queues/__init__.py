"""Work queues, priorities, leases, and the client of those who ask for work."""

from queues.errors import ProducerError
from queues.producer import Cancelled, NewRequest, Producer

__all__ = ["Cancelled", "NewRequest", "Producer", "ProducerError"]
