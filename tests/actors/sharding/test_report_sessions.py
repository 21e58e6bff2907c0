"""Reports of work are spread over actors, and stay at the gateway that they reach."""

import pytest

from actors.sharding.assignment import shard_of
from actors.sharding.held_shards import HeldShards
from actors.sharding.report_sessions import REPORT_SESSIONS, report_session
from kernel.ledger.shards import Fence
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE

SHARDS = 64
REQUESTS = [f"request:{number}" for number in range(2000)]


def holding(shards):
    held = HeldShards(SHARDS)
    held.add(Fence(shard, 1, "a") for shard in shards)
    return held


def sessions(held=None, queue=BINDING_QUEUE):
    return {report_session(queue, request_id, held) for request_id in REQUESTS}


def test_the_reports_of_a_queue_go_to_many_sessions_on_many_shards():
    assert len(sessions()) == REPORT_SESSIONS
    assert len({shard_of(session, SHARDS) for session in sessions()}) > REPORT_SESSIONS // 2
    assert sessions().isdisjoint(sessions(queue=EXTRACTION_QUEUE))


@pytest.mark.parametrize("gateways", [2, 4, 8])
def test_a_gateway_gives_reports_to_its_own_sessions(gateways):
    by_gateway = [sessions(holding(range(first, SHARDS, gateways))) for first in range(gateways)]
    for first, of_gateway in enumerate(by_gateway):
        shards = {shard_of(session, SHARDS) for session in of_gateway}
        assert shards <= set(range(first, SHARDS, gateways))
    assert set().union(*by_gateway) == sessions()


def test_a_gateway_that_holds_none_of_the_shards_forwards_to_any():
    assert sessions(holding([])) == sessions()


def test_the_same_report_goes_to_the_same_session_while_the_shards_stay():
    held = holding(range(SHARDS // 2))
    for request_id in REQUESTS[:50]:
        again = report_session(BINDING_QUEUE, request_id, held)
        assert report_session(BINDING_QUEUE, request_id, held) == again
