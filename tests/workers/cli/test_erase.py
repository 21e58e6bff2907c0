"""`rotulus erase` and `rotulus hold`, against a gateway in the test's process."""

import anyio
import pytest

from tests.workers.api.test_thoughts import SESSION, closed
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.test_queues import OneRecord
from workers.cli import gateway_call

GROUNDS = ("--reason", "asked for", "--authority", "privacy office")


@pytest.fixture
def record(monkeypatch) -> OneRecord:
    record = OneRecord()
    monkeypatch.setattr(gateway_call, "GatewayClient", record.client)

    async def begun() -> None:
        async with record.door() as door:
            await closed(door)

    anyio.run(begun)
    return record


@pytest.mark.spec("P6")
@pytest.mark.usefixtures("record")
def test_a_hold_is_set_and_lifted_and_then_a_thought_is_erased():
    thought = ("erase", "thought", SESSION, "t-1", *GROUNDS)
    held = printed("hold", "set", "case-7", "--thoughts", SESSION, *GROUNDS, "--json")
    assert (held["subject_kind"], held["subject_id"]) == ("thought_session", SESSION)
    names, listed = rotulus("hold", "list").stdout.splitlines()
    assert names.split() == ["hold", "holds", "which", "since", "authority", "reason"]
    assert listed.split()[:3] == ["case-7", "thought_session", SESSION]
    assert listed.endswith("privacy office  asked for")
    refused = rotulus(*thought)
    assert refused.exit_code == 1
    assert "payload_held" in refused.stderr
    assert printed("hold", "lift", "case-7", *GROUNDS, "--json") == {"changed": True}
    assert printed(*thought, "--json")["erased"] is True
    assert printed(*thought, "--json")["erased"] is False
    assert printed("hold", "list", "--json") == {"holds": []}


@pytest.mark.usefixtures("record")
def test_what_is_meant_has_to_be_said():
    assert "name --thoughts" in rotulus("hold", "set", "h", *GROUNDS).stderr
    everything = printed("hold", "set", "h", "--everything", *GROUNDS, "--json")
    assert everything["subject_kind"] == "ledger"
    unknown = rotulus("erase", "model-answer", "unknown", *GROUNDS)
    assert "payload_unknown" in unknown.stderr
