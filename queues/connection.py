"""How a process connects to Redis: bytes in and out, and a socket that outlasts a blocking wait.

A reply that is longer than anything a fleet is answered is not read to its end. Whatever a command
may meet (a note of 512 MiB, a hash of a million fields), this process holds `REPLY_BYTES_MAX` of it
at most; then the connection is given up, and the command fails like one whose server went away.
"""

from typing import Any, Final, TypeAlias

from redis.asyncio import Redis
from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError

from queues.dropped import dropped
from queues.work_queue import WAIT_S_MAX

SOCKET_TIMEOUT_S = WAIT_S_MAX + 10
CONNECT_TIMEOUT_S = 5.0
REPLY_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than any script answers: what it may read at once, and the last value that goes beyond."""


class BoundedParser(DefaultParser):  # type: ignore[misc,valid-type]  # chosen at import, by what is installed
    """Reads replies of at most `REPLY_BYTES_MAX`."""

    _reply_bytes = 0

    async def read_response(self, disable_decoding: bool = False) -> Any:  # noqa: FBT001, FBT002 - redis-py's
        """Return the next reply.

        Raises:
            ConnectionLost: also when the reply is too long.
        """
        self._reply_bytes = 0
        return await super().read_response(disable_decoding)

    async def read_from_socket(self) -> bool:
        """Feed what has arrived, unless the reply is too long already."""
        received = await self._stream.read(self._read_size)
        if not received:
            raise ConnectionLost("the server closed the connection")
        self._reply_bytes += len(received)
        if self._reply_bytes > REPLY_BYTES_MAX:
            dropped("reply")
            raise ConnectionLost(f"a reply of more than {REPLY_BYTES_MAX} bytes")
        self._reader.feed(received)
        return True


class SaidToBeLost:
    """A part of a connection: whatever a closed transport raises is a lost connection.

    A transport of uvloop that was closed meanwhile raises `RuntimeError` at a write.
    """

    async def send_packed_command(self, *arguments: Any, **options: Any) -> None:
        """Send what was packed.

        Raises:
            ConnectionLost: also when the transport is closed.
        """
        try:
            await super().send_packed_command(*arguments, **options)  # type: ignore[misc]
        except RuntimeError as error:
            raise ConnectionLost(str(error)) from error


RedisClient: TypeAlias = Redis
"""What `connect_redis` returns, for those who only pass it on."""


def connect_redis(url: str) -> RedisClient:
    """Return a client; the connection is made at its first use."""
    client: Redis = Redis.from_url(
        url,
        decode_responses=False,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        parser_class=BoundedParser,
    )
    pool = client.connection_pool
    # A URL chooses the class: with encryption, without, or a Unix socket.
    pool.connection_class = type("Connection", (SaidToBeLost, pool.connection_class), {})
    return client


async def redis_problem(redis: RedisClient) -> str | None:
    """Return what kind of error Redis answers with, None where it answers."""
    try:
        await redis.ping()
    except (RedisError, OSError) as error:
        return type(error).__name__
    return None
