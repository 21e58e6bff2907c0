"""Calls of many tasks that come together, sent to the gateway as one.

Whoever comes first lets all others of the same turn of the event loop come along, and sends for all
of them. While as many calls are on their way as may be, those who come wait and go with the next.
Nothing runs in the background: a task sends that waits itself. If it is cancelled, what it had
taken and not answered is taken by another, so a call may be sent twice (decision queues/0076).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

from .errors import GatewayError

T = TypeVar("T")
R = TypeVar("R")


class _Waiter(Generic[T, R]):
    """A call that has no answer yet."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.answer: R | GatewayError | None = None
        self.is_taken = False
        self.woken = anyio.Event()


class SharedCalls(Generic[T, R]):
    """The calls of one kind."""

    def __init__(
        self,
        send: Callable[[list[T]], Awaitable[Sequence[R | GatewayError]]],
        size_of: Callable[[T], int],
        *,
        items_max: int,
        size_max: int,
        calls_max: int,
    ) -> None:
        """`send` answers each item in their order; it is called with at least one item."""
        self._send = send
        self._size_of = size_of
        self._items_max = items_max
        self._size_max = size_max
        self._calls_left = calls_max
        self._waiting: deque[_Waiter[T, R]] = deque()

    async def ask(self, item: T) -> R:
        """Return the answer to an item.

        Raises:
            GatewayError: that is the answer.
        """
        waiter = _Waiter[T, R](item)
        self._waiting.append(waiter)
        try:
            await anyio.lowlevel.checkpoint()
            while waiter.answer is None:
                if not waiter.is_taken and self._calls_left:
                    await self._send_next()
                else:
                    await waiter.woken.wait()
                    waiter.woken = anyio.Event()
        finally:
            if not waiter.is_taken:
                self._waiting.remove(waiter)
            self._wake_next()
        if isinstance(waiter.answer, GatewayError):
            raise waiter.answer
        return waiter.answer

    async def _send_next(self) -> None:
        taken = self._take()
        self._calls_left -= 1
        try:
            answers = await self._send([waiter.item for waiter in taken])
            for waiter, answer in zip(taken, answers, strict=True):
                waiter.answer = answer
        finally:
            self._calls_left += 1
            for waiter in reversed(taken):
                if waiter.answer is None:
                    waiter.is_taken = False
                    self._waiting.appendleft(waiter)
                waiter.woken.set()
            self._wake_next()

    def _take(self) -> list[_Waiter[T, R]]:
        taken: list[_Waiter[T, R]] = []
        size = 0
        while self._waiting and len(taken) < self._items_max:
            size += self._size_of(self._waiting[0].item)
            if taken and size > self._size_max:
                break
            waiter = self._waiting.popleft()
            waiter.is_taken = True
            taken.append(waiter)
        return taken

    def _wake_next(self) -> None:
        if self._waiting and self._calls_left:
            self._waiting[0].woken.set()
