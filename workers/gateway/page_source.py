"""Reads and does, with the gateway's services, what the dashboard's pages ask for.

What a page shows comes from the views that every door shares.
"""

import json
from contextlib import suppress
from functools import cache

import structlog
from anyio import to_thread

from kernel.audit.operations import AuditFilter
from kernel.audit.provenance import Provenance
from kernel.ledger.ledger import LedgerView
from kernel.values.errors import KernelError
from kernel.work.queue_kinds import no_such_queue
from kernel.work.request_lists import RequestPage, RequestSearch
from queues.errors import QueueError
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.queue.items import QueueDepth
from workers.api.app import DOCUMENT
from workers.api.services import Services
from workers.use_cases import queue_operations
from workers.use_cases.queue_operations import OperatorAction
from workers.views.audit import OperationPageDocument, newest_operations_page
from workers.views.interface import Interface
from workers.views.provenance import ProvenanceQuestion, explained_text, provenance_asked
from workers.views.queues import QueueSummary, queue_summary
from workers.views.records import OperationRecordDocument, describe_operation
from workers.views.requests import RequestView, request_view, requests_page
from workers.views.run_pages import (
    RunPicture,
    RunsPicture,
    TokenPicture,
    run_picture,
    runs_picture,
    token_picture,
)
from workers.views.session_lists import NewestSessionsDocument, find_sessions
from workers.views.sessions import SessionView, session_view

SHOWN_ROWS = 50
"""Rows of a list on one page of the dashboard."""


@cache
def _interface() -> Interface:
    return Interface.of(json.loads(DOCUMENT.read_bytes()))


_log = structlog.get_logger(__name__)


class LivePages:
    """The port of the pages, on the services of a gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def queue(
        self, name: str, search: RequestSearch, after: int | None, dead_after: str
    ) -> QueueSummary | None:
        """Return a queue with its requests that fit; None where no queue has the name."""
        queue = self._services.work.queues.get(name)
        if queue is None:
            return None
        depth: QueueDepth | None = None
        with suppress(QueueError):
            depth = await queue.depth()
        return await self._services.read(
            lambda view: queue_summary(
                view, name, depth, search, after=after, dead_after=dead_after, limit=SHOWN_ROWS
            )
        )

    async def requests(self, search: RequestSearch, after: int | None) -> RequestPage:
        """Return a page of the requests of all queues that fit, newest first."""
        return await self._services.read(
            lambda view: requests_page(view, search, after, SHOWN_ROWS)
        )

    async def request(self, queue: str, request_id: str) -> RequestView | None:
        """Return a request; None where nothing asked this queue for it."""
        return await request_view(self._services, queue, request_id)

    async def sessions(self, words: str | None, after: str | None) -> NewestSessionsDocument:
        """Return a page of the belief sessions with these words, the last changed first."""
        return await self._services.read(
            lambda view: find_sessions(view, words, after=after, limit=SHOWN_ROWS)
        )

    async def session(self, session_id: str, before: int | None) -> SessionView | None:
        """Return a session with the entries of its trail up to a number, or the newest."""
        return await self._services.read(
            lambda view: session_view(view, session_id, before=before, limit=SHOWN_ROWS)
        )

    async def operations(self, criteria: AuditFilter, before: int | None) -> OperationPageDocument:
        """Return a page of the operations that a filter admits, newest first."""
        return await self._services.read(
            lambda view: newest_operations_page(view, criteria, before, SHOWN_ROWS)
        )

    async def operation(self, operation_id: str) -> OperationRecordDocument | None:
        """Return what the record says of an operation; None where it says nothing."""
        return await self._services.read(lambda view: describe_operation(view, operation_id))

    async def interface(self) -> Interface:
        """Return the HTTP interface of the gateway."""
        return await to_thread.run_sync(_interface)

    async def worker(self, worker_id: str) -> WorkerBeat | None:
        """Return the last report of a living worker; None where there is none."""
        beats = await self._services.work.heartbeats.alive()
        return next((beat for beat in beats if beat.worker_id == worker_id), None)

    async def runs(self, status: str | None, before_us: int | None) -> RunsPicture:
        """Return a page of runs, the newest first, those of a status where one is named."""
        return await self._services.read(lambda view: runs_picture(view, status, before_us))

    async def run(self, run_id: str, after: str | None) -> RunPicture:
        """Return a run, with the tokens behind an id."""
        return await self._services.read(lambda view: run_picture(view, run_id, after))

    async def token(self, run_id: str, token_id: str) -> TokenPicture:
        """Return the way of a token."""
        return await self._services.read(lambda view: token_picture(view, run_id, token_id))

    async def explained(self, question: ProvenanceQuestion) -> Provenance | str:
        """Return where something comes from; of an id of a run its lineage, as text."""

        def read(view: LedgerView) -> Provenance | str:
            return provenance_asked(view, question) or explained_text(view, question)

        return await self._services.read(read)

    async def act(self, action: OperatorAction) -> None:
        """Do what is asked; it is on the record when this returns."""
        queue = self._services.work.queues.get(action.queue)
        if queue is None:
            raise KernelError(no_such_queue(action.queue), code="work_queue_unknown")
        await queue_operations.act(self._services.write, queue, action)
        _log.info(
            "operator_acted",
            verb=action.verb,
            queue=action.queue,
            request_id=action.request_id,
            decided_by=action.decided_by,
        )
