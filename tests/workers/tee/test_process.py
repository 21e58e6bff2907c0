"""`rotulus tee` as a process: where it listens, its health, how it stops, what a kill leaves."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from google.protobuf.empty_pb2 import Empty
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kernel.verify import verify
from tests.workers.tee.fake_tee import calling, node, seed, why
from workers.cli.main import main
from workers.environment.ledger_access import open_record
from workers.tee import tee_pb2 as wire

ROOT = Path(__file__).parents[3]
ENV = {name: value for name, value in os.environ.items() if not name.startswith("ROTULUS_")}
STRUCK_BEFORE_KILL = 5

pytestmark = pytest.mark.slow


@contextmanager
def tee_process(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "workers", "tee", "--port", "0", "--data-dir", str(folder)],
        cwd=ROOT,
        env=ENV,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("tee listens on 127.0.0.1:")
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def check_record(folder):
    with open_record(folder / "ledger.db") as view:
        assert verify(view).findings == ()


def health_of(target, service=""):
    with grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        return health.Check(health_pb2.HealthCheckRequest(service=service)).status


def test_it_is_healthy_until_it_is_told_to_stop_and_then_ends_in_order(tmp_path):
    with tee_process(tmp_path) as (process, target):
        for service in ("", "tee.Tee"):
            assert health_of(target, service) == health_pb2.HealthCheckResponse.SERVING
        seed(target, frozenset({"a"}))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    # The write-ahead log was folded into the file.
    assert not (tmp_path / "ledger.db-wal").exists()
    check_record(tmp_path)


def test_of_two_the_one_that_was_started_first_is_refused_and_says_that_it_does_not_serve(tmp_path):
    with (
        tee_process(tmp_path) as (_, first),
        calling(first) as older,
    ):
        older.MergeHypothesis(wire.HypothesisDelta(nodes=[node("n1")]))
        with tee_process(tmp_path) as (_, second), calling(second) as newer:
            with pytest.raises(grpc.RpcError) as refused:
                older.MergeHypothesis(wire.HypothesisDelta(nodes=[node("n2")]))
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            assert refused.value.details().startswith("stale_epoch: ")
            assert health_of(first) == health_pb2.HealthCheckResponse.NOT_SERVING
            newer.MergeHypothesis(wire.HypothesisDelta(nodes=[node("n3")]))
            assert health_of(second) == health_pb2.HealthCheckResponse.SERVING
            assert [stored_node.id for stored_node in older.GetMainGraph(Empty()).nodes] == [
                "n1",
                "n3",
            ]
    check_record(tmp_path)


def test_what_was_answered_survives_a_kill(tmp_path):
    names = [f"n{number:03}" for number in range(200)]
    answers = []
    with tee_process(tmp_path) as (process, target), calling(target) as stub:
        stub.MergeHypothesis(wire.HypothesisDelta(nodes=map(node, names)))
        stub.CreateIncident(wire.CreateIncidentRequest(incident_id="inc"))
        pending = []
        for name in names:
            request = {"incident_id": "inc", "node_ids": [name], "provenance": why()}
            call = stub.MergeNodeTombstones.future(wire.NodeTombstoneRequest(**request))
            if len(answers) < STRUCK_BEFORE_KILL:
                answers += call.result().applied_ids
            else:
                pending.append(call)
        process.kill()
        for call in pending:
            if call.exception() is None:
                answers += call.result().applied_ids
    assert len(answers) >= STRUCK_BEFORE_KILL
    check_record(tmp_path)
    with tee_process(tmp_path) as (_, target), calling(target) as stub:
        assert [stored_node.id for stored_node in stub.GetMainGraph(Empty()).nodes] == names
        struck = set(stub.GetTombstones(wire.TombstoneRequest(incident_id="inc")).node_ids)
        live = {
            stored_node.id
            for stored_node in stub.GetLiveView(wire.LiveViewRequest(incident_id="inc")).nodes
        }
        assert set(answers) <= struck
        assert live == set(names) - struck
        request = {"incident_id": "inc", "node_ids": names, "provenance": why()}
        rest = stub.MergeNodeTombstones(wire.NodeTombstoneRequest(**request))
        assert set(rest.applied_ids) == live
        assert set(rest.already_tombstoned_ids) == struck


def test_a_port_in_use_and_a_host_that_others_reach_are_clear_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("ROTULUS_HOST", "192.0.2.1")
    refused = CliRunner().invoke(main, ["tee", "--data-dir", str(tmp_path)])
    assert refused.exit_code == 1
    assert "host_not_loopback" in refused.output
    with tee_process(tmp_path) as (_, target):
        port = target.rpartition(":")[2]
        command = [sys.executable, "-m", "workers", "tee", "--port", port]
        second = subprocess.run(
            [*command, "--data-dir", str(tmp_path)],
            cwd=ROOT,
            env=ENV,
            capture_output=True,
            text=True,
            check=False,
            timeout=40,
        )
    assert second.returncode == 1
    assert "address_unusable" in second.stderr
