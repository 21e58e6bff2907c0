"""Whatever becomes of gateways, leases and clocks: one owner writes, and an entry is taken once.

Requests are envelopes that the kernel refuses: each time one is carried out it leaves a receipt of
its own, so carrying it out twice cannot be hidden by any idempotency key.
"""

from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import ActorError, ReplyLost
from actors.messages import SubmitEnvelope
from actors.sharding.assignment import shard_of
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from tests.actors.harness import declare, scripted_ledger, settle
from tests.actors.ports import Hub
from tests.actors.shared import SHARDS, TTL_MS, Clock, SharedGateway
from tests.kernel.build import findings

NAMES = ("a", "b", "c")
SESSIONS = tuple(f"s-{number}" for number in range(6))
REPLY_S = 0.03

STEPS = st.one_of(
    # A gateway that gets no turns for long does not know what others took meanwhile.
    st.tuples(st.just("turn"), st.sampled_from(NAMES)),
    st.tuples(st.just("turn"), st.sampled_from(NAMES)),
    st.tuples(st.just("ask"), st.sampled_from(NAMES), st.sampled_from(SESSIONS)),
    st.tuples(st.just("ask"), st.sampled_from(NAMES), st.sampled_from(SESSIONS)),
    st.tuples(st.just("pass"), st.sampled_from([TTL_MS // 2, TTL_MS])),
    st.tuples(st.just("die"), st.sampled_from(NAMES)),
    st.tuples(st.just("leave"), st.sampled_from(NAMES)),
    st.tuples(st.just("reachable"), st.booleans()),
    st.tuples(st.just("flush")),
)


@dataclass(frozen=True)
class MarkUnit:
    """A unit that notes, in the order of the record, who has committed for which shard."""

    marks: list
    mark: tuple

    def run(self, _):
        self.marks.append(self.mark)


class TakeoverCourse:
    """Three gateways, of which each may end and begin again, and what was asked of them."""

    def __init__(self, stack):
        self.ledger, self.store = scripted_ledger()
        self.clock = Clock()
        self.hub = Hub(self.clock)
        self.stack = stack
        self.marks = []
        self.gateways = {}
        self.answers = {}
        self.flushed = False

    async def begin(self, name):
        gateway = SharedGateway(self.ledger, self.hub, name, reply_s=REPLY_S)
        commit = gateway.committer.commit

        async def marked(units, fence=None):
            mark = MarkUnit(self.marks, (None if fence is None else fence, id(gateway)))
            results = await commit([mark, *units], fence)
            return results[1:]

        gateway.committer.commit = marked
        await self.stack.enter_async_context(gateway.running())
        self.gateways[name] = gateway

    async def step(self, kind, *given_):
        if kind == "pass":
            self.clock.now_ms += given_[0]
        elif kind == "flush":
            self.hub.flush()
            self.flushed = True
        elif kind == "reachable":
            self.hub.reachable = given_[0]
        elif kind == "turn":
            await self.gateways[given_[0]].turn()
        elif kind == "ask":
            await self.ask(*given_)
        else:
            gateway = self.gateways[given_[0]]
            if kind == "leave":
                await gateway.keeper.leave()
            gateway.die()
            await self.begin(given_[0])

    async def ask(self, name, session_id):
        number = f"ask-{len(self.answers)}"
        try:
            await self.gateways[name].sessions.ask(
                session_id, SubmitEnvelope({"operation_id": number})
            )
            self.answers[number] = None
        except (ActorError, ConnectionError) as error:
            self.answers[number] = error

    async def settle(self):
        """Let everybody find its place and carry out what still waits."""
        self.hub.reachable = True
        for _ in range(3):
            self.clock.now_ms += TTL_MS // 2
            for gateway in self.gateways.values():
                await gateway.turn()
        await settle(lambda: not any(self.hub.mail.values()))

    def executions(self):
        with self.ledger.view() as view:
            rows = view.tables.scan(TableQuery(schema.receipts))
        return Counter(row["operation_id"] for row in rows)


@pytest.mark.spec("D6")
@settings(max_examples=max(20, settings().max_examples // 3))
@given(st.lists(STEPS, max_size=25))
def test_one_owner_writes_and_every_accepted_entry_is_carried_out_once(steps):
    anyio.run(run, steps)


async def run(steps):
    async with AsyncExitStack() as stack:
        course = TakeoverCourse(stack)
        for name in NAMES:
            await course.begin(name)
        first = course.gateways["a"]
        await first.turn()
        for session_id in SESSIONS:
            await first.sessions.ask(session_id, declare("h1", "h2"))
        for step in steps:
            await course.step(*step)
        await course.settle()

        times = course.executions()
        for number, answer in course.answers.items():
            if answer is None:
                assert times[number] == 1, number
            elif isinstance(answer, ReplyLost) and not course.flushed:
                # It was accepted, and the asker did not wait for it.
                assert times[number] == 1, (number, answer)
            else:
                assert times[number] <= 1, (number, answer)
        assert_one_owner_at_a_time(course.marks)
        held = [gateway.held for gateway in course.gateways.values()]
        assert sorted(shard for shards in held for shard in shards) == list(range(SHARDS))
        assert max(map(len, held)) - min(map(len, held)) <= 1
        for session_id in SESSIONS:
            shard = shard_of(session_id, SHARDS)
            [owner] = [gateway for gateway in course.gateways.values() if shard in gateway.held]
            assert await owner.sessions.ask(session_id, declare("h1", "h2"))
        assert findings(course.ledger) == ()


def assert_one_owner_at_a_time(marks):
    newest = {}
    writer = {}
    for fence, gateway in marks:
        if fence is None:
            continue
        assert fence.epoch >= newest.get(fence.shard, 0), marks
        newest[fence.shard] = fence.epoch
        assert writer.setdefault(fence, gateway) == gateway
