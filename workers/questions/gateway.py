"""Asks a running gateway what the record does not know: Redis, the fleet, the sessions' actors."""

from typing import Annotated, ClassVar, Protocol
from uuid import UUID

from pydantic import Field
from typing_extensions import TypedDict

from actors import messages
from kernel.belief.limits import AUDIT_PAGE_MAX
from kernel.records.access.readable_view import ReadableView
from kernel.work.requests import WorkStatus, ask_ahead_of, outcome_of
from queues.queue.job_progress import JobProgress
from workers.questions.fields import Name
from workers.questions.question import GatewayQuestion
from workers.questions.request_status import QueueName, existing_request, existing_status
from workers.views.attention_facts import AttentionServices, attention_facts
from workers.views.attention_items import AttentionItem
from workers.views.attention_rules import attention_items
from workers.views.belief_sessions import AuditPage
from workers.views.checkpoints import CheckpointStatusDocument
from workers.views.fleet import (
    GatewaysDocument,
    ProgressDocument,
    QueuesDocument,
    SetAsideDocument,
    WaitingDocument,
    gateways_document,
    queues_document,
    set_aside_document,
)
from workers.views.requests import RequestDocument, progress_of
from workers.views.surroundings import why_open
from workers.views.waiting import RecordedHold, hold_of_request


class GatewayServices(AttentionServices, Protocol):
    """What is needed of a gateway's services to answer."""


class AttentionDocument(TypedDict):
    """What needs somebody."""

    items: list[AttentionItem]


class GetAttention(GatewayQuestion):
    """List what needs somebody, the most urgent first, each with since when and what to do."""

    paths: ClassVar = ("/v1/attention",)
    subject: ClassVar = "operators"
    action: ClassVar = "read.fleet"
    rows: ClassVar = "items"

    async def ask(self, services: GatewayServices) -> AttentionDocument:
        """Return the list."""
        return {"items": attention_items(await attention_facts(services))}


class GetQueues(GatewayQuestion):
    """Show what the record asks for, what each queue holds, what is paused, and who works."""

    paths: ClassVar = ("/v1/queues",)
    action: ClassVar = "read.fleet"

    async def ask(self, services: GatewayServices) -> QueuesDocument:
        """Return the queues."""
        return await queues_document(services)


class GetRequest(GatewayQuestion):
    """Show a request for work as it stands: what was asked for, what came of it, what failed.

    Of the attempts that failed the first three and the last seventeen are kept. `progress` is what
    the handler of an open one said last, `took_ms` how long the attempt took that succeeded, and
    `worker` whose it was.
    """

    paths: ClassVar = ("/v1/queues/{queue}/requests/{request_id:work_request}",)
    subject: ClassVar = "producers"

    queue: QueueName
    request_id: Name

    async def ask(self, services: GatewayServices) -> RequestDocument:
        """Return the request."""
        status = await services.read(self.status)
        return RequestDocument.of(status, await progress_of(services, status))

    def status(self, view: ReadableView) -> WorkStatus:
        """Return what the record says of it."""
        return existing_status(view, self.queue, self.request_id)


class GetWaiting(GatewayQuestion):
    """Say in one sentence why an open request waits; null where it has its outcome."""

    paths: ClassVar = ("/v1/queues/{queue}/requests/{request_id:path}/waiting",)
    subject: ClassVar = "producers"

    queue: QueueName
    request_id: Name

    async def ask(self, services: GatewayServices) -> WaitingDocument:
        """Return why it waits."""
        now_us = services.ledger.host.now_us()

        def read(view: ReadableView) -> tuple[WorkStatus, RecordedHold | None]:
            ask_ahead_of(view, [self.request_id], attempts=True, holds=True)
            status = existing_status(view, self.queue, self.request_id)
            return status, hold_of_request(view, self.request_id, now_us)

        status, held = await services.read(read)
        why = await why_open(services, self.queue, held)
        state = status.state if why is None else "open"
        return {"request_id": self.request_id, "state": state, "why": why}


class GetProgress(GatewayQuestion):
    """Show what the handler of a plug-in's queue said last of a job that it has in hand."""

    paths: ClassVar = ("/v1/queues/{queue}/requests/{request_id:path}/progress",)
    subject: ClassVar = "producers"

    queue: QueueName
    request_id: Name

    async def ask(self, services: GatewayServices) -> ProgressDocument:
        """Return how far it is."""
        await services.read(self._check)
        progress = await JobProgress(services.work.redis).of(self.queue, self.request_id)
        if progress is None:
            return {"percent": None, "note": ""}
        return {"percent": progress.percent, "note": progress.note}

    def _check(self, view: ReadableView) -> None:
        outcome = outcome_of(view, self.queue, self.request_id)
        existing_request(view, outcome, self.request_id)


class ListGateways(GatewayQuestion):
    """List the living gateways that clients may ask directly, with the URL of each."""

    paths: ClassVar = ("/v1/gateways",)
    action: ClassVar = "read.fleet"

    async def ask(self, services: GatewayServices) -> GatewaysDocument:
        """Return the gateways."""
        return gateways_document(services.fleet)


class ListSetAside(GatewayQuestion):
    """List what ended each process that took it: what can be put back, and the newest findings."""

    paths: ClassVar = ("/v1/shards/set-aside",)
    action: ClassVar = "read.fleet"

    async def ask(self, services: GatewayServices) -> SetAsideDocument:
        """Return what was set aside."""
        return await set_aside_document(services)


class GetCheckpoint(GatewayQuestion):
    """Say what the published checkpoint is worth, and whether this gateway goes on publishing."""

    paths: ClassVar = ("/v1/checkpoint",)
    subject: ClassVar = "published log"
    action: ClassVar = "public"

    async def ask(self, services: GatewayServices) -> CheckpointStatusDocument:
        """Return the checkpoint."""
        return await services.checkpoint()


class AuditSession(GatewayQuestion):
    """List a session's audit entries, from the first or after one, as its actor has them."""

    paths: ClassVar = ("/v1/sessions/{session_id}/audit",)
    subject: ClassVar = "sessions"

    session_id: UUID
    since_event_id: Annotated[str | None, Field(description="Go on after this entry.")] = None
    limit: Annotated[int, Field(ge=1, le=AUDIT_PAGE_MAX)] = AUDIT_PAGE_MAX

    async def ask(self, services: GatewayServices) -> AuditPage:
        """Return a page of entries."""
        message = messages.Audit(self.since_event_id, self.limit)
        page: AuditPage = await services.sessions.ask(str(self.session_id), message)
        return page
