"""The record as it stood behind a row is what was shown live when the log ended there."""

import random
from functools import partial
from typing import Any

import anyio.to_thread
import pytest

from kernel.audit import requests_asof, sessions_asof
from kernel.audit.requests_asof import queues_as_of
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.past_rows import StateAsOfUnknown
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import SubmissionResult
from kernel.transaction.checks.check import Submission
from kernel.transaction.kernel import Kernel
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.build import FakeHost
from tests.workers.api.asking import BINDINGS, EXTRACTIONS, binding, done, enqueued, given_up, step
from tests.workers.api.door import SESSION, Door, running_door, source, understanding
from workers.views import past
from workers.views.records import describe_node
from workers.views.session_lists import session_summary

STEPS = 60
HYPOTHESES = [f"h{number}" for number in range(8)]
SESSIONS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(2, 5)]
NODES = ["s-1", "s-2", "u-1"]
STATES = ("completed", "open", "cancelled", "dead_letter", "dead_letter")

pytestmark = [pytest.mark.anyio, pytest.mark.spec("workers/0520")]


def live_queues(view: LedgerView) -> dict[str, dict[str, int]]:
    queues: dict[str, dict[str, int]] = {}
    for row in view.tables.scan(TableQuery(schema.outbox)):
        counts = queues.setdefault(row["queue"], dict.fromkeys(STATES, 0))
        counts[STATES[row["state"]]] += 1
    return queues


class WatchedKernel(Kernel):
    """A kernel that notes how requests stand before each row: some end in the row's transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[int, Any] = {}

    def _record(self, submission: Submission) -> SubmissionResult:
        transaction = submission.transaction
        self.queues[transaction.head_now.ec_sequence_number] = live_queues(transaction)
        return super()._record(submission)


def live(view: LedgerView) -> dict[str, Any]:
    """What the doors show now of what is shown of the past."""
    queues = live_queues(view)
    sessions = {name: without_time(session_summary(view, name)) for name in SESSIONS}
    nodes = {name: without_stale(describe_node(view, name)) for name in NODES}
    return {"queues": queues, "sessions": sessions, "nodes": nodes}


def then(view: LedgerView, sequence: int) -> dict[str, Any]:
    """What is shown as it stood behind a row."""
    queues = {
        each.queue: {state: getattr(each, state) for state in STATES}
        for each in queues_as_of(view, sequence)
    }
    sessions = {
        name: without_time(past.session_summary_as_of(view, name, sequence)) for name in SESSIONS
    }
    nodes = {name: without_stale(past.node_as_of(view, name, sequence)) for name in NODES}
    return {"queues": queues, "sessions": sessions, "nodes": nodes}


def without_time(summary: Any) -> Any:
    return summary and {name: value for name, value in summary.items() if name != "updated_at"}


def without_stale(node: Any) -> Any:
    return node and {name: value for name, value in node.items() if name != "authority_stale_since"}


class Course:
    """Things that happen by chance, one at a time."""

    def __init__(self, door: Door, chance: random.Random) -> None:
        self._door = door
        self._chance = chance
        self._number = 0
        self._open: list[str] = []

    async def go_on(self) -> None:
        self._number += 1
        happening = self._chance.choice(
            (self._session, self._strike, self._strike, self._node, self._ask, self._end, self._end)
        )
        await happening()

    async def _session(self) -> None:
        await self._door.declare(self._chance.choice(SESSIONS), *HYPOTHESES)

    async def _strike(self) -> None:
        struck = self._chance.sample(HYPOTHESES, 2)
        body = {"eliminated": struck, "observation_id": f"o-{self._number}", "source_id": "s"}
        await self._door.send(f"/v1/sessions/{self._chance.choice(SESSIONS)}/eliminate", body)

    async def _node(self) -> None:
        made = self._chance.choice((source("s-1"), source("s-2"), understanding("u-1", "s-1")))
        await self._door.operate(made)

    async def _ask(self) -> None:
        recorded = await enqueued(self._door, BINDINGS, binding(f"b-{self._number}"))
        self._open += [row["request_id"] for row in recorded]

    async def _end(self) -> None:
        if not self._open:
            return
        request_id = self._open.pop(self._chance.randrange(len(self._open)))
        if self._chance.random() < 0.5:
            await given_up(self._door, BINDING_QUEUE, request_id, "broken")
            return
        body = {"reason": "not wanted", "decided_by": "ada"}
        await self._door.send(f"{BINDINGS}/requests/{request_id}/cancel", body)


async def test_what_stood_behind_a_row_is_what_was_shown_when_the_log_ended_there(store):
    kernel = WatchedKernel()
    async with running_door(store, host=FakeHost().host, kernel=kernel) as door:
        await door.declare(SESSION, "a", "b")
        course, shown = Course(door, random.Random(11)), {}
        for _ in range(STEPS):
            await course.go_on()
            sequence, state = await read(
                door, lambda view: (view.head().ec_sequence_number, live(view))
            )
            shown[sequence] = state
        assert len(shown) > STEPS / 4
        for sequence, state in shown.items():
            state["queues"] = kernel.queues.get(sequence, state["queues"])
            assert await read(door, partial(then, sequence=sequence)) == state
        await check_lists(door, shown)


async def read(door: Door, question: Any) -> Any:
    return await anyio.to_thread.run_sync(door.ledger.read, question)


async def check_lists(door: Door, shown: dict[int, Any]) -> None:
    """A list has each session that there was, as it stood."""
    for sequence, state in shown.items():
        page = await read(
            door, partial(past.sessions_as_of, sequence=sequence, after=None, limit=50)
        )
        assert page["next_after"] is None
        listed = {each["session_id"]: without_time(each) for each in page["sessions"]}
        assert len(listed) == len(page["sessions"])
        del listed[SESSION]
        assert listed == {name: each for name, each in state["sessions"].items() if each}


@pytest.mark.parametrize("adapter", ["memory"], indirect=True)
async def test_what_would_take_too_long_is_refused_with_a_code(store, monkeypatch):
    async with running_door(store, host=FakeHost().host) as door:
        await door.declare(SESSION, *HYPOTHESES)
        rows = await enqueued(door, EXTRACTIONS, *(step(f"r-{number}") for number in range(6)))
        then_head = door.ledger.read(lambda view: view.head().ec_sequence_number)
        for row in rows:
            await done(door, row["request_id"])
        head = door.ledger.read(lambda view: view.head().ec_sequence_number)
        assert head > then_head

        def refused(read: Any) -> str:
            with pytest.raises(StateAsOfUnknown) as error:
                door.ledger.read(read)
            return error.value.code

        assert refused(lambda view: queues_as_of(view, head + 1)) == "state_as_of_ahead"
        monkeypatch.setattr(requests_asof, "OUTCOMES_READ_MAX", 3)
        assert refused(lambda view: queues_as_of(view, then_head)) == "state_as_of_too_far"
        monkeypatch.setattr(sessions_asof, "REPLAYED_MAX", 3)
        code = refused(lambda view: past.session_summary_as_of(view, SESSION, then_head))
        assert code == "state_as_of_too_far"
