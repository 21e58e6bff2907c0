"""A connection whose transport was closed meanwhile is lost, and nothing else."""

import pytest
from redis.exceptions import ConnectionError as ConnectionLost

from queues.redis.connection import SaidToBeLost, connect_redis

pytestmark = pytest.mark.anyio


class Closed:
    """What a connection of uvloop does once its transport was closed."""

    async def send_packed_command(self, *_: object) -> None:
        raise RuntimeError("unable to perform operation on a transport; the handler is closed")


class Lost(SaidToBeLost, Closed):
    pass


async def test_a_write_on_a_closed_transport_is_a_lost_connection():
    with pytest.raises(ConnectionLost, match="handler is closed"):
        await Lost().send_packed_command([b"PING"])


@pytest.mark.parametrize("url", ["redis://localhost/0", "rediss://localhost/0", "unix:///socket"])
async def test_every_kind_of_connection_says_so(url):
    redis = connect_redis(url)
    assert isinstance(redis.connection_pool.make_connection(), SaidToBeLost)
    await redis.aclose()
