"""Connects to Redis: bytes in and out, and a socket that outlasts a blocking wait.

`redis/address.py` says where the server is. A connection whose server answers that it is not the
one for writes is given up, and the next one is made to the address that is found then.

A reply that is longer than anything a fleet is answered is not read to its end. Whatever a command
may meet (a note of 512 MiB, a hash of a million fields), this process holds `REPLY_BYTES_MAX` of it
at most; then the connection is given up, and the command fails like one whose server went away.
"""

from contextlib import suppress
from typing import Any, Final, TypeAlias

from redis.asyncio import Redis
from redis.asyncio.connection import DefaultParser
from redis.connection import HiredisRespSerializer
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError, ResponseError

from queues.redis.address import RedisPlace, parse_redis_url
from queues.redis.dropped import count_dropped
from queues.redis.keys import KEY_PREFIX, cluster_prefix
from queues.redis.refusals import refusal_of

WAIT_S_MAX: Final = 60.0
"""Seconds for which one call may wait at the server."""

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
            count_dropped("reply")
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


ELSEWHERE: Final = frozenset(
    {"read_only", "cluster_node", "cluster_down", "loading", "master_down"}
)
"""The refusals after which another server may be the one for writes."""


class PlacedConnection(SaidToBeLost):
    """A connection to the server whose address is found; `place` is its client's."""

    place: RedisPlace
    host: str
    port: int
    is_given_up = False

    async def connect(self) -> None:
        """Connect to the address that counts; a connection to another one ends first.

        Raises:
            ConnectionLost, ResponseError: see `RedisPlace.address`.
        """
        place = self.place
        is_there = place.way == "single" or place.found == (self.host, self.port)
        if is_there and self.is_connected and not self.is_given_up:  # type: ignore[attr-defined]
            return
        address = await place.address()
        await self.disconnect(nowait=True)  # type: ignore[attr-defined]
        if address is not None:
            self.host, self.port = address
        self.is_given_up = False
        try:
            await super().connect()  # type: ignore[misc]
        except (RedisError, OSError):
            place.forget()
            raise

    def pack_command(self, *arguments: Any) -> list[bytes]:
        """Return the bytes of a command, which hiredis joins; redis-py does so in Python.

        Raises:
            DataError: an argument is of a type that has no bytes.
        """
        packed: list[bytes] = HiredisRespSerializer().pack(*arguments)
        return packed

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Return the next reply.

        Raises:
            ResponseError: the server refuses; where another may be the one, this connection ends
                before its next use. Now it may be in the middle of a transaction.
        """
        try:
            return await super().read_response(*arguments, **options)  # type: ignore[misc]
        except ResponseError as error:
            refusal = refusal_of(error)
            if refusal is not None and refusal.name in ELSEWHERE:
                self.place.forget()
                self.is_given_up = True
            raise


RedisClient: TypeAlias = Redis
"""What `connect_redis` returns, for those who only pass it on."""


class PlacedRedis(Redis):
    """A client of the server behind a URL, and the prefix of its keys."""

    place: RedisPlace
    key_prefix: str


def connect_redis(url: str, key_prefix: str = KEY_PREFIX) -> PlacedRedis:
    """Return a client; the connection is made at its first use.

    Raises:
        ValueError: see `parse_redis_url`.
    """
    parsed = parse_redis_url(url)
    prefix = cluster_prefix(key_prefix) if parsed.way == "cluster" else key_prefix
    client: PlacedRedis = PlacedRedis.from_url(
        parsed.plain,
        decode_responses=False,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        parser_class=BoundedParser,
        lib_name=None,  # a name would take a command that Redis 7.0 has not, in its ACL too
        lib_version=None,
    )
    client.place, client.key_prefix = RedisPlace(parsed, prefix), prefix
    pool = client.connection_pool
    # A URL chooses the class: with encryption, without, or a Unix socket.
    bases = (PlacedConnection, pool.connection_class)
    pool.connection_class = type("Connection", bases, {"place": client.place})
    return client


async def follow_place(redis: RedisClient) -> None:
    """Look where the server is; where that has changed, end the connections to the one before.

    Raises:
        ConnectionLost, ResponseError: see `RedisPlace.address`.
    """
    place: RedisPlace | None = getattr(redis, "place", None)
    if place is not None and await place.look():
        await end_connections(redis)


def is_followed(redis: RedisClient) -> bool:
    """Tell whether the server of a client is found by asking others where it is."""
    place: RedisPlace | None = getattr(redis, "place", None)
    return place is not None and place.way != "single"


async def end_connections(redis: RedisClient) -> None:
    """End every connection of a client, with what waits there for an answer."""
    with suppress(RedisError, OSError):
        await redis.connection_pool.disconnect()
