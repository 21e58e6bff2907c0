"""Work queues, priorities, leases, and the clients of those who ask for work and operations."""

from queues.client.gateway_http import GatewayHttp
from queues.client.producer import Cancelled, NewRequest, Producer
from queues.client.session_operations import OperationOutcome, SessionOperations
from queues.client.source_bindings import SourceBindings
from queues.errors import GatewayError, ProducerError

__all__ = [
    "Cancelled",
    "GatewayError",
    "GatewayHttp",
    "NewRequest",
    "OperationOutcome",
    "Producer",
    "ProducerError",
    "SessionOperations",
    "SourceBindings",
]
