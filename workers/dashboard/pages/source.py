"""Defines what the pages show and do, as a port; the gateway implements it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kernel.audit.open_reviews import ReviewKind
from kernel.audit.operations import AuditFilter
from kernel.audit.operator_log import OperatorLog
from kernel.audit.provenance import Provenance
from kernel.ledger.ledger import Head
from kernel.ledger.shards import Shard
from kernel.records.access.keys import AccessKey
from kernel.records.access.readable_view import RecordReader
from kernel.work.attempts import SignaturePage
from kernel.work.bulk_operations import (
    BulkOperation,
    BulkOperationsPage,
    BulkPreview,
    BulkRequest,
    Verb,
)
from kernel.work.dead_letters import DeadAlike
from kernel.work.request_lists import RequestPage
from kernel.work.request_search import RequestSearch
from queues.fleet.cron_claims import CronFiring
from queues.fleet.worker_heartbeats import WorkerBeat
from workers.environment.shown_settings import ShownSetting
from workers.use_cases.access import Caller
from workers.use_cases.principal_use import PrincipalCounts
from workers.use_cases.provider_login import LoginBegun
from workers.use_cases.queue_operations import OperatorAction
from workers.use_cases.reviews import ItemResult, ReviewDecision
from workers.use_cases.rollbacks import UndoEpoch, UndoTogether
from workers.views.audit import ManifestPageDocument, OperationPageDocument
from workers.views.binding_activity import BindingView
from workers.views.bindings import BindingPageDocument
from workers.views.capacity import ResourceUse
from workers.views.charts import ChartsDocument, Span
from workers.views.checkpoints import CheckpointStatusDocument
from workers.views.fleet import FleetVersions, GatewaysDocument, QueuesDocument
from workers.views.interface import Interface
from workers.views.past import LogMoment, PastSession, PastView
from workers.views.provenance import ProvenanceQuestion
from workers.views.queues import QueueSummary
from workers.views.records import NodeDocument, OperationRecordDocument
from workers.views.requests import FittingPage, RequestsInHand, RequestView
from workers.views.reviews import ReviewsView
from workers.views.run_pages import RunPicture, RunsPicture, TokenPicture
from workers.views.search import SearchResults, SearchSubject
from workers.views.session_lists import NewestSessionsDocument
from workers.views.sessions import SessionView
from workers.views.undoing import AroundOperation


class PageSource(Protocol):
    """Reads and does what the pages ask for."""

    def for_reader(self, reader: RecordReader) -> "PageSource":
        """Return the pages as somebody may read them; itself where that changes nothing."""
        ...

    async def log_in(self, text: str) -> AccessKey | None:
        """Open a session by a key and return the session's own; None where it is no key."""
        ...

    @property
    def has_provider(self) -> bool:
        """Tell whether people log in by a provider as well."""
        ...

    async def begin_login(self) -> tuple[LoginBegun, str]:
        """Return what a browser keeps of a login, and where it is sent.

        Raises:
            LoginFailed: see `ProviderLogin.address`.
        """
        ...

    async def log_in_by_provider(self, begun: LoginBegun, answer: Mapping[str, str]) -> AccessKey:
        """Open a session of who the provider says it is, and return its key.

        Raises:
            LoginFailed: see `ProviderLogin.log_in`; `login_refused` for whom nobody granted a role.
        """
        ...

    async def log_out(self, caller: Caller) -> None:
        """End the session whose key somebody shows; a key that was handed out stays."""
        ...

    async def queues(self) -> QueuesDocument:
        """Return what each queue holds, what is paused, and who works.

        Raises:
            QueueError: `queue_unavailable`.
        """
        ...

    async def head(self) -> Head:
        """Return the head of the record."""
        ...

    async def checkpoint(self) -> CheckpointStatusDocument:
        """Return the published checkpoint with its verdict."""
        ...

    async def capacity(self) -> list[ResourceUse]:
        """Return every resource of which work takes slots, and who holds them.

        Raises:
            QueueError: `queue_unavailable`.
        """
        ...

    async def schedules(self) -> list[CronFiring]:
        """Return what is done periodically, with its last and its next time, as far as is known.

        Raises:
            QueueError: `queue_unavailable`.
        """
        ...

    async def versions(self) -> FleetVersions:
        """Return what this gateway is, and which versions its workers say they are."""
        ...

    def principals(self) -> Sequence[PrincipalCounts] | None:
        """Return what principals use of this gateway, those first that were refused most.

        None where access is open.
        """
        ...

    def settings(self) -> Sequence[ShownSetting]:
        """Return the settings of this gateway, without secrets."""
        ...

    async def operator_log(
        self, verb: str | None, who: str | None, after: int | None
    ) -> OperatorLog:
        """Return a page of what people decided about the runtime, newest first."""
        ...

    async def shards(self) -> list[Shard]:
        """Return every shard with the gateway that owns it on the record."""
        ...

    async def gateways(self) -> GatewaysDocument:
        """Return the living gateways that clients may ask directly."""
        ...

    async def reviews(self, kind: ReviewKind | None, after: str) -> ReviewsView:
        """Return what waits of a kind behind a place, by default of the first with anything."""
        ...

    async def decide_reviews(self, decision: ReviewDecision) -> list[ItemResult]:
        """Decide about items, each as an operation of its own; return what became of each.

        Raises:
            KernelError: nothing was recorded.
        """
        ...

    async def subject(self, text: str) -> SearchSubject | None:
        """Return the one thing that a text names; None where it names none."""
        ...

    async def search(self, text: str) -> SearchResults:
        """Return where a text occurs."""
        ...

    async def workers_like(self, text: str) -> Sequence[str]:
        """Return the ids of living workers that have a text."""
        ...

    async def queue(
        self, name: str, search: RequestSearch, after: int | None, dead_after: int | None
    ) -> QueueSummary | None:
        """Return a queue with its requests that fit; None where no queue has the name."""
        ...

    async def charts(self, queue: str | None, span: Span, points_max: int) -> ChartsDocument:
        """Return what was counted in a span that ends now, of a queue or of everything."""
        ...

    async def requests(self, search: RequestSearch, after: int | None) -> FittingPage:
        """Return a page of the requests of all queues that fit, newest first, and their number."""
        ...

    async def more_requests(self, search: RequestSearch, after: int | None) -> RequestPage:
        """Return a larger page of them, uncounted, for a file."""
        ...

    async def oldest_open(self, queue: str | None, after: int | None) -> RequestPage:
        """Return a page of what has no outcome, of a queue or of all, the oldest first."""
        ...

    async def in_hand(self, queue: str | None, worker_id: str | None = None) -> RequestsInHand:
        """Return what workers have in hand, of a queue or of all, or one of them, longest first.

        Raises:
            QueueError: `queue_unavailable`.
        """
        ...

    async def dead_alike(self, queue: str | None) -> tuple[tuple[DeadAlike, ...], bool]:
        """Return the dead letters that stand by queue and reason; False where that is not all."""
        ...

    async def failing_alike(self, queue: str | None, after: str) -> SignaturePage:
        """Return a page of why requests failed last, each reason with how many."""
        ...

    async def bulk_preview(self, verb: Verb, search: RequestSearch) -> BulkPreview:
        """Return how many requests fit now, with the newest of them.

        Raises:
            KernelError: `work_queue_unknown`.
        """
        ...

    async def begin_bulk(self, request: BulkRequest, upper_sequence: int) -> BulkOperation:
        """Begin what goes on by itself; it is about no request beyond a sequence.

        Raises:
            KernelError: nothing was recorded.
        """
        ...

    async def bulk_operations(self, after: int | None) -> BulkOperationsPage:
        """Return a page of the bulk operations, newest first."""
        ...

    async def bulk_operation(self, bulk_number: int) -> BulkOperation | None:
        """Return a bulk operation, and how far it has come; None where there is none."""
        ...

    async def stop_bulk(self, bulk_number: int, stopped_by: str) -> None:
        """End a bulk operation where it is.

        Raises:
            KernelError: `bulk_operation_unknown`.
        """
        ...

    async def request(self, queue: str, request_id: str) -> RequestView | None:
        """Return a request; None where nothing asked this queue for it."""
        ...

    async def sessions(self, words: str | None, after: str | None) -> NewestSessionsDocument:
        """Return a page of the belief sessions with these words, the last changed first."""
        ...

    async def session(
        self, session_id: str, before: int | None, step: int | None
    ) -> SessionView | None:
        """Return a session after a step, with the entries of its trail up to a number."""
        ...

    async def operations(self, criteria: AuditFilter, before: int | None) -> OperationPageDocument:
        """Return a page of the operations that a filter admits, newest first."""
        ...

    async def operation(self, operation_id: str) -> OperationRecordDocument | None:
        """Return what the record says of an operation; None where it says nothing."""
        ...

    async def around_operation(self, operation_id: str) -> AroundOperation:
        """Return the causes and consequences of an operation, and what undoing it takes."""
        ...

    async def undo(self, undoing: UndoTogether | UndoEpoch, caller: Caller | None) -> None:
        """Undo operations, each by an operation of its own; `caller` is None where access is open.

        Raises:
            RollbackRefused: one of them cannot be undone, and none is.
        """
        ...

    async def bindings(self, after: str | None) -> BindingPageDocument:
        """Return a page of the source bindings, in the order of their ids."""
        ...

    async def binding(self, binding_id: str) -> BindingView | None:
        """Return a binding and what it did lately; None where no binding has the id."""
        ...

    async def manifests(self, source_event_id: str, after: int) -> ManifestPageDocument:
        """Return what bindings made of an event, after a cycle.

        Raises:
            ManifestUnknown: the event has none.
        """
        ...

    async def moment(self, sequence: int) -> LogMoment:
        """Return a row of the log as a moment.

        Raises:
            StateAsOfUnknown: the log has no such row yet; so the four below, which are also refused
                where what stood then cannot be told at a bounded cost.
        """
        ...

    async def past(self, sequence: int) -> PastView:
        """Return the record as it stood behind a row of the log."""
        ...

    async def past_sessions(self, sequence: int, after: str | None) -> NewestSessionsDocument:
        """Return a page of the sessions as they stood, the last changed first."""
        ...

    async def past_session(self, session_id: str, sequence: int) -> PastSession | None:
        """Return a session as it stood; None where it was not declared then."""
        ...

    async def node(self, node_id: str, sequence: int | None) -> NodeDocument | None:
        """Return a node as it stood, or as it is now; None where there is none."""
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

    async def explain(self, question: ProvenanceQuestion) -> Provenance | str:
        """Return where something comes from; of an id of a run its lineage, as text.

        Raises:
            LandscapeRefused: `landscape_unknown`.
        """
        ...

    async def exhibit(self, question: ProvenanceQuestion) -> bytes:
        """Return the page that proves what an id names, under the published checkpoint.

        Raises:
            KernelError: `exhibit_refused`, `checkpoint_not_published`, `landscape_unknown`.
        """
        ...

    async def act(self, action: OperatorAction) -> None:
        """Do what is asked; it is on the record when this returns.

        Raises:
            KernelError: nothing was recorded.
            QueueError: it is on the record, and Redis follows once it answers.
        """
        ...
