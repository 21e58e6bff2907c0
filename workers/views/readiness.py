"""Says what keeps a gateway from serving as it should, by component."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from actors.sessions.runtime import Sessions
from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.quarantine import RecordKey
from workers.views.surroundings import RequestServices

STALLED_S: Final = 5.0
"""A commit that takes as long as this makes a gateway unready."""


@dataclass(frozen=True, slots=True)
class Health:
    """What keeps a gateway from serving as it should."""

    stalled_s: Callable[[], float] = lambda: 0.0
    """For how long nothing could be committed; see `Committer.stalled_s`."""

    clock_problem: Callable[[], str | None] = lambda: None
    """Why this machine's clock keeps the gateway from being ready; see `LedgerClock.problem`."""

    went_back: Callable[[], LedgerWentBack | None] = lambda: None
    """The finding that the ledger went back, for which the gateway answers nothing; else None."""

    problems: dict[str, str] = field(default_factory=dict)
    """Problems of this process by component, which health reports."""

    tree: Callable[[], Mapping[str, Any] | None] = lambda: None
    """What the parent of this machine's processes says of them; None where there is none."""


class ReadyServices(RequestServices, Protocol):
    """What is needed of a gateway's services to say whether it is ready."""

    @property
    def health(self) -> Health:
        """What the process knows of itself."""

    @property
    def sessions(self) -> Sessions:
        """The actors of sessions."""


def damaged_records(services: ReadyServices) -> set[RecordKey]:
    """Return what this process has met damaged, but for the sessions that have a problem each."""
    corrupt = services.sessions.corrupt_sessions
    return {
        RecordKey(each.table, each.key)
        for each in services.ledger.damage.all()
        if each.key not in corrupt
    }


def problems_of_process(services: ReadyServices) -> dict[str, str]:
    """Return what is wrong by what this process knows, with the last look at Redis.

    What it has met damaged is not among it: see `damaged_records`.
    """
    health = services.health
    problems = {**health.problems}
    if (went_back := health.went_back()) is not None:
        problems["ledger_went_back"] = str(went_back)
    if (stalled_s := health.stalled_s()) >= STALLED_S:
        problems["commits"] = f"nothing was committed for {stalled_s:.0f} s"
    if (clock_problem := health.clock_problem()) is not None:
        problems["clock"] = clock_problem
    if (problem := services.work.redis_watch.problem) is not None:
        problems["redis"] = str(problem)
    for session_id in services.sessions.corrupt_sessions:
        problems[f"session {session_id}"] = "its record does not verify"
    shards = services.fleet.held_shards
    if shards is not None and shards.name_taken:
        problems["gateway"] = "another process goes by its name"
    if shards is not None and not shards.held:
        problems["shards"] = "this gateway owns none"
    return problems
