"""Picks the session whose actor takes the reports of a queue: this gateway's, if it has any.

A report says of a request what became of it, and the record decides inside the transaction what
that may do. So reports need no order among themselves, and any actor may take any of them. A queue
has `REPORT_SESSIONS` sessions, spread over the shards by their names: a gateway gives the reports
that reach it to those whose shards it holds, and forwards none while it holds one (decision
actors/0089).
"""

from functools import cache
from typing import Final

from actors.sharding.assignment import shard_of
from actors.sharding.held_shards import HeldShards
from kernel.values.session_names import REPORTS

REPORT_SESSIONS: Final = 32
"""Sessions of each queue; as many batches of reports can be in hand at once in a fleet."""


def report_session(queue: str, request_id: str, held_shards: HeldShards | None = None) -> str:
    """Return the session that takes a batch of reports, by the first request in it."""
    sessions = _sessions(queue)
    if held_shards is not None:
        shards = _shards(queue, held_shards.shards)
        here = [name for name in sessions if held_shards.fence_of(shards[name]) is not None]
        sessions = tuple(here) or sessions
    return sessions[shard_of(request_id, len(sessions))]


@cache
def _sessions(queue: str) -> tuple[str, ...]:
    return tuple(f"{REPORTS}{queue}:{number}" for number in range(REPORT_SESSIONS))


@cache
def _shards(queue: str, shards: int) -> dict[str, int]:
    return {name: shard_of(name, shards) for name in _sessions(queue)}
