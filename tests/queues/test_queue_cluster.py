"""Every key of a queue lies in the slot of its hash tag, as a cluster's server checks."""

import subprocess
import time

import anyio
import pytest
from redis import Redis as PlainRedis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as NotYetThere

from queues.queue.items import NewItem
from queues.queue.queue_view import ANY_RELAY
from queues.queue.work_queue import WorkQueue
from tests.ports import free_port
from tests.queues.servers import REAL_SERVERS, ServerMissingError, binary_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NAME = "extraction-transition"


def node_port() -> int:
    """Return a port whose bus port, 10 000 higher, is a port too."""
    while (port := free_port()) >= 55_000:
        pass
    return port


@pytest.fixture(params=REAL_SERVERS)
def one_slot_port(request, tmp_path):
    """A cluster node that serves the slot of one queue and no other."""
    try:
        binary = binary_of(request.param)
    except ServerMissingError as missing:
        pytest.skip(str(missing))
    port = node_port()
    settings = {
        "--port": str(port),
        "--bind": "127.0.0.1",
        "--save": "",
        "--cluster-enabled": "yes",
        "--cluster-require-full-coverage": "no",
    }
    command = [str(binary), *(word for pair in settings.items() for word in pair)]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        admin = PlainRedis(port=port)
        deadline_s = time.monotonic() + 10
        while True:
            try:
                slot = admin.execute_command("CLUSTER KEYSLOT", f"rotulus:{{{NAME}}}:")
                break
            except NotYetThere:
                assert time.monotonic() < deadline_s
                time.sleep(0.02)
        admin.execute_command("CLUSTER ADDSLOTS", slot)
        while admin.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        admin.close()
        yield port
    finally:
        server.kill()
        server.wait()


async def test_every_step_of_a_queue_touches_one_slot_alone(one_slot_port) -> None:
    redis = Redis(port=one_slot_port)
    queue = WorkQueue(redis, NAME)

    def item(key: str, cause: str = "c1") -> NewItem:
        return NewItem(key, "normal", cause, b"{}", "op-1")

    await queue.enqueue_many([item(key) for key in "abcde"])
    a, b, c, d = await queue.claim(4, 60_000)
    await queue.enqueue(item("a", cause="c2"))
    await queue.renew([a], 60_000)
    assert await queue.acknowledge([a]) == [True]
    assert await queue.retry([b], [0], "flaky") == [True]
    assert await queue.suspend([c]) == [True]
    assert await queue.bury([d]) == [True]
    await queue.pause("background")
    await queue.resume("background")
    for state in ("ready", "suspended", "delayed", "in_flight"):
        await queue.peek(10, 0, state)
    assert (await queue.depth()).dead == 1
    assert await queue.cancel(["d", "e"]) == ["cancelled", "cancelled"]
    while claims := await queue.claim(10, 60_000):
        await queue.acknowledge(claims)
    await queue.mark()
    assert await queue.current_mark() == ANY_RELAY
    await queue.reap()
    with anyio.fail_after(10):
        assert not await queue.wait(0.02)
    assert (await queue.depth()).in_flight == 0
    await redis.aclose()
