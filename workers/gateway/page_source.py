"""Reads and does, with the gateway's services, what the dashboard's pages ask for."""

from contextlib import suppress

import structlog

from kernel.audit.provenance import Provenance
from kernel.errors import KernelError
from kernel.ledger.ledger import LedgerView
from kernel.work.dead_letters import DeadLetterDismissal, dead_letters
from kernel.work.outcomes import REASON_CHARS_MAX, open_by_queue
from kernel.work.pauses import PauseDecision, pauses_of
from kernel.work.queue_kinds import no_such_queue
from kernel.work.request_lists import RequestSearch, list_requests
from kernel.work.requests import status_of
from queues.errors import QueueError
from queues.items import QueueDepth
from queues.work_queue import WorkQueue
from queues.worker_heartbeats import WorkerBeat
from workers.api.services import Services
from workers.dashboard.pages.source import OperatorAction, QueuePicture, RequestPicture
from workers.use_cases import queue_operations
from workers.views.backlog import backlog
from workers.views.provenance import Question, explained_text, provenance_asked
from workers.views.run_pages import (
    RunPicture,
    RunsPicture,
    TokenPicture,
    run_picture,
    runs_picture,
    token_picture,
)
from workers.views.surroundings import why_open

PAGE_ROWS = 50

_log = structlog.get_logger(__name__)


class LivePages:
    """The port of the pages, on the services of a gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def queue(
        self, name: str, search: RequestSearch, after: int | None
    ) -> QueuePicture | None:
        """Return a queue with its requests that fit; None where no queue has the name."""
        queue = self._services.queues.get(name)
        if queue is None:
            return None
        depth: QueueDepth | None = None
        with suppress(QueueError):
            depth = await queue.depth()

        def read(view: LedgerView) -> QueuePicture:
            return QueuePicture(
                tuple(priority.name for priority in queue.priorities),
                None if depth is None else backlog(depth, open_by_queue(view).get(name, 0)),
                tuple(pause for pause in pauses_of(view) if pause.queue == name),
                list_requests(view, name, search, after=after, limit=PAGE_ROWS),
                dead_letters(view, name, error_signature=None, after="", limit=PAGE_ROWS),
            )

        return await self._services.read(read)

    async def request(self, queue: str, request_id: str) -> RequestPicture | None:
        """Return a request; None where nobody asked this queue for it."""
        status = await self._services.read(lambda view: status_of(view, request_id))
        if status is None or status.queue != queue or queue not in self._services.queues:
            return None
        why = await why_open(self._services, queue, request_id) if status.state == "open" else None
        settled = status.requeued_as is not None or status.dismissed is not None
        return RequestPicture(status, why, status.state == "dead_letter" and not settled)

    async def worker(self, worker_id: str) -> WorkerBeat | None:
        """Return the last report of a living worker; None where there is none."""
        beats = await self._services.heartbeats.alive()
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

    async def explained(self, question: Question) -> Provenance | str:
        """Return where something comes from; of an id of a run its lineage, as text."""

        def read(view: LedgerView) -> Provenance | str:
            return provenance_asked(view, question) or explained_text(view, question)

        return await self._services.read(read)

    async def act(self, action: OperatorAction) -> None:
        """Do what is asked; it is on the record when this returns."""
        queue = self._services.queues.get(action.queue)
        if queue is None:
            raise KernelError(no_such_queue(action.queue), code="work_queue_unknown")
        await self._act(action, queue)
        _log.info(
            "operator_acted",
            verb=action.verb,
            queue=action.queue,
            request_id=action.request_id,
            decided_by=action.decided_by,
        )

    async def _act(self, action: OperatorAction, queue: WorkQueue) -> None:
        write, ids = self._services.write, [action.request_id]
        if action.verb in ("pause", "resume"):
            decision = PauseDecision(
                action.queue, action.priority, action.decided_by, action.reason
            )
            await queue_operations.switch(write, queue, decision, paused=action.verb == "pause")
        elif action.verb == "requeue":
            await queue_operations.requeue(write, action.queue, queue, ids, action.decided_by)
        elif action.verb == "dismiss":
            dismissal = DeadLetterDismissal(action.reason, action.decided_by)
            await queue_operations.dismiss(write, action.queue, queue, ids, dismissal)
        else:
            reason = f"{action.reason} ({action.decided_by})"[:REASON_CHARS_MAX]
            await queue_operations.cancel(write, queue, action.request_id, reason)
