"""A run whose source is changed under it begins anew at once, whatever its worker does."""

from typing import Any

import pytest

from actors.commit.units import EnvelopeUnit
from kernel.records.extraction import SOURCE_CHANGED
from kernel.records.running_extractions import runs_of_changed_sources
from kernel.work.extraction_runs import replacement_of
from tests.actors.commit.test_extraction_units import CHANGED, RUN, TEXT, Extractions
from tests.kernel.build import effect, envelope, findings
from tests.kernel.extractions import task, value
from workers.gateway.loops import extraction_restarts
from workers.gateway.loops.extraction_restarts import ExtractionRestarts

pytestmark = [pytest.mark.anyio, pytest.mark.spec("INV-EXT-6")]


@pytest.fixture
def extractions() -> Extractions:
    return Extractions()


def restarts_of(extractions: Extractions, written: list[Any] | None = None) -> ExtractionRestarts:
    async def write(unit: Any, _: Any = None) -> Any:
        if written is not None:
            written.append(unit)
            return "rejected", None
        return extractions.do(unit)

    return ExtractionRestarts(extractions.ledger, write)


def marked(extractions: Extractions) -> list[str]:
    with extractions.ledger.view() as view:
        return runs_of_changed_sources(view, after="", limit=100)


async def test_the_write_marks_the_run_and_what_reads_the_mark_begins_it_anew(
    extractions: Extractions,
) -> None:
    request, restarts = extractions.ask(), restarts_of(extractions)
    extractions.begin(request)
    assert await restarts.restart() == 0
    extractions.change_source()
    assert (marked(extractions), extractions.steps()) == ([RUN], [("pending", "running")])
    assert await restarts.restart() == 1

    last = extractions.last()
    assert (last["current_state"], last["cancellation_reason"]) == ("cancelled", SOURCE_CHANGED)
    assert extractions.status(request).result["replaced_by"] == replacement_of(RUN)
    # Its worker comes too late, and nothing of what it read is kept.
    assert extractions.finish(request, value(TEXT, "Ann Acme"))[0] == "closed"
    assert extractions.claims() == 0
    [anew] = extractions.open()
    extractions.begin(anew.request_id)
    extractions.finish(anew.request_id, value(CHANGED, "Ann Acme"), text=CHANGED)
    assert extractions.last(replacement_of(RUN))["current_state"] == "succeeded"
    assert await restarts.restart() == 0
    assert findings(extractions.ledger) == ()


async def test_a_text_that_came_back_was_another_in_between(extractions: Extractions) -> None:
    extractions.begin(extractions.ask())
    extractions.change_source(CHANGED)
    extractions.change_source(TEXT)
    assert await restarts_of(extractions).restart() == 1


async def test_a_write_that_leaves_the_text_as_it_was_marks_nothing(
    extractions: Extractions,
) -> None:
    extractions.begin(extractions.ask())
    adapted = envelope("field_adapt", [effect("node_write", "doc-1", visibility_class="sealed")])
    extractions.do(EnvelopeUnit(adapted, "s"))
    extractions.change_source(TEXT)
    assert marked(extractions) == []


@pytest.mark.parametrize("state", ["pending", "succeeded"])
async def test_a_run_that_is_not_running_is_not_marked(
    extractions: Extractions, state: str
) -> None:
    request = extractions.ask()
    if state == "succeeded":
        extractions.begin(request)
        extractions.finish(request, value(TEXT, "Ann Acme"))
    extractions.change_source()
    assert marked(extractions) == []


async def test_a_report_may_come_before_and_then_nothing_is_left_to_do(
    extractions: Extractions,
) -> None:
    request = extractions.ask()
    extractions.begin(request)
    extractions.change_source()
    extractions.finish(request, value(TEXT, "Ann Acme"))
    assert await restarts_of(extractions).restart() == 0
    assert len(extractions.open()) == 1


async def test_marks_are_read_in_pages_and_none_is_left_out(
    extractions: Extractions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction_restarts, "PAGE", 2)
    runs = [f"run-{number}" for number in range(5)]
    for run in runs:
        extractions.begin(extractions.ask(task(run)))
    extractions.change_source()
    assert await restarts_of(extractions).restart() == len(runs)
    assert marked(extractions) == []


async def test_a_cancellation_that_was_refused_is_left_to_the_report(
    extractions: Extractions,
) -> None:
    written: list[Any] = []
    extractions.begin(extractions.ask())
    extractions.change_source()
    restarts = restarts_of(extractions, written)
    assert (await restarts.restart(), await restarts.restart()) == (0, 0)
    assert len(written) == 1


async def test_a_run_that_names_the_request_of_another_is_cancelled_and_nothing_is_asked_for(
    extractions: Extractions,
) -> None:
    request = extractions.ask()
    step = {
        "attempt_number": 1,
        "prior_state": "pending",
        "current_state": "running",
        "state_change_reason": "begun elsewhere",
        "source_ref": "doc-1",
        "request_id": request,
    }
    transition = effect("extraction_state_transition", "theirs", **step)
    extractions.do(EnvelopeUnit(envelope("extraction_state_change", [transition]), "s"))
    extractions.change_source()
    assert await restarts_of(extractions).restart() == 1
    assert extractions.last("theirs")["current_state"] == "cancelled"
    assert [each.request_id for each in extractions.open()] == [request]
