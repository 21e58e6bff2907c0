"""What people decided is listed newest first, by verb and by name, in pages."""

from typing import Any

import pytest

from actors.commit.work_units import CancelRequestUnit, PauseUnit, RequestWorkUnit
from kernel.audit import operator_log as module
from kernel.audit.operator_log import OperatorLog, operator_log
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.work.contents import BINDING_QUEUE
from kernel.work.pauses import PauseDecision
from kernel.work.requests import WorkRequest
from tests.actors.harness import bench_on
from tests.kernel.build import create, submit


def do(ledger: Ledger, unit: Any) -> Any:
    with bench_on(ledger) as context:
        return unit.run(context)


def decided(ledger: Ledger, count: int) -> None:
    """Ada pauses and resumes in turn, bob cancels; others write operations between."""
    for number in range(count):
        by, paused = f"Ada {number} at 127.0.0.1", number % 2 == 0
        do(ledger, PauseUnit(PauseDecision(BINDING_QUEUE, None, by, f"reason {number}"), paused))
        submit(ledger, create(f"n-{number}", "SourceArtifact"))
    content = {"binding_id": "b-1", "source_event_id": "e"}
    [receipt] = do(ledger, RequestWorkUnit((WorkRequest(BINDING_QUEUE, "k", content),)))
    do(ledger, CancelRequestUnit(receipt.request_id, "not wanted", "bob"))


def pages(ledger: Ledger, limit: int, **filters: Any) -> list[Any]:
    entries: list[Any] = []
    after: int | None = None
    while True:
        with ledger.view() as view:
            page: OperatorLog = operator_log(view, after=after, limit=limit, **filters)
        assert len(page.entries) <= limit
        entries += page.entries
        after = page.next_after
        if after is None:
            return entries


@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("bound", [2, 1000])
def test_every_decision_is_on_one_page_with_who_and_why(ledger, monkeypatch, limit, bound):
    monkeypatch.setattr(module, "LOOKED_AT_MAX", bound)
    decided(ledger, 5)
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.kernel_event_log))
    verbs = ("queue_pause", "queue_resume", "request_cancel")
    of_sql = [row["ec_sequence_number"] for row in rows if row["semantic_intent"] in verbs]
    entries = pages(ledger, limit)
    assert [entry.ec_sequence_number for entry in entries] == sorted(of_sql, reverse=True)
    assert len(entries) == 6
    newest, before = entries[:2]
    assert (newest.verb, newest.decided_by, newest.reason) == (
        "request_cancel",
        "bob",
        "not wanted",
    )
    assert newest.targets[0].startswith("request:")
    assert (before.decided_by, before.reason) == ("Ada 4 at 127.0.0.1", "reason 4")
    assert before.targets == (f"queue:{BINDING_QUEUE}",)
    assert [e.reason for e in pages(ledger, limit, who="aDA 3")] == ["reason 3"]
    assert len(pages(ledger, limit, verb="queue_resume")) == 2
    assert pages(ledger, limit, verb="queue_resume", who="bob") == []
    assert pages(ledger, limit, verb="create") == []
