"""How a process connects to Redis: bytes in and out, and a socket that outlasts a blocking wait."""

from redis.asyncio import Redis

from queues.work_queue import WAIT_S_MAX

SOCKET_TIMEOUT_S = WAIT_S_MAX + 10
CONNECT_TIMEOUT_S = 5.0


def connect_redis(url: str) -> Redis:
    """Return a client; the connection is made at its first use."""
    client: Redis = Redis.from_url(
        url,
        decode_responses=False,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
    )
    return client
