"""Carries with the items of a queue the trace of what caused them."""

import time
from collections.abc import Sequence
from dataclasses import replace

from queues.queue.items import Enqueued, NewItem
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import RedisClient
from workers.telemetry.span_exporter import Attributes, Spans

_ENTERED = frozenset({"new", "merged", "successor"})
"""States of items that this sending added; one that was sent before has its span already."""


class TracedQueue(WorkQueue):
    """Adds each item under the span of its sending."""

    def __init__(self, redis: RedisClient, name: str, spans: Spans) -> None:
        super().__init__(redis, name)
        self._spans = spans

    async def enqueue_many(self, items: Sequence[NewItem], mark: str = "") -> list[Enqueued]:
        """Add requests as a queue does, each under the span of its sending."""
        began_ns = time.time_ns()
        places = [self._spans.root(item.operation_id or item.key) for item in items]
        contexts = [
            None if root is None else root.child("relay", item.cause_id)
            for root, item in zip(places, items, strict=True)
        ]
        states = await super().enqueue_many(
            [
                item if place is None else replace(item, traceparent=place.traceparent)
                for item, place in zip(items, contexts, strict=True)
            ],
            mark,
        )
        times_ns = began_ns, time.time_ns()
        for root, place, item, entered in zip(places, contexts, items, states, strict=True):
            if place is not None and entered.state in _ENTERED:
                attributes: Attributes = {
                    "messaging.destination.name": self.name,
                    "messaging.message.id": item.key,
                    "rotulus.priority": item.priority,
                    "rotulus.enqueued": entered.state,
                    "messaging.message.body.size": len(item.payload),
                }
                self._spans.tell(
                    "relay", place, root, times_ns=times_ns, kind="producer", attributes=attributes
                )
        return states
