"""Keeps two bounded lanes for one taker: the urgent one goes first (decision actors/0042).

A take that has anything urgent in it has others of a quarter of its size and no more, so that it is
soon done. An endless stream of urgent work slows the others down and does not stop them.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream

T = TypeVar("T")

OTHERS_SHARE = 0.25
"""Share of the others in a take with something urgent; at least one of them goes along."""


class PriorityLanes(Generic[T]):
    """The two lanes, each in the order of arrival."""

    def __init__(self, places: int, urgent_places: int) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[T](places)
        self._urgent_send, self._urgent_receive = anyio.create_memory_object_stream[T](
            urgent_places
        )
        self._filled = anyio.Event()

    @property
    def waiting(self) -> int:
        """The number of entries in both lanes."""
        lanes = (self._receive, self._urgent_receive)
        return sum(lane.statistics().current_buffer_used for lane in lanes)

    async def put(self, item: T) -> None:
        """Append to the ordinary lane, as soon as there is a place.

        Raises:
            anyio.BrokenResourceError, anyio.ClosedResourceError: the lanes were closed.
        """
        try:
            self._send.send_nowait(item)
        except anyio.WouldBlock:
            await self._send.send(item)
        self._filled.set()

    def put_urgent(self, item: T) -> None:
        """Append to the urgent lane.

        Raises:
            anyio.WouldBlock: there is no place.
            anyio.BrokenResourceError, anyio.ClosedResourceError: the lanes were closed.
        """
        self._urgent_send.send_nowait(item)
        self._filled.set()

    async def take(self, limit: int, size_of: Callable[[T], int]) -> list[T]:
        """Wait until a lane has something, and take entries up to this size in total."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        for_others = OTHERS_SHARE * limit
        while True:
            items: list[T] = []
            size = _move(self._urgent_receive, items, 0, limit - for_others, size_of)
            n_urgent = len(items)
            most = size + max(1, for_others) if items else limit
            size = _move(self._receive, items, size, most, size_of)
            if len(items) == n_urgent:
                _move(self._urgent_receive, items, size, limit, size_of)
            if items:
                return items
            self._filled = anyio.Event()
            await self._filled.wait()

    def take_all(self) -> list[T]:
        """Return everything that waits, the urgent lane first."""
        items: list[T] = []
        for lane in (self._urgent_receive, self._receive):
            with suppress(anyio.WouldBlock):
                while True:
                    items.append(lane.receive_nowait())
        return items

    def close(self) -> list[T]:
        """Close both lanes and return what nobody has taken."""
        items = self.take_all()
        for end in (self._send, self._urgent_send, self._receive, self._urgent_receive):
            end.close()
        return items


def _move(
    lane: MemoryObjectReceiveStream[T],
    items: list[T],
    size: int,
    most: float,
    size_of: Callable[[T], int],
) -> int:
    """Move entries from a lane until they are of this size together, and return their size."""
    try:
        while size < most:
            items.append(lane.receive_nowait())
            size += size_of(items[-1])
    except anyio.WouldBlock:
        return size
    return size
