"""`rotulus tree` and `rotulus submit --proof`, against a gateway in the test's process."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest

from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import create, ledger_on
from tests.kernel.build import submit as submit_to
from tests.kernel.tampering import Copy, verify_file
from tests.workers.api.door import ONTOLOGY, SESSION, running_door
from tests.workers.api.witnessed_gateway import WitnessedLog
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.test_queues import OneRecord
from workers.cli import gateway_call

pytestmark = pytest.mark.spec("P5")


@pytest.fixture
def record(monkeypatch) -> OneRecord:
    record = OneRecord()
    monkeypatch.setattr(gateway_call, "GatewayClient", record.client)
    body = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a", "b"]}
    gateway_call.ask_gateway("http://gateway", "/v1/sessions", body)
    return record


@pytest.mark.usefixtures("record")
def test_an_envelope_is_submitted_with_a_proof_and_the_log_only_grows():
    before = printed("tree", "head", "--json")["tree_head"]
    envelope = json.dumps(create("n-1", "SourceArtifact"))
    plain = printed("submit", SESSION, "-", "--json", stdin=envelope)
    proved = printed("submit", SESSION, "-", "--proof", "--json", stdin=envelope)
    assert plain["row_hash"] == proved["row_hash"]
    assert proved["inclusion_proof"]["included"]
    sequence = plain["ec_sequence_number"]
    shown = printed("tree", "inclusion", sequence, "--json")
    assert json.loads(shown["row"])["operation_id"] == plain["operation_id"]
    grown = printed("tree", "consistency", before, "--json")
    assert grown["tree_head"] == shown["tree_head"]


@pytest.mark.usefixtures("record")
def test_a_log_that_is_not_that_of_the_kept_head_is_refused():
    envelope = json.dumps(create("n-1", "SourceArtifact"))
    printed("submit", SESSION, "-", "--json", stdin=envelope)
    refused = rotulus("tree", "consistency", f"1:{'00' * 32}")
    assert refused.exit_code == 1
    assert "proof_invalid" in refused.stderr
    for none in ("no-head", "5", "5:", "5:00", "-1:" + "00" * 32):
        result = rotulus("tree", "consistency", "--", none)
        assert result.exit_code == 2
        assert "a tree head is SIZE:ROOT" in result.stderr
    assert "tree_size_invalid" in rotulus("tree", "inclusion", "99").stderr
    assert "not JSON" in rotulus("submit", SESSION, "-", stdin="{").stderr


def test_an_envelope_is_submitted_until_witnesses_have_cosigned(monkeypatch, tmp_path):
    log = WitnessedLog(tmp_path)
    record = PublishingRecord(log)
    monkeypatch.setattr(gateway_call, "GatewayClient", record.client)
    body = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a", "b"]}
    gateway_call.ask_gateway("http://gateway", "/v1/sessions", body)
    policy, others = tmp_path / "policy", tmp_path / "others"
    policy.write_bytes(log.policy_bytes)
    others.write_bytes(log.policy_bytes.split(b"witness")[0] + b"quorum none\n")
    envelope = json.dumps(create("n-1", "SourceArtifact"))
    options = ("submit", SESSION, "-", "--durability", "witnessed", "--within", "30", "--json")
    options += ("--policy",)
    log.is_away = True
    late = rotulus(*options, str(policy), "--within", "0", stdin=envelope)
    assert late.exit_code == 1
    assert "witnesses_not_in_time: " in late.stderr
    assert json.loads(late.stdout)["durability"]["state"] == "committed"
    log.is_away = False
    shown = printed(*options, str(policy), stdin=envelope)
    assert shown["verified_here"] == "witnessed 1 of 1"
    assert shown["ec_sequence_number"] == json.loads(late.stdout)["ec_sequence_number"]
    unknown = rotulus(*options, str(others), stdin=envelope)
    assert unknown.exit_code == 1
    assert "proof_invalid: by this policy the checkpoint is consistent but" in unknown.stderr
    assert rotulus("submit", SESSION, "-", "--policy", str(policy), stdin="{}").exit_code == 2
    assert "witness_policy_invalid" in rotulus(*options, str(log.key), stdin=envelope).stderr


class PublishingRecord(OneRecord):
    """A gateway for each call, which publishes its log to one witness."""

    def __init__(self, log):
        super().__init__()
        self._log = log

    @asynccontextmanager
    async def door(self):
        options = {"host": self.host, "publishing": self._log.publishing}
        async with running_door(self.store, **options) as door, anyio.create_task_group() as tasks:
            tasks.start_soon(door.services.publishing.run)
            yield door
            tasks.cancel_scope.cancel()


def test_a_tree_that_was_tampered_with_is_built_again(data_folder):
    ledger, _ = ledger_on(SqliteStore(data_folder.ledger_path))
    submit_to(ledger, create("n-1", "Note"))
    ledger.close()
    honest = verify_file(data_folder.ledger_path)
    copy = Copy(data_folder.ledger_path)
    copy.run("UPDATE chain_head SET frontier = x'00'")
    assert [finding.rule for finding in copy.verify().findings] == ["frontier_differs"]
    built = printed("tree", "rebuild", "--json")
    assert built["root_hash"] == honest.tree_root
    assert verify_file(data_folder.ledger_path).findings == ()


def test_there_is_no_tree_where_there_is_no_ledger(data_folder):
    assert "ledger_unavailable" in rotulus("tree", "rebuild").stderr
    assert not data_folder.ledger_path.exists()
