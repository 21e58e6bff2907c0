"""A Tee that is spoken to over TLS."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from actors.incidents.ledger_elimination_store import LedgerEliminationStore
from actors.orchestrator.orchestrator import Orchestrator
from kernel.belief.elimination_store import EliminationStoreUnavailable
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.transaction.kernel import Kernel
from tests.certificates import AUTHORITY, STRANGER, write_pair
from tests.workers.tee.fake_tee import node
from workers.environment.system_host import system_host
from workers.environment.tls_identity import TlsIdentity
from workers.tee import tee_pb2 as wire
from workers.tee.rpc import client_methods
from workers.tee.server import TeeServer
from workers.tee.store import TeeStore

TRUSTED = AUTHORITY.cert_pem.bytes()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    ledger = Ledger.create(MemoryStore(), system_host())
    store = LedgerEliminationStore(ledger, Kernel(), Orchestrator(ledger.host, 60), "tee")
    server = TeeServer(ledger, store, "127.0.0.1:0", TlsIdentity(*write_pair(tmp_path)))
    store.take()
    server.start()
    yield f"127.0.0.1:{server.port}"
    server.stop(0)


def test_sessions_are_kept_over_tls_also_after_a_renewal(target: str, tmp_path: Path):
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(TRUSTED)) as channel:
        delta = wire.HypothesisDelta(nodes=[node("svc-a"), node("svc-b")])
        client_methods(channel)["MergeHypothesis"](delta)
    for name in ("s1", "s2"):
        with closing(TeeStore(target, authorities=TRUSTED)) as store:
            store.create_session(name, {"svc-a", "svc-b"})
            assert store.get_survivors(name) == {"svc-a", "svc-b"}
        write_pair(tmp_path)


@pytest.mark.parametrize("authorities", [None, STRANGER.cert_pem.bytes()])
def test_who_speaks_in_the_clear_or_trusts_others_gets_no_answer(
    target: str, authorities: bytes | None
):
    with (
        closing(TeeStore(target, authorities=authorities, timeout_s=5)) as store,
        pytest.raises(EliminationStoreUnavailable),
    ):
        store.create_session("s", {"svc-a"})
