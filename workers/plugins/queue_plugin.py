"""Defines a queue of a plug-in: its row of the table of queues, its handler and its schedules."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import BaseModel

from kernel.values.priorities import QueuePriority
from kernel.work.queue_kinds import NAME, QueueKind
from workers.environment.foreign_threads import call_within
from workers.plugins.cron_expression import CronExpression
from workers.plugins.retry import Retry

LIMIT_S_MAX: Final = 3600.0
CONTENT_S_MAX: Final = 5.0
"""How long the model of a content may take, for which commits wait."""

CONCURRENCY_MAX: Final = 64
SCHEDULES_MAX: Final = 32
EVERY_S_MAX: Final = 7 * 24 * 3600

PRIORITIES: Final = (
    QueuePriority("critical", "critical", 5),
    QueuePriority("user_initiated", "user_initiated", 30),
    QueuePriority("background", "background", 3600),
)
"""The priorities of a queue that states none."""

Handle = Callable[[Any], Awaitable[Mapping[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job that is asked for once in each period, whatever the number of workers.

    States one of `every_s` and `cron`. A period in which no worker with the plug-in ran is left
    out.
    """

    name: str
    content: Callable[[datetime], Mapping[str, Any]]
    """The content of the job of a period, by the time at which that begins; the item it names
    should be of the period too, because an item has 10,000 requests at most."""

    every_s: int | None = None
    """The period; it begins when seconds since 1970 (UTC) are a multiple, plus `offset_s`."""

    offset_s: int = 0
    cron: str | None = None
    """Five fields, in UTC: a period goes from one of these times to the next."""

    priority: str | None = None

    def check(self) -> None:
        """Raise `ValueError` where it is called or timed as no schedule is."""
        if not NAME.fullmatch(self.name):
            raise ValueError(f"a schedule is called by lower-case words, not {self.name!r}")
        if (self.every_s is None) == (self.cron is None):
            raise ValueError(f"the schedule {self.name} states one of every_s and cron")
        if self.cron is not None:
            CronExpression(self.cron)
        elif self.every_s is not None and not 1 <= self.every_s <= EVERY_S_MAX:
            raise ValueError(f"every_s is 1 to {EVERY_S_MAX}")
        if not 0 <= self.offset_s < (self.every_s or 1):
            raise ValueError("offset_s is less than every_s, and not negative")


@dataclass(frozen=True, slots=True)
class QueuePlugin:
    """A queue and what works on it; an entry point of `rotulus.queues` by the queue's name."""

    name: str
    content: type[BaseModel]
    """The model by which gateways check what is asked; pure and quick, since commits wait for it.
    """

    item_key: str
    """The field of it, a text, that names what jobs belong to."""

    handler: Handle
    """Called with a `JobContext` for each job; what it returns is the outcome's `result`."""

    priorities: tuple[QueuePriority, ...] = PRIORITIES
    default_priority: str = "background"
    priority_field: str | None = None
    """The field that decides the priority; None where the producer states it."""

    limit_s: float = 60.0
    concurrency: int = 8
    """Jobs that a slot of a worker has in hand at once."""

    schedules: tuple[Schedule, ...] = ()
    retry: Retry | None = None
    """How often a job is tried; None for what the operator says, and else `Retry()`."""

    @property
    def kind(self) -> QueueKind:
        """The queue's row."""
        return QueueKind(
            self.name,
            self.content,
            self.item_key,
            self.priorities,
            self.default_priority,
            self.priority_field,
            call=partial(call_within, CONTENT_S_MAX),
        )

    def check(self) -> None:
        """Raise `ValueError` where a limit is not kept; the row is checked by its table."""
        if not callable(self.handler):
            raise ValueError("a queue has a handler, which can be called")  # noqa: TRY004
        if not 0 < self.limit_s <= LIMIT_S_MAX:
            raise ValueError(f"limit_s is more than 0 and at most {LIMIT_S_MAX:g}")
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency is 1 to {CONCURRENCY_MAX}")
        names = [schedule.name for schedule in self.schedules]
        if len(names) > SCHEDULES_MAX or len(set(names)) < len(names):
            raise ValueError(f"at most {SCHEDULES_MAX} schedules, each with a name of its own")
        for schedule in self.schedules:
            schedule.check()
        if self.retry is not None:
            self.retry.check()
