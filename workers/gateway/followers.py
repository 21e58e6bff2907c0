"""Starts the loops of a gateway that follow the record, and what each of them is woken by.

A loop that is woken reads the ledger on a thread of its own, and a dozen of them at once fight with
the next caller for the interpreter. So each is woken by what concerns it alone (decision
workers/0320). Each looks once in a while besides, for what other processes have recorded.
"""

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, NamedTuple

from kernel.authority.requests import CASCADE_QUEUE
from kernel.ledger.recorded import Recorded

Follows = Callable[[Recorded], bool]
Run = Callable[[], Coroutine[Any, Any, None]]

SHARDS: Final = "shards"
"""This gateway has taken shards, and with them what their sessions left to be done."""

WORK: Final = "work"
"""Another gateway has recorded or closed requests for work."""


class GatewayLoop(NamedTuple):
    """What a gateway runs beside its server; it begins again after a failure."""

    run: Run
    is_vital: bool = False
    """A failure ends the process instead: the loop holds what cannot be trusted then."""


class Follower(NamedTuple):
    """Whoever is woken: how, by which records, and by what else."""

    notify: Callable[[], None]
    follows: Follows
    of: Collection[str]


class Followers:
    """Everything that is woken by what is recorded."""

    def __init__(self) -> None:
        self._followers: list[Follower] = []

    def remove(self, notify: Callable[[], None]) -> None:
        """Have somebody woken no more."""
        self._followers = [each for each in self._followers if each.notify != notify]

    def add(
        self,
        notify: Callable[[], None],
        follows: Follows,
        *,
        of: Collection[str] = (SHARDS, WORK),
    ) -> None:
        """Have somebody woken by the records that `follows` names, and by the events of `of`."""
        self._followers.append(Follower(notify, follows, of))

    def wake(self, recorded: Recorded) -> None:
        """Wake those whom something of what was recorded concerns."""
        for follower in self._followers:
            if follower.follows(recorded):
                follower.notify()

    def wake_for_shards(self) -> None:
        """Wake those who carry on what the sessions of new shards left."""
        self._wake_for(SHARDS)

    def wake_for_work(self) -> None:
        """Wake those who carry on what other gateways have recorded."""
        self._wake_for(WORK)

    def _wake_for(self, event: str) -> None:
        for follower in self._followers:
            if event in follower.of:
                follower.notify()


def concerns_others(recorded: Recorded) -> bool:
    """Tell whether something was recorded that another gateway may have to carry on."""
    return bool(recorded.queues) or recorded.operations


def requests_of(*queues: str) -> Follows:
    """Return what follows the requests of some queues."""
    return lambda recorded: not recorded.queues.isdisjoint(queues)


def items_of(queue: str) -> Follows:
    """Return what a queue's relay follows; a cascade that stands open holds its items back."""
    return requests_of(queue, CASCADE_QUEUE)
