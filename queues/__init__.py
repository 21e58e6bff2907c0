"""Work queues, priorities, leases, and the client of those who ask for work."""

from queues.client.producer import Cancelled, NewRequest, Producer
from queues.errors import ProducerError

__all__ = ["Cancelled", "NewRequest", "Producer", "ProducerError"]
