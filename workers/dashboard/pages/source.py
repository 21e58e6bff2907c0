"""Defines what the pages show and do, as a port; the gateway implements it."""

from typing import Protocol

from kernel.audit.operations import AuditFilter
from kernel.audit.provenance import Provenance
from kernel.work.request_lists import RequestPage, RequestSearch
from queues.fleet.worker_heartbeats import WorkerBeat
from workers.use_cases.queue_operations import OperatorAction
from workers.views.audit import OperationPageDocument
from workers.views.interface import Interface
from workers.views.provenance import ProvenanceQuestion
from workers.views.queues import QueueSummary
from workers.views.records import OperationRecordDocument
from workers.views.requests import RequestView
from workers.views.run_pages import RunPicture, RunsPicture, TokenPicture
from workers.views.session_lists import NewestSessionsDocument
from workers.views.sessions import SessionView


class PageSource(Protocol):
    """Reads and does what the pages ask for."""

    async def queue(
        self, name: str, search: RequestSearch, after: int | None, dead_after: str
    ) -> QueueSummary | None:
        """Return a queue with its requests that fit; None where no queue has the name."""
        ...

    async def requests(self, search: RequestSearch, after: int | None) -> RequestPage:
        """Return a page of the requests of all queues that fit, newest first."""
        ...

    async def request(self, queue: str, request_id: str) -> RequestView | None:
        """Return a request; None where nothing asked this queue for it."""
        ...

    async def sessions(self, words: str | None, after: str | None) -> NewestSessionsDocument:
        """Return a page of the belief sessions with these words, the last changed first."""
        ...

    async def session(self, session_id: str, before: int | None) -> SessionView | None:
        """Return a session with the entries of its trail up to a number, or the newest."""
        ...

    async def operations(self, criteria: AuditFilter, before: int | None) -> OperationPageDocument:
        """Return a page of the operations that a filter admits, newest first."""
        ...

    async def operation(self, operation_id: str) -> OperationRecordDocument | None:
        """Return what the record says of an operation; None where it says nothing."""
        ...

    async def interface(self) -> Interface:
        """Return the HTTP interface of the gateway."""
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

    async def explained(self, question: ProvenanceQuestion) -> Provenance | str:
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
