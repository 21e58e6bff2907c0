"""A Redis that answers and refuses is said on the overview, by readiness and by `rotulus status`.

The server is one of its own, and refuses as an operator's would: as a replica, or with too few.
"""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from queues.redis.connection import connect_redis
from tests.queues.topologies import Server, server
from tests.workers.dashboard import served_gateways
from tests.workers.dashboard.served_gateways import ServedGateway, client_of
from tests.workers.dashboard.trouble import peace
from workers.cli.main import main

REFUSING: dict[str, tuple[list[tuple[str, ...]], list[tuple[str, ...]]]] = {
    "read_only": ([("REPLICAOF", "127.0.0.1", "1")], [("REPLICAOF", "NO", "ONE")]),
    "too_few_replicas": (
        [("CONFIG", "SET", "min-replicas-to-write", "1")],
        [("CONFIG", "SET", "min-replicas-to-write", "0")],
    ),
}
REFUSES = "Redis refuses what the gateway needs, so nothing that waits is begun"
LOOKS_MAX = 400
UNREAD = re.compile(r'data-error="queues"><strong>Not read.</strong> <span>(.*?)<')


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, ServedGateway]]:
    folder = tmp_path_factory.mktemp("refusing")
    with server(folder / "redis") as single, pytest.MonkeyPatch.context() as patched:
        # In place of the one in memory, which refuses nothing.
        patched.setattr(served_gateways, "FakeAsyncRedis", lambda **_: connect_redis(single.url))
        with served_gateways.served_gateway(folder, peace) as served:
            yield single, served


def _until(answers: Callable[[], bool]) -> None:
    for _ in range(LOOKS_MAX):
        if answers():
            return
        time.sleep(0.05)
    pytest.fail("it never came to that")


@pytest.mark.parametrize("kind", REFUSING)
def test_a_redis_that_refuses_is_named_everywhere_until_it_is_well(
    refusing: tuple[Server, ServedGateway], kind: str
):
    single, served = refusing
    begin, end = REFUSING[kind]
    refused = f"refused: {kind}: "
    with client_of(served) as http:
        _until(lambda: REFUSES not in http.get("/").text)
        for words in begin:
            single.say(*words)
        try:
            _until(lambda: REFUSES in http.get("/").text)
            overview = http.get("/")
            assert overview.status_code == 200
            [unread] = UNREAD.findall(overview.text)
            assert "(queue_refused)" in unread
            unready = http.get("/readyz")
            assert unready.status_code == 503
            said = unready.json()["problems"]["redis"]
            assert said.startswith(refused)
            assert len(said) > len(refused)
            shown = CliRunner().invoke(main, ["status", "--gateway", served.url])
            assert shown.exit_code == 1
            assert REFUSES in shown.stdout
        finally:
            for words in end:
                single.say(*words)
        _until(lambda: http.get("/readyz").is_success)
        _until(lambda: REFUSES not in http.get("/").text)
        assert http.get("/v1/queues").status_code == 200
