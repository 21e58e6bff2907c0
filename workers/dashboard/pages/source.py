"""What the pages of single things show and do, as a port; the gateway implements it."""

from dataclasses import dataclass
from typing import Protocol

from kernel.audit.provenance import Provenance
from kernel.work.dead_letters import DeadLetters
from kernel.work.pauses import Pause
from kernel.work.request_lists import RequestPage, RequestSearch
from kernel.work.requests import WorkStatus
from queues.worker_heartbeats import WorkerBeat
from workers.views.backlog import Backlog
from workers.views.provenance import Question
from workers.views.run_pages import RunPicture, RunsPicture, TokenPicture


@dataclass(frozen=True, slots=True)
class QueuePicture:
    """A queue with a page of its requests and of its unsettled dead letters."""

    priorities: tuple[str, ...]
    backlog: Backlog | None
    """None where Redis does not answer."""

    pauses: tuple[Pause, ...]
    requests: RequestPage
    dead: DeadLetters


@dataclass(frozen=True, slots=True)
class RequestPicture:
    """A request as it stands, and why it waits; `why` is None where it has its outcome."""

    status: WorkStatus
    why: str | None
    is_dead: bool
    """Whether it is a dead letter that nobody has settled."""


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """What an operator asks of a queue, and who says so."""

    verb: str
    queue: str
    decided_by: str
    reason: str = ""
    priority: str | None = None
    request_id: str = ""


class PageSource(Protocol):
    """Reads and does what the pages of single things ask for."""

    async def queue(
        self, name: str, search: RequestSearch, after: int | None
    ) -> QueuePicture | None:
        """Return a queue with its requests that fit; None where no queue has the name."""
        ...

    async def request(self, queue: str, request_id: str) -> RequestPicture | None:
        """Return a request; None where nobody asked this queue for it."""
        ...

    async def worker(self, worker_id: str) -> WorkerBeat | None:
        """Return the last report of a living worker; None where there is none.

        Raises:
            QueueError: `queue_unavailable`.
        """
        ...

    async def runs(self, status: str | None, before_us: int | None) -> RunsPicture:
        """Return a page of runs, the newest first, those of a status where one is named.

        Raises:
            RecordDamaged: a record breaks a rule; so the two below.
        """
        ...

    async def run(self, run_id: str, after: str | None) -> RunPicture:
        """Return a run, with the tokens behind an id.

        Raises:
            LandscapeRefused: `landscape_unknown`.
        """
        ...

    async def token(self, run_id: str, token_id: str) -> TokenPicture:
        """Return the way of a token.

        Raises:
            LandscapeRefused: `landscape_unknown`.
        """
        ...

    async def explained(self, question: Question) -> Provenance | str:
        """Return where something comes from; of an id of a run its lineage, as text.

        Raises:
            LandscapeRefused: `landscape_unknown`.
        """
        ...

    async def act(self, action: OperatorAction) -> None:
        """Do what is asked; it is on the record when this returns.

        Raises:
            KernelError: nothing was recorded.
            QueueError: it is on the record, and Redis follows once it answers.
        """
        ...
