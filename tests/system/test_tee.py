"""A tree whose sessions keep their tombstones in `rotulus tee`, both on one ledger, both killed."""

import re
import signal
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests import loopback
from tests.system.tree_run import STAND_S, TreeRun, running, wait_for
from tests.workers.tee.fake_tee import calling, seed
from workers.environment.ledger_verification import verify_file
from workers.tee import tee_pb2 as wire

EDGE = "edge:svc-a|svc-b|DEPENDS_ON"
UNIVERSE = frozenset({"svc-a", "svc-b", "svc-c", EDGE})
ONTOLOGY = dict.fromkeys(
    ("hypothesis_space_id", "hypothesis_version", "causal_graph_ref", "causal_graph_version"), "v1"
)


def target_of(tee: TreeRun) -> str:
    listens = wait_for("tee", lambda: re.search(r"listens on (\S+)", tee.stdout), STAND_S)
    return listens[1]


def struck_in(target: str, session_id: str) -> frozenset[str]:
    with calling(target) as stub:
        tombstones = stub.GetTombstones(wire.TombstoneRequest(incident_id=session_id))
    edges = [f"edge:{entry.source}|{entry.target}|DEPENDS_ON" for entry in tombstones.edge_entries]
    return frozenset([*tombstones.node_ids, *edges])


class PersistentSession:
    """A session over HTTP that asks again while a process comes back."""

    def __init__(self, url: str) -> None:
        self.url, self.id = f"{url}/v1/sessions", str(uuid4())

    def declare(self) -> httpx.Response:
        body = {"session_id": self.id, "ontology": ONTOLOGY, "hypotheses": sorted(UNIVERSE)}
        return loopback.post(self.url, json={**body, "elimination_store": "tee"}, timeout=30)

    def strike(self, *names: str) -> httpx.Response:
        body = {"source_id": "probe", "observation_id": names[0], "eliminated": names}
        return loopback.post(f"{self.url}/{self.id}/eliminate", json=body, timeout=30)

    def until_answered(self, *names: str) -> dict:
        def ask() -> httpx.Response | None:
            try:
                answer = self.strike(*names)
            except httpx.TransportError:
                return None
            return answer if answer.status_code == 200 else None

        return wait_for("an answer", ask, STAND_S).json()


def start_tee(folder: Path, port: str) -> TreeRun:
    return running(folder / "data", "tee", "--port", port)


@pytest.mark.spec("seed 000 §7.2", "seed 000 §6")
@pytest.mark.timeout(150)
def test_session_and_tee_agree_through_kills_of_both(tmp_path):
    with start_tee(tmp_path, "0") as tee:
        target = target_of(tee)
        port = target.rpartition(":")[2]
        seed(target, UNIVERSE)
        environment = {"ROTULUS_TEE_TARGET": target}
        with running(tmp_path / "data", "up", env=environment) as tree:
            session = PersistentSession(tree.wait_until_up()["gateway_url"])
            assert session.declare().status_code == 201
            assert session.strike("svc-a").json()["applied_eliminated"] == ["svc-a"]
            tree.kill("gateway")
            session.until_answered(EDGE)
            assert struck_in(target, session.id) == {"svc-a", EDGE}
            tee.process.kill()
            tee.process.wait(10)
            failed = session.strike("svc-b")
            assert failed.status_code == 503
            assert failed.json()["error"]["code"] == "elimination_store_unavailable"
            with start_tee(tmp_path, port) as second:
                target = target_of(second)
                snapshot = session.until_answered("svc-b")["snapshot"]
                assert snapshot["survivors"] == ["svc-c"]
                assert struck_in(target, session.id) == UNIVERSE - {"svc-c"}
                second.process.send_signal(signal.SIGTERM)
                assert second.finish(30) == 0
    verification = verify_file(tmp_path / "data" / "ledger.db", lambda _done, _total: None)
    assert verification.ok, verification.findings
