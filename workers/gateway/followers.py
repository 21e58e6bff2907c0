"""The loops of a gateway that follow the record, and what each of them is woken by.

A loop that is woken reads the ledger on a thread of its own, and a dozen of them at once fight with
the next caller for the interpreter. So each is woken by what concerns it alone (decision
workers/0320). Each looks once in a while besides, for what other processes have recorded.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kernel.authority.requests import CASCADE_QUEUE
from kernel.ledger.recorded import Recorded

Follows = Callable[[Recorded], bool]


class Follower(NamedTuple):
    """A loop: how it is woken, and by what."""

    notify: Callable[[], None]
    follows: Follows


def work(recorded: Recorded) -> bool:
    """Tell whether something was recorded that another gateway may have to carry on."""
    return bool(recorded.queues) or recorded.operations


def requests_of(*queues: str) -> Follows:
    """Return what follows the requests of some queues."""
    return lambda recorded: not recorded.queues.isdisjoint(queues)


def items_of(queue: str) -> Follows:
    """Return what a queue's relay follows; a cascade that stands open holds its items back."""
    return requests_of(queue, CASCADE_QUEUE)


def wake(followers: Iterable[Follower], recorded: Recorded) -> None:
    """Wake those whom something of what was recorded concerns."""
    for follower in followers:
        if follower.follows(recorded):
            follower.notify()
