"""Wherever the process ends that changes a source, the run that reads it begins anew, once."""

from pathlib import Path

import anyio
import pytest

from actors.commit.units import IntentUnit
from actors.commit.work_units import RequestWorkUnit, WorkReportUnit
from actors.orchestrator.intents import CreateSource
from actors.orchestrator.untrusted_content import wrap_untrusted
from kernel.ledger.ledger import Ledger
from kernel.records.extraction import attempts_of
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.extraction_runs import replacement_of
from kernel.work.reports import ExtractionBegun
from kernel.work.requests import request_id_of
from tests.actors.harness import bench_on
from tests.kernel.build import code_of, effect, envelope, everything, findings
from tests.kernel.extractions import task
from tests.system.killed_at_steps import killed_at_each_step, opened
from workers.gateway.loops.extraction_restarts import ExtractionRestarts

pytestmark = pytest.mark.timeout(180)

RUN = "run-1"
CHANGED = "ORDER denying 14 Motion to Convert."


def do(ledger: Ledger, unit: object) -> object:
    with bench_on(ledger) as context:
        return unit.run(context)  # type: ignore[attr-defined]


def change(ledger: Ledger) -> None:
    """Give the source another text, unless it has it; then restart what reads it."""
    with ledger.view() as view:
        node = view.node("doc-1")
    content = wrap_untrusted(CHANGED, source="doc-1", kind="ecf_entry_text")
    assert node is not None
    if node["payload"]["content"] != content:
        write_text = effect("node_write", "doc-1", content=content)
        seen = [node["updated_by_operation_id"]]
        adapted = envelope("field_adapt", [write_text], causal_parent_operation_ids=seen)
        with bench_on(ledger) as context:
            result = context.kernel.submit(context.transaction, adapted, "orchestrator")
        assert code_of(result) is None

    async def write(unit: object, _: object = None) -> object:
        return do(ledger, unit)

    anyio.run(ExtractionRestarts(ledger, write).restart)


@pytest.mark.spec("INV-EXT-6", "K19")
def test_whatever_the_step_a_run_of_a_changed_source_is_replaced_once(tmp_path: Path) -> None:
    begun = tmp_path / "begun.db"
    ledger = opened(begun)
    source = CreateSource(
        intent_key="doc-1",
        node_id="doc-1",
        corpus_id="corpus",
        content_kind="ecf_entry_text",
        text="ORDER granting 12 Motion to Dismiss.",
    )
    do(ledger, IntentUnit(source, None))
    do(ledger, RequestWorkUnit((task(RUN, "doc-1"),)))
    request_id = request_id_of(EXTRACTION_QUEUE, RUN)
    do(ledger, WorkReportUnit(ExtractionBegun(request_id=request_id, extractor="rules")))
    ledger.close()

    left, sound = set(), set[str]()
    for step, path, _ in killed_at_each_step(begun, change):
        ledger = opened(path, process=2)
        with ledger.view() as view:
            left.add(len(attempts_of(view, RUN, limit=9)))
        change(ledger)
        with ledger.view() as view:
            states = [each["current_state"] for each in attempts_of(view, RUN, limit=9)]
            wanted = [each.item_key for each in view.open_requests(queue=EXTRACTION_QUEUE)]
        assert (states, wanted) == (["running", "cancelled"], [replacement_of(RUN)]), step
        content = repr(everything(ledger))
        if content not in sound:
            assert findings(ledger) == (), step
            sound.add(content)
        ledger.close()
    # The run that a kill leaves has not been cancelled yet, or it has.
    assert left == {1, 2}
