"""How a process connects to Redis: bytes in and out, and a socket that outlasts a blocking wait."""

from typing import TypeAlias

from redis.asyncio import Redis
from redis.exceptions import RedisError

from queues.work_queue import WAIT_S_MAX

SOCKET_TIMEOUT_S = WAIT_S_MAX + 10
CONNECT_TIMEOUT_S = 5.0

RedisClient: TypeAlias = Redis
"""What `connect_redis` returns, for those who only pass it on."""


def connect_redis(url: str) -> RedisClient:
    """Return a client; the connection is made at its first use."""
    client: Redis = Redis.from_url(
        url,
        decode_responses=False,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
    )
    return client


async def redis_problem(redis: RedisClient) -> str | None:
    """Return what kind of error Redis answers with, None where it answers."""
    try:
        await redis.ping()
    except (RedisError, OSError) as error:
        return type(error).__name__
    return None
