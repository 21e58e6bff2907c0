"""The safe path is taken for what was written, once it is on record, and for nothing else."""

from typing import Any

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from tests.actors.harness import bench_on
from tests.evidence import candidate, observation, with_filings
from tests.kernel.build import accept, findings, memory_ledger
from workers.gateway.loops import evidence_confirmation
from workers.gateway.loops.evidence_confirmation import EvidenceConfirmation

pytestmark = [pytest.mark.anyio, pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")]


@pytest.fixture
def ledger() -> Ledger:
    return with_filings(memory_ledger())


def confirmation_of(ledger: Ledger) -> EvidenceConfirmation:
    async def write(unit: Any, _: Any = None) -> Any:
        with bench_on(ledger) as context:
            return unit.run(context)

    return EvidenceConfirmation(ledger, write)


def state_of(ledger: Ledger, name: str) -> Any:
    with ledger.view() as view:
        record = view.record(schema.filing_relationships, name)
    assert record is not None
    return record["payload"]["lifecycle_state"]


async def test_what_is_written_is_confirmed_afterwards_and_once(ledger: Ledger) -> None:
    confirmation = confirmation_of(ledger)
    assert await confirmation.confirm() == 0
    accept(ledger, candidate(ledger))
    assert state_of(ledger, "r") == "candidate"
    assert await confirmation.confirm() == 1
    assert state_of(ledger, "r") == "confirmed"
    assert await confirmation.confirm() == 0
    assert findings(ledger) == ()


async def test_what_another_process_left_open_is_confirmed_at_the_start(ledger: Ledger) -> None:
    accept(ledger, candidate(ledger))
    assert await confirmation_of(ledger).confirm() == 1
    assert state_of(ledger, "r") == "confirmed"
    assert await confirmation_of(ledger).confirm() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"identity_confidence": 0.949},
        {"identity_confidence": None},
        {"artifact": "draft"},
        {"contested_signals": ["a party objects"]},
    ],
)
async def test_what_the_safe_path_does_not_admit_waits_for_a_person(
    ledger: Ledger, changes: dict[str, Any]
) -> None:
    confirmation = confirmation_of(ledger)
    await confirmation.confirm()
    accept(ledger, candidate(ledger, **changes), observation(ledger))
    assert await confirmation.confirm() == 0
    assert await confirmation_of(ledger).confirm() == 0
    assert state_of(ledger, "r") == "candidate"


async def test_writes_are_read_in_pages_and_none_is_left_out(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence_confirmation, "PAGE", 1)
    confirmation = confirmation_of(ledger)
    await confirmation.confirm()
    for number in range(3):
        unsure = {"identity_confidence": 0.5}
        accept(ledger, candidate(ledger, f"unsure-{number}", artifact="draft", **unsure))
    accept(ledger, candidate(ledger))
    assert await confirmation.confirm() == 1
