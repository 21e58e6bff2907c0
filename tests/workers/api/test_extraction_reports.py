"""The hand-in route of extractions under hostile bodies: typed answers, nothing half-applied."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel.records.extraction import attempts_of
from kernel.values.canonical import sha256_hex
from kernel.verify import verify
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.requests import request_id_of
from tests.kernel.build import FakeHost
from tests.kernel.extractions import result, task, value
from tests.workers.api.door import ANY_JSON, SESSION, Door, running_door

pytestmark = pytest.mark.anyio

TEXT = "Signed by Judge Ann Bell."
FINISHED: dict[str, Any] = {
    "report_kind": "extraction_finished",
    "source_text_sha256": sha256_hex(TEXT.encode()),
    "result": result(value(TEXT, "Ann Bell", "judge")),
    "claim_authority": 0.5,
}
BEGUN = {"report_kind": "extraction_begun", "extractor": "rules"}
RUNS = (f"run-{number}" for number in count(1))
PLACES = [
    ("request_id",),
    *((name,) for name in FINISHED),
    ("result", "values"),
    ("result", "extractor"),
    ("result", "extraction_completeness"),
    ("result", "values", 0, "start"),
    ("result", "values", 0, "value"),
    ("result", "values", 0, "role"),
    ("outputs",),
]


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with running_door(host=FakeHost().host) as door:
        await door.declare(SESSION, "a", "b")
        source = {
            "intent_kind": "create_source",
            "intent_key": "doc-1",
            "node_id": "doc-1",
            "corpus_id": "corpus",
            "content_kind": "letter",
            "text": TEXT,
        }
        await door.operate(source)
        yield door


async def begin(door: Door) -> tuple[str, dict[str, Any]]:
    """Ask for a run and begin it; returns its name and a hand-in that would be taken."""
    run = next(RUNS)
    body = {"requests": [{"request_key": run, "content": task(run).content}]}
    assert (await door.send("/v1/queues/extraction-transition/requests", body)).is_success
    request = {"request_id": request_id_of(EXTRACTION_QUEUE, run)}
    answer = await post(door, BEGUN | request)
    assert answer.json() == {"outcomes": [{"outcome": "recorded"}]}
    return run, FINISHED | request


def changed(document: Any, place: tuple[Any, ...], instead: Any) -> Any:
    """The document with something else in a place."""
    if not place:
        return instead
    first, *rest = place
    if isinstance(document, list):
        return [
            changed(part, tuple(rest), instead) if index == first else part
            for index, part in enumerate(document)
        ]
    return {**document, first: changed(document.get(first, {}), tuple(rest), instead)}


async def post(door: Door, *reports: Any) -> Any:
    body = {"queue": EXTRACTION_QUEUE, "reports": list(reports)}
    return await door.reporter("work", body)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), ANY_JSON)
async def test_a_hand_in_with_anything_in_it_is_answered_and_leaves_a_whole_record(
    door: Door, place: tuple[Any, ...], instead: Any
):
    run, finished = await begin(door)
    answer = await post(door, changed(finished, place, instead))
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 200:
        outcomes = {outcome["outcome"] for outcome in answer.json()["outcomes"]}
        assert outcomes <= {"completed", "closed", "early", "unknown", "recorded", "rejected"}
    else:
        assert answer.json()["error"]["code"]
    with door.ledger.view() as view:
        steps = attempts_of(view, run, limit=50)
        claims = view.nodes_of_kind("VersionedClaim", after=None, limit=10_000)
        assert verify(view).findings == ()
    assert len(steps) <= 2
    stated = {ref for step in steps for ref in step.get("claim_refs", ())}
    own = [claim for claim in claims if claim["payload"]["extracted"]["extraction_run_id"] == run]
    assert {claim["node_id"] for claim in own} == stated


async def test_what_no_worker_proves_is_taken_from_nobody(door: Door):
    run, finished = await begin(door)
    body = {"queue": EXTRACTION_QUEUE, "reports": [finished]}
    assert (await door.reporter("work", body, token=None)).status_code == 401
    with door.ledger.view() as view:
        assert len(attempts_of(view, run, limit=9)) == 1


async def test_megabytes_are_refused_before_anything_is_read(door: Door):
    run, finished = await begin(door)
    huge = changed(finished, ("result", "extractor"), "x" * (9 << 20))
    assert (await post(door, huge)).status_code == 413
    with door.ledger.view() as view:
        assert len(attempts_of(view, run, limit=9)) == 1
