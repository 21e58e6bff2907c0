"""Runs a client on an event loop in a thread of its own, for programs without one.

1. The thread begins with the first call. It is a daemon, so that a program that closes nothing ends
   all the same.
2. A caller's iterable is iterated in the caller's thread: a source may belong to that thread, or
   refuse to run beside an event loop, as Django's does.
3. A thread does not live on in a forked process: a client that was used before a fork says so.
"""

import os
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from inspect import isawaitable
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from .errors import GatewayError

T = TypeVar("T")
_END = object()


class LoopThread:
    """An event loop in a thread, which begins with the first call."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pid = 0
        self._portal: BlockingPortal | None = None
        self._thread: Thread | None = None

    def run(self, call: Callable[[], Awaitable[T]], sources: Sequence["CallersSource"] = ()) -> T:
        """Return what a call returns on the loop; meanwhile `sources` are read in this thread."""
        wanted: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        for source in sources:
            source.wanted = wanted
        future = self.portal().start_task_soon(call)
        future.add_done_callback(lambda _: wanted.put(None))
        try:
            while (read := wanted.get()) is not None:
                read()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def portal(self) -> BlockingPortal:
        """Return the way onto the loop.

        Raises:
            RuntimeError: the loop began before this process was forked.
        """
        with self._lock:
            if self._portal is None:
                begun: Future[BlockingPortal] = Future()
                self._pid = os.getpid()
                self._thread = Thread(
                    target=_serve, args=(begun,), name="rotulus-client", daemon=True
                )
                self._thread.start()
                self._portal = begun.result()
            if self._pid != os.getpid():
                raise RuntimeError("this client was used before the fork: make one in each process")
            return self._portal

    def close(self) -> None:
        """End the loop; a later call would begin another."""
        with self._lock:
            portal, thread, self._portal, self._thread = self._portal, self._thread, None, None
        if portal is not None and thread is not None and self._pid == os.getpid():
            portal.start_task_soon(portal.stop, True)
            thread.join()


def _serve(begun: "Future[BlockingPortal]") -> None:
    async def stay() -> None:
        async with BlockingPortal() as portal:
            begun.set_result(portal)
            await portal.sleep_until_stopped()

    try:
        anyio.run(stay)
    except BaseException as error:
        if not begun.done():
            begun.set_exception(error)
        raise


class CallersSource(Iterator[Any]):
    """Reads an iterable in the thread of whoever waits for the call."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = iter(source)
        self.wanted: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        """Where the caller's thread is asked to read on."""

    def __next__(self) -> Any:
        answer: Future[Any] = Future()

        def read() -> None:
            try:
                answer.set_result(next(self._source, _END))
            except BaseException as error:  # noqa: BLE001 - whatever it is, the call raises it
                answer.set_exception(error)

        self.wanted.put(read)
        value = answer.result()
        if value is _END:
            raise StopIteration
        return value


class Blocking(Generic[T]):
    """A part of a client for threads: each method waits for the one of its name on the loop."""

    _twins: ClassVar[dict[type, type["Blocking[Any]"]]] = {}

    def __init_subclass__(cls, of: type | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            Blocking._twins[of] = cls

    def __init__(self, of: T, loop: LoopThread) -> None:
        self._of = of
        self._loop = loop

    def __repr__(self) -> str:
        return f"Blocking{self._of!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocking) and bool(self._of == other._of)

    def __hash__(self) -> int:
        return hash(self._of)

    def _call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        sources: list[CallersSource] = []
        call = partial(
            _on_loop,
            method,
            *(_for_loop(each, sources) for each in arguments),
            **{name: _for_loop(each, sources) for name, each in named.items()},
        )
        answer = self._run(call, sources)
        if isinstance(answer, AsyncIterator):
            return self._iterate(answer, sources)
        return self._twin(answer)

    def _run(
        self, call: Callable[[], Awaitable[Any]], sources: Sequence[CallersSource] = ()
    ) -> Any:
        try:
            return self._loop.run(call, sources)
        except GatewayError as error:
            error.jobs = tuple(map(self._twin, error.jobs))
            raise

    def _iterate(
        self, items: AsyncIterator[Any], sources: Sequence[CallersSource]
    ) -> Iterator[Any]:
        async def next_item() -> Any:
            return await anext(items, _END)

        try:
            while (item := self._run(next_item, sources)) is not _END:
                yield self._twin(item)
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                self._run(close, sources)

    def _twin(self, value: Any) -> Any:
        """Return a value as threads use it: what can be waited for on the loop has a twin here."""
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(map(self._twin, value))
        twin = self._twins.get(type(value))
        return value if twin is None else twin(value, self._loop)


class BlockingContext(Blocking[T]):
    """A part that has to be entered."""

    _entered: AbstractContextManager[Any]

    def __enter__(self) -> Self:
        of: Any = self._of
        self._entered = self._loop.portal().wrap_async_context_manager(of)
        self._entered.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered.__exit__(kind, error, traceback)


class BlockingClient(Blocking[T]):
    """A client as a whole; use as a context manager, or close it, or leave it to the process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the loop."""
        of: Any = self._of
        self._run(of.aclose)
        self._loop.close()


async def _on_loop(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    answer = method(*arguments, **named)
    return await answer if isawaitable(answer) else answer


def _for_loop(value: Any, sources: list[CallersSource]) -> Any:
    """Return an argument as the loop may use it."""
    if isinstance(value, Blocking):
        return value._of  # noqa: SLF001 - of its own module
    if isinstance(value, (list, tuple)):
        return [_for_loop(each, sources) for each in value]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        source = CallersSource(value)
        sources.append(source)
        return source
    return value
