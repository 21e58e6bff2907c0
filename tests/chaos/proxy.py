"""TCP proxies on loopback that delay, lose and cut what goes through them.

All of them share one event loop in a thread of their own, so that whoever starts faults may block.
"""

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

CHUNK = 64 * 1024
STOP_S = 5.0
COMMIT = b"COMMIT\x00"
"""The end of the message that asks PostgreSQL to commit, unless it is prepared."""

COMMIT_PREPARED = re.compile(rb"P.{4}([^\x00]+)\x00COMMIT\x00", re.DOTALL)
"""The message that gives a prepared COMMIT its name."""

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""The message by which PostgreSQL says that it has committed."""

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """One address in front of one server."""

    def __init__(self, connect: Callable[[], Awaitable[Opened]]) -> None:
        self.port = 0
        self.delay_s = 0.0
        """Before each piece of data is passed on, in each direction."""

        self.is_silent = False
        """What connects meanwhile is heard of never."""

        self.cuts_commit: Literal["", "before", "after"] = ""
        """The next COMMIT ends its connection, before or after it is carried out; no other does."""

        self._connect = connect
        self._open = asyncio.Event()
        self._open.set()
        self._connections: set[_Connection] = set()

    async def listen(self) -> asyncio.Server:
        """Listen on a free port of loopback."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def cut(self) -> None:
        """End every connection in the middle of what it was saying, and take no new one."""
        self._open.clear()
        for connection in list(self._connections):
            connection.reset()

    async def mend(self) -> None:
        """Take connections again."""
        self._open.set()

    def lose(self) -> None:
        """Pass nothing on any more of the connections that are open, and end none of them."""
        for connection in list(self._connections):
            connection.is_lost = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open.is_set():
            _reset(writer)
            return
        try:
            beyond, to = await self._connect()
        except OSError:
            _reset(writer)
            return
        connection = _Connection(writer, to, is_lost=self.is_silent)
        self._connections.add(connection)
        passing = [
            asyncio.create_task(self._pass_on(connection, source, sink, cut))
            for source, sink, cut in (
                (reader, to, self._cuts_before),
                (beyond, writer, self._cuts_after),
            )
        ]
        try:
            # A cancelled handler would be reported as a defect of the server.
            with suppress(asyncio.CancelledError):
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            self._connections.remove(connection)
            writer.close()
            to.close()

    async def _pass_on(
        self,
        connection: "_Connection",
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        cuts: Callable[["_Connection", bytes], bool],
    ) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if connection.is_lost:
                    continue
                if cuts(connection, data):
                    self.cuts_commit = ""
                    connection.reset()
                    return
                sink.write(data)
                await sink.drain()

    def _cuts_before(self, connection: "_Connection", data: bytes) -> bool:
        """Tell whether what a client says ends its connection."""
        connection.commits |= set(COMMIT_PREPARED.findall(data))
        return self.cuts_commit == "before" and (
            COMMIT in data or any(b"\x00%b\x00" % name in data for name in connection.commits)
        )

    def _cuts_after(self, _connection: "_Connection", data: bytes) -> bool:
        """Tell whether what the server says ends its client's connection."""
        return self.cuts_commit == "after" and COMMITTED in data


@dataclass(slots=True, eq=False)
class _Connection:
    """Both ends of what goes through a proxy."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    is_lost: bool
    commits: set[bytes] = field(default_factory=set)
    """The names of prepared COMMITs."""

    def reset(self) -> None:
        _reset(self.near)
        _reset(self.far)


class Proxies:
    """The thread in which proxies run, for the time of a block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies")
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine where the proxies are and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def to_port(self, port: int) -> Proxy:
        """Return a proxy in front of a port of loopback."""
        return self._start(Proxy(lambda: asyncio.open_connection("127.0.0.1", port)))

    def to_socket(self, path: Callable[[], Path]) -> Proxy:
        """Return a proxy in front of the Unix socket that is the one when something connects."""
        return self._start(Proxy(lambda: asyncio.open_unix_connection(path())))

    def _start(self, proxy: Proxy) -> Proxy:
        self._servers.append(self.run(proxy.listen()))
        return proxy

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        mine = asyncio.current_task()
        other_tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in other_tasks:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*other_tasks, return_exceptions=True), STOP_S)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a machine that went away would, without a goodbye."""
    at_once = struct.pack("ii", 1, 0)
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()
