"""A Tee that takes keys answers who shows the worker token, and health to everybody."""

from collections.abc import Iterator
from contextlib import closing

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from grpc_health.v1 import health_pb2, health_pb2_grpc

from actors.incidents.ledger_elimination_store import LedgerEliminationStore
from actors.orchestrator.orchestrator import Orchestrator
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.transaction.kernel import Kernel
from tests.workers.tee.fake_tee import node
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.tee import tee_pb2 as wire
from workers.tee.rpc import authorization_of, client_methods
from workers.tee.server import TeeServer, TeeStartError, serve_tee
from workers.tee.store import TeeStore

TOKEN = "what-workers-know"  # noqa: S105 - for tests
SHOWN = (("authorization", authorization_of(TOKEN)),)


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    ledger = Ledger.create(MemoryStore(), system_host())
    store = LedgerEliminationStore(ledger, Kernel(), Orchestrator(ledger.host, 60), "tee")
    server = TeeServer(ledger, store, "127.0.0.1:0", token=TOKEN)
    store.take()
    server.start()
    yield f"127.0.0.1:{server.port}"
    server.stop(0)


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", f"Bearer {TOKEN}"),),
        (("authorization", authorization_of("another")),),
        (("key", authorization_of(TOKEN)),),
    ],
)
def test_without_the_token_no_method_answers(target: str, metadata: tuple[tuple[str, str], ...]):
    with grpc.insecure_channel(target) as channel:
        for call in client_methods(channel).values():
            with pytest.raises(grpc.RpcError) as refused:
                call(Empty(), metadata=metadata, timeout=20)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]
            assert TOKEN not in str(refused.value)


def test_a_gateway_that_shows_it_keeps_sessions_there(target: str):
    with grpc.insecure_channel(target) as channel:
        delta = wire.HypothesisDelta(nodes=[node("svc-a")])
        client_methods(channel)["MergeHypothesis"](delta, metadata=SHOWN, timeout=20)
    with closing(TeeStore(target, token=TOKEN)) as store:
        store.create_session("s", {"svc-a"})
        assert store.get_survivors("s") == {"svc-a"}


def test_health_is_told_to_everybody(target: str):
    with grpc.insecure_channel(target) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=20
        )
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_without_a_token_to_show_it_does_not_start(tmp_path):
    settings = Settings(data_dir=tmp_path / "data", access="keys")
    with pytest.raises(TeeStartError) as refused:
        serve_tee(settings, 0, lambda _: None)
    assert refused.value.code == "tee_token_missing"
