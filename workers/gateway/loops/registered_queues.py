"""Serves the queues that workers have registered: their rows, their places in Redis, their relays.

A queue is served from the commit that registers it, at a gateway that another one's worker told
within a second. What is asked for meanwhile is checked by the record where it is enqueued
and waits for the relay. A queue of which this process has a plug-in of its own is left to that.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from actors.supervision import WakeSignal, keep_running
from kernel.ledger.ledger import Ledger
from kernel.values.errors import LedgerUnavailable
from kernel.work.queue_kinds import QUEUE_KINDS, forget_queue, register_queue
from kernel.work.registrations import kind_of, newest_registration, registered_definitions

Serve = Callable[[str], Callable[[], Coroutine[Any, Any, None]]]
"""Adds a queue to what a gateway serves, and returns what relays it."""

_log = structlog.get_logger(__name__)


class RegisteredQueues:
    """Keeps what a gateway serves at what is registered; run `run` in a task group."""

    def __init__(self, ledger: Ledger, serve: Serve, forget: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._serve = serve
        self._forget = forget
        self._newest: object = None
        self._definitions: dict[str, bytes] = {}
        self._relays: dict[str, anyio.CancelScope] = {}
        self._wake = WakeSignal()
        self._has_looked = anyio.Event()

    async def wait_looked(self) -> None:
        """Wait until it has looked once, so that a first request meets the queues that there are.

        A ledger that is away is not waited for.
        """
        await self._has_looked.wait()

    def notify(self) -> None:
        """Wake it after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled; the rows of this process end with it."""
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    try:
                        await self._look(tasks)
                    except LedgerUnavailable as error:
                        _log.warning("registered_queues_wait", code=error.code)
                    self._has_looked.set()
                    await self._wake.next_look(0)
        finally:
            for name in tuple(self._definitions):
                self._drop(name)
            self._newest = None

    async def _look(self, tasks: TaskGroup) -> None:
        newest = await anyio.to_thread.run_sync(self._ledger.read, newest_registration)
        if newest == self._newest:
            return
        stand = await anyio.to_thread.run_sync(self._ledger.read, registered_definitions)
        for name in self._definitions.keys() - stand.keys():
            self._drop(name)
        for name, definition in stand.items():
            if self._definitions.get(name) != definition:
                self._take(name, definition, tasks)
        self._newest = newest

    def _take(self, name: str, definition: bytes, tasks: TaskGroup) -> None:
        self._definitions[name] = definition
        before = QUEUE_KINDS.get(name)
        if before is not None and not before.is_registered:
            return
        try:
            kind = kind_of(definition)
            register_queue(kind)
        except ValueError as error:
            _log.error("queue_not_served", queue=name, error=str(error))
            return
        if name not in self._relays or before is None or before.priorities != kind.priorities:
            self._stop(name)
            self._relays[name] = anyio.CancelScope()
            tasks.start_soon(self._relay, self._relays[name], name, self._serve(name))
            _log.info("queue_served", queue=name)

    async def _relay(
        self, scope: anyio.CancelScope, name: str, relay: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        with scope:
            await keep_running(f"relay of {name}", relay)

    def _drop(self, name: str) -> None:
        del self._definitions[name]
        self._stop(name)
        if (kind := QUEUE_KINDS.get(name)) is not None and kind.is_registered:
            forget_queue(name)
            self._forget(name)

    def _stop(self, name: str) -> None:
        scope = self._relays.pop(name, None)
        if scope is not None:
            scope.cancel()
