"""A run of a detector is on the record with all that it emits, or not at all, wherever it ends."""

from pathlib import Path

import pytest

from kernel.implications.runs import runs_of
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from tests.kernel.build import everything, findings
from tests.system.killed_at_steps import killed_at_each_step, opened
from tests.workers.implications.docketed import (
    DISTRICT,
    OBSERVES,
    OPPOSITION,
    ORDER,
    RELATES,
    REPLY,
    enter,
    fire,
    implied,
    imply,
    unit,
)
from workers.implications.disposed_motions import DisposedMotions

pytestmark = pytest.mark.timeout(180)

DETECTOR = DisposedMotions()


def detect(ledger: Ledger) -> None:
    imply(ledger, DETECTOR)


def emitted(ledger: Ledger) -> int:
    """How many operations were implied, of how many runs: each is of one."""
    with ledger.view() as view:
        rows = view.tables.select(schema.implied_operations)
        epochs = {run.implication_epoch for run in runs_of(view)}
    assert {row["implication_epoch"] for row in rows} <= epochs
    return len(rows)


@pytest.mark.spec("INV-A-BRIDGE-1", "§19.1", "§2.3", "K25", "K31")
def test_whatever_the_step_every_implication_is_emitted_once(tmp_path: Path) -> None:
    begun = tmp_path / "begun.db"
    ledger = opened(begun)
    enter(ledger, DISTRICT)
    for position, kind in (
        (OPPOSITION, RELATES),
        (REPLY, RELATES),
        (ORDER, RELATES),
        (ORDER, OBSERVES),
    ):
        fire(ledger, position, kind)
    ledger.close()

    left, sound = set(), set[str]()
    for step, path, _ in killed_at_each_step(begun, detect):
        ledger = opened(path, process=2)
        left.add(emitted(ledger))
        detect(ledger)
        assert emitted(ledger) == 2, step
        assert implied(ledger).keys() == {unit(OPPOSITION), unit(REPLY)}
        content = repr(everything(ledger))
        if content not in sound:
            assert findings(ledger) == (), step
            sound.add(content)
        ledger.close()
    # Before COMMIT nothing of the run is there, after it all.
    assert left == {0, 2}
