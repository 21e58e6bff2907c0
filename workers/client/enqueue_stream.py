"""Streams requests: `put` returns as soon as there is room, the stream ends on the record."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import anyio

from .contents import JobContent
from .errors import GatewayError
from .jobs import Job


class EnqueueStream:
    """Asks for work one after another and lets many be on their way; an async context manager.

    What is put is sent at once, with what was put while the call before was on its way. The block
    ends when everything that was put is on the record; where it fails or is cancelled, what was
    put may or may not be.
    """

    def __init__(self, enqueue: Callable[..., Awaitable[Job[Any]]], waiting_max: int) -> None:
        """`waiting_max` is how many may have been put and not answered yet."""
        self.recorded = 0
        """How many are on the record."""

        self._enqueue = enqueue
        self._room = anyio.Semaphore(waiting_max)
        self._tasks = anyio.create_task_group()
        self._refusal: GatewayError | None = None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait until everything is on the record.

        Raises:
            GatewayError: the first refusal that `put` has not raised.
        """
        if error is not None:
            self._tasks.cancel_scope.cancel()
        # Told of the error, the group would wrap it.
        await self._tasks.__aexit__(None, None, None)
        if error is None:
            self._raise_refusal()

    async def put(self, content: JobContent, **options: Any) -> None:
        """Take a content with the options of `Rotulus.enqueue`; returns when there is room.

        Raises:
            GatewayError: one that was put before was refused; nothing more is taken.
        """
        self._raise_refusal()
        await self._room.acquire()
        self._tasks.start_soon(self._send, content, options)

    async def _send(self, content: JobContent, options: dict[str, Any]) -> None:
        try:
            await self._enqueue(content, **options)
            self.recorded += 1
        except GatewayError as error:
            self._refusal = self._refusal or error
        finally:
            self._room.release()

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            raise self._refusal
