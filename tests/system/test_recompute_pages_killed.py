"""A page of recomputes is on the record as a whole or not at all, wherever its process ends."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.commit.batch import Waiting, run_units, whole
from actors.commit.recompute_units import RecomputeUnit
from actors.commit.unit_context import CommitContext
from actors.orchestrator.intents import InputsStated, RecalculateAuthority
from actors.orchestrator.orchestrator import Orchestrator
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger.ledger import Ledger
from kernel.transaction.kernel import Kernel
from tests.kernel.build import accept, create, everything, findings, link
from tests.system.killed_at_steps import killed_at_each_step, opened

pytestmark = pytest.mark.timeout(180)

NAMES = ["u1", "u2", "u3"]


def reported(ledger: Ledger) -> list[RecomputeUnit]:
    """What a worker reports; the value of the second is another than its inputs give."""
    units = []
    with ledger.view() as view:
        for name in NAMES:
            value, inputs = authority_of(view, BetaPosteriorMean(), view.node(name) or {})
            intent = RecalculateAuthority(
                intent_key=name,
                target_cu_id=name,
                as_of_sequence=view.head().ec_sequence_number,
                cu_authority=0.125 if name == "u2" else value,
                inputs=InputsStated.model_validate(inputs.document()),
            )
            units.append(RecomputeUnit(intent, None))
    return units


def record(ledger: Ledger, units: list[RecomputeUnit]) -> list[Any]:
    [part] = whole([Waiting(units)])
    with ledger.transaction() as transaction:
        return run_units(part, CommitContext(transaction, Kernel(), Orchestrator(ledger.host)))


def record_both(ledger: Ledger) -> None:
    """A page that is taken apart, because one of it is false, and then a page that is not."""
    outcomes = [outcome for outcome, _ in record(ledger, reported(ledger))]
    assert outcomes == ["completed", "rejected", "completed"]
    accept(ledger, create("late", "VersionedClaim", authority=0.5))
    accept(ledger, *(link(f"late>{name}", "late", name) for name in ("u1", "u3")))
    sound = [unit for unit in reported(ledger) if unit.intent.target_cu_id != "u2"]
    results = record(ledger, sound)
    assert len({result.operation_id for _, result in results}) == 1


@pytest.mark.spec("K32", "§2.3", "K25")
def test_whatever_the_step_each_page_is_whole_and_every_recompute_is_asked_for_or_done(
    tmp_path: Path,
) -> None:
    begun = tmp_path / "begun.db"
    ledger = opened(begun)
    accept(ledger, create("claim", "VersionedClaim", authority=0.9))
    accept(ledger, *(create(name, "ConsolidatedUnderstanding") for name in NAMES))
    accept(ledger, *(link(f"claim>{name}", "claim", name) for name in NAMES))
    ledger.close()

    recorded: set[int] = set()
    sound: set[str] = set()
    for step, path, _ in killed_at_each_step(begun, record_both):
        left = opened(path)
        recorded.add(check(left, step, sound))
        left.close()
    # Before the first, after it in parts, and after the page.
    assert recorded == {0, 2, 4}


def check(ledger: Ledger, step: int, sound: set[str]) -> int:
    """Return how many recomputes are on a sound record, each with all that belongs to it."""
    rows = everything(ledger)
    receipts = [row for row in rows["receipts"] if row["receipt_kind"] == COMPLETED]
    outcomes = {row["request_id"]: row["operation_id"] for row in rows["outbox_outcomes"]}
    assert {*outcomes.values()} <= {row["operation_id"] for row in rows["kernel_event_log"]}
    done = {row["request_id"] for row in rows["outbox"] if not row["open"]}
    assert outcomes.keys() == done, step
    with ledger.view() as view:
        assert view.open_requests_of(AUTHORITY_QUEUE, "u2"), step
    if repr(rows) not in sound:
        assert findings(ledger) == (), step
        sound.add(repr(rows))
    bodies = [orjson.loads(row["receipt_bytes"]) for row in receipts]
    return len({(body["operation_id"], body["target_cu_id"]) for body in bodies})


COMPLETED = "authority_recompute_completed"
