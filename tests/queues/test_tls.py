"""A Redis that is spoken to over TLS, by a URL alone."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest
from redis.exceptions import ConnectionError as ConnectionLost

from queues.redis.connection import connect_redis
from tests.certificates import authority_file, write_pair
from tests.ports import free_port
from tests.queues.servers import ServerMissingError, binary_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    try:
        program = binary_of("redis-7")
    except ServerMissingError as error:
        pytest.skip(str(error))
    cert, key = write_pair(tmp_path)
    port = free_port()
    options = {
        "port": 0,
        "tls-port": port,
        "tls-cert-file": cert,
        "tls-key-file": key,
        "tls-ca-cert-file": authority_file(tmp_path),
        "tls-auth-clients": "no",
        "dir": tmp_path,
        "save": "",
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    with subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL) as server:
        yield f"rediss://127.0.0.1:{port}/0"
        server.terminate()


async def test_queues_reach_a_redis_over_tls_whose_certificate_they_check(
    place: str, tmp_path: Path
):
    trusting = f"{place}?ssl_ca_certs={quote(str(authority_file(tmp_path)))}"
    async with connect_redis(trusting) as redis:
        with anyio.fail_after(20):
            while True:
                try:
                    assert await redis.ping()
                    break
                except ConnectionLost:
                    await anyio.sleep(0.02)
        await redis.set("rotulus:{q}:x", b"1")
    with pytest.raises(ConnectionLost, match="certificate"):
        async with connect_redis(place) as distrusting:
            await distrusting.ping()
