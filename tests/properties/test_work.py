"""Whatever is asked for, reported and taken back, in whatever order: one outcome each."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.commit.work_units import CancelRequestUnit, RequestWorkUnit, WorkReportUnit
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.errors import WorkRefused
from kernel.work.ready_requests import first_of_each_run
from kernel.work.reports import (
    BindingSuspended,
    CapacityRejected,
    TransitionDue,
)
from kernel.work.requests import WorkRequest, request_id_of
from tests.actors.harness import bench_on
from tests.kernel.attempts import given_up
from tests.kernel.binding_world import of_nobody
from tests.kernel.build import FakeHost, adapt, create, submit
from tests.kernel.extractions import completeness

KEYS = [f"k-{number}" for number in range(5)]
STATES = ["pending", "running", "degraded", "blocked", "succeeded", "cancelled"]
SIGNAL = {"ec_capacity_lease_state": "none", "queue_depth": 0, "inflight_operations": 0}

keys = st.sampled_from(KEYS)
priorities = st.sampled_from(["background", "user_initiated", "critical"])


def binding(key: str, event: int, priority: str) -> RequestWorkUnit:
    content = {
        "binding_id": key,
        "source_event_id": f"e-{event}",
        "capacity_priority": priority,
    }
    return RequestWorkUnit((WorkRequest(BINDING_QUEUE, key, content),))


def step(key: str, number: int, prior: str, current: str) -> RequestWorkUnit:
    content = {
        "extraction_run_id": "run",
        "attempt_number": number,
        "prior_state": prior,
        "current_state": current,
        "state_change_reason": "because",
        **({"block_reason": "rate_limit"} if current == "blocked" else {}),
        **completeness(prior, current),
    }
    return RequestWorkUnit((WorkRequest(EXTRACTION_QUEUE, key, content),))


def of_binding(key: str, kind: str) -> Any:
    request_id = request_id_of(BINDING_QUEUE, key)
    if kind == "cancel":
        return CancelRequestUnit(request_id, "why")
    if kind == "rejected":
        return WorkReportUnit(
            CapacityRejected(request_id=request_id, capacity_signal_at_rejection=SIGNAL)
        )
    if kind == "suspended":
        return WorkReportUnit(BindingSuspended(request_id=request_id))
    return WorkReportUnit(of_nobody(request_id, key, "e-0"))


def of_extraction(key: str, kind: str) -> Any:
    request_id = request_id_of(EXTRACTION_QUEUE, key)
    if kind == "cancel":
        return CancelRequestUnit(request_id, "why")
    if kind == "given up":
        return WorkReportUnit(given_up(request_id=request_id, error_signature="broken"))
    return WorkReportUnit(TransitionDue(request_id=request_id))


UNITS = st.one_of(
    st.builds(binding, keys, st.integers(0, 1), priorities),
    st.builds(step, keys, st.integers(1, 3), st.sampled_from(STATES), st.sampled_from(STATES)),
    st.builds(of_binding, keys, st.sampled_from(["cancel", "rejected", "suspended", "evaluated"])),
    st.builds(of_extraction, keys, st.sampled_from(["cancel", "given up", "due", "due"])),
    st.sampled_from(["create", "adapt", "nonsense"]),
)


def operation(name: str) -> Any:
    """A new envelope each time; most are accepted, and some are not."""
    made = {
        "create": lambda: create("u", "ConsolidatedUnderstanding"),
        "adapt": lambda: adapt("u", title="x"),
    }
    return made.get(name, lambda: name)()


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(UNITS, max_size=30))
def test_a_request_has_at_most_one_outcome_and_the_outbox_follows_from_the_record(units):
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    for unit in units:
        if isinstance(unit, str):
            submit(ledger, operation(unit))
            continue
        try:
            with bench_on(ledger) as context:
                unit.run(context)
        except WorkRefused:
            continue
    with ledger.view() as view:
        verification = verify(view)
        rows = view.tables.scan(TableQuery(schema.outbox))
        closed = view.tables.count(TableQuery(schema.outbox_outcomes))
        ready = first_of_each_run(view, view.open_requests(queue=EXTRACTION_QUEUE))
        waiting = view.open_requests(queue=EXTRACTION_QUEUE)
    assert verification.findings == ()
    assert sum(not row["open"] for row in rows) == closed
    # Somebody may always go on, and in one run it is one.
    assert len(ready) == bool(waiting)
