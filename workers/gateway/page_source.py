"""Reads and does, with the gateway's services, what the dashboard's pages ask for.

Pages show what the views give that every door shares.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

import structlog
from anyio import to_thread

from actors.commit.bulk_units import StopBulkUnit
from kernel.audit.manifests import manifests_of
from kernel.audit.open_reviews import ReviewKind
from kernel.audit.operations import AuditFilter
from kernel.audit.operator_log import OperatorLog, operator_log
from kernel.audit.provenance import Provenance
from kernel.ledger.ledger import Head
from kernel.ledger.shards import Shard, shards_of
from kernel.records.access.keys import AccessKey
from kernel.records.access.readable_view import ReadableView, RecordReader
from kernel.records.access.records import AccessDecision
from kernel.values.errors import KernelError
from kernel.work.attempts import SignaturePage, list_signatures
from kernel.work.bulk_operations import (
    BulkOperation,
    BulkOperationsPage,
    BulkPreview,
    BulkRequest,
    Verb,
    bulk_operation,
    list_bulk_operations,
)
from kernel.work.dead_letters import DeadAlike, dead_alike
from kernel.work.queue_kinds import QUEUE_KINDS, no_such_queue
from kernel.work.request_lists import RequestPage, list_requests, oldest_open
from kernel.work.request_search import RequestSearch
from queues.errors import QueueError
from queues.fleet.cron_claims import CronFiring, Crons
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.queue.items import QueueDepth
from workers.api.app import DOCUMENT
from workers.api.services import Services
from workers.environment.checkpoint_key import CheckpointDiverged
from workers.environment.shown_settings import ShownSetting
from workers.publication.exhibit.exhibit import gather
from workers.publication.exhibit.page import page
from workers.use_cases import bulk_operations, queue_operations, reviews
from workers.use_cases.access import AccessChanges, Caller
from workers.use_cases.principal_use import PrincipalCounts
from workers.use_cases.provider_login import (
    LoggedIn,
    LoginBegun,
    LoginFailed,
    ProviderLogin,
    new_login,
)
from workers.use_cases.queue_operations import OperatorAction
from workers.use_cases.reviews import ItemResult, ReviewDecision
from workers.use_cases.rollbacks import UndoEpoch, UndoTogether, check_not_own, unit_of
from workers.views.audit import (
    ManifestPageDocument,
    OperationPageDocument,
    manifests_document,
    newest_operations_page,
)
from workers.views.binding_activity import BindingView, binding_view
from workers.views.bindings import BindingPageDocument, list_bindings
from workers.views.capacity import ResourceUse, capacity_use
from workers.views.charts import SPANS_S, ChartsDocument, Span, charts
from workers.views.checkpoints import CheckpointStatusDocument
from workers.views.fleet import (
    FleetVersions,
    GatewaysDocument,
    QueuesDocument,
    fleet_versions,
    gateways_document,
    queues_document,
)
from workers.views.interface import Interface
from workers.views.past import (
    LogMoment,
    PastSession,
    PastView,
    moment_of_row,
    node_as_of,
    past_session,
    past_view,
    sessions_as_of,
)
from workers.views.provenance import ProvenanceQuestion, explain_as_text, provenance_of_question
from workers.views.queues import QueueSummary, queue_summary
from workers.views.records import (
    NodeDocument,
    OperationRecordDocument,
    describe_node,
    describe_operation,
)
from workers.views.requests import (
    FittingPage,
    RequestsInHand,
    RequestView,
    request_view,
    requests_in_hand,
    requests_page,
)
from workers.views.reviews import ReviewsView, reviews_view
from workers.views.run_pages import (
    RunPicture,
    RunsPicture,
    TokenPicture,
    run_picture,
    runs_picture,
    token_picture,
)
from workers.views.search import SearchResults, SearchSubject, named_subject, search_results
from workers.views.session_lists import NewestSessionsDocument, find_sessions
from workers.views.sessions import SessionView, session_view
from workers.views.undoing import AroundOperation, around_operation

SHOWN_ROWS = 50
"""Rows of a list on one page of the dashboard."""

SHOWN_SIGNATURES = 10
"""Signatures on one page: of each a thousand requests are looked at."""

PAST_ROWS = 15
"""Rows of each list on the page of the past."""

WRITTEN_ROWS = 500
"""Rows that are read at once for a file."""
REVIEWS_SHOWN = 16
"""Items of a page of reviews, each with the words of its sources."""

BINDINGS_SHOWN = 20


@cache
def _interface() -> Interface:
    return Interface.of(json.loads(DOCUMENT.read_bytes()))


_log = structlog.get_logger(__name__)


async def open_person_session(services: Services, person: LoggedIn) -> AccessKey:
    """Open a session of somebody for whom a provider vouches, and return its key.

    Raises:
        LoginFailed: `login_refused` where nobody granted them, or a group of theirs, anything.
    """
    door = services.door
    groups = () if door is None else door.table.groups_with_roles(person.groups)
    if door is None or not (groups or door.table.has_role(person.principal)):
        message = f"nobody granted a role to {person.principal}, or to a group that it is in"
        raise LoginFailed("login_refused", message)
    changes = AccessChanges(services.write, services.ledger.host)
    session = await changes.open_session_by_provider(person.principal, groups)
    await door.table.refresh()
    return session


class LivePages:
    """The port of the pages, on the services of a gateway."""

    def __init__(self, services: Services, settings: Sequence[ShownSetting] = ()) -> None:
        self._services = services
        self._settings = settings

    def for_reader(self, reader: RecordReader) -> "LivePages":
        """Return the pages as somebody may read them."""
        services = self._services.for_reader(reader)
        return self if services is self._services else LivePages(services, self._settings)

    async def log_in(self, text: str) -> AccessKey | None:
        """Open a session by a key and return the session's own; None where it is no key.

        The key of a session opens no other, or who has one could go on for ever.
        """
        door = self._services.door
        caller = None if door is None else door.table.caller_of(text)
        if door is None or caller is None or caller.is_session:
            return None
        session = await self._access_changes().open_session(caller)
        await door.table.refresh()
        return session

    @property
    def has_provider(self) -> bool:
        """Tell whether people log in by a provider as well."""
        return self._services.provider is not None

    async def begin_login(self) -> tuple[LoginBegun, str]:
        """Return what a browser keeps of a login, and where it is sent."""
        begun = new_login(self._services.ledger.host.random_bytes)
        return begun, await self._provider().address(begun)

    async def log_in_by_provider(self, begun: LoginBegun, answer: Mapping[str, str]) -> AccessKey:
        """Open a session of who the provider says it is, and return its key."""
        person = await self._provider().log_in(begun, answer)
        return await open_person_session(self._services, person)

    def _provider(self) -> ProviderLogin:
        if self._services.provider is None:
            raise LoginFailed("login_refused", "this gateway has no provider of logins")
        return self._services.provider

    async def log_out(self, caller: Caller) -> None:
        """End the session whose key somebody shows; a key that was handed out stays."""
        door = self._services.door
        if door is not None and caller.key_id is not None and caller.is_session:
            decision = AccessDecision(caller.principal, "logged out")
            await self._access_changes().revoke_key(caller.key_id, decision)
            await door.table.refresh()

    def _access_changes(self) -> AccessChanges:
        return AccessChanges(self._services.write, self._services.ledger.host)

    async def queues(self) -> QueuesDocument:
        """Return what each queue holds, what is paused, and who works."""
        return await queues_document(self._services)

    async def head(self) -> Head:
        """Return the head of the record."""
        return await self._services.read(lambda view: view.head())

    async def checkpoint(self) -> CheckpointStatusDocument:
        """Return the published checkpoint with its verdict."""
        return await self._services.checkpoint()

    async def capacity(self) -> list[ResourceUse]:
        """Return every resource of which work takes slots, and who holds them."""
        return await capacity_use(self._services.work)

    async def schedules(self) -> list[CronFiring]:
        """Return what is done periodically, with its last and its next time, as far as is known."""
        return await Crons(self._services.work.redis).firings()

    async def versions(self) -> FleetVersions:
        """Return what this gateway is, and which versions its workers say they are."""
        return await fleet_versions(self._services)

    def principals(self) -> Sequence[PrincipalCounts] | None:
        """Return what principals use of this gateway; None where access is open."""
        door = self._services.door
        return None if door is None else door.uses.counts(SHOWN_ROWS)

    def settings(self) -> Sequence[ShownSetting]:
        """Return the settings of this gateway, without secrets."""
        return self._settings

    async def operator_log(
        self, verb: str | None, who: str | None, after: int | None
    ) -> OperatorLog:
        """Return a page of what people decided about the runtime, newest first."""
        return await self._services.read(
            lambda view: operator_log(view, verb=verb, who=who, after=after, limit=SHOWN_ROWS)
        )

    async def shards(self) -> list[Shard]:
        """Return every shard with the gateway that owns it on the record."""
        return await self._services.read(shards_of)

    async def gateways(self) -> GatewaysDocument:
        """Return the living gateways that clients may ask directly."""
        return gateways_document(self._services.fleet)

    async def reviews(self, kind: ReviewKind | None, after: str) -> ReviewsView:
        """Return what waits of a kind behind a place, by default of the first with anything."""
        return await self._services.read(
            lambda view: reviews_view(view, kind, after, REVIEWS_SHOWN)
        )

    async def decide_reviews(self, decision: ReviewDecision) -> list[ItemResult]:
        """Decide about items, each as an operation of its own; return what became of each."""
        return await reviews.decide(self._services.write, decision)

    async def subject(self, text: str) -> SearchSubject | None:
        """Return the one thing on the record that a text names."""
        return await self._services.read(lambda view: named_subject(view, text))

    async def search(self, text: str) -> SearchResults:
        """Return where a text occurs on the record."""
        return await self._services.read(lambda view: search_results(view, text))

    async def workers_like(self, text: str) -> list[str]:
        """Return the ids of living workers that have a text; none where Redis does not answer."""
        beats: list[WorkerBeat] = []
        with suppress(QueueError):
            beats = await self._services.work.heartbeats.alive()
        words = text.casefold()
        return [beat.worker_id for beat in beats if words in beat.worker_id.casefold()]

    async def queue(
        self, name: str, search: RequestSearch, after: int | None, dead_after: int | None
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

    async def charts(self, queue: str | None, span: Span, points_max: int) -> ChartsDocument:
        """Return what was counted in a span that ends now, of a queue or of everything."""
        now_us = self._services.ledger.host.now_us()
        since_us = now_us - SPANS_S[span] * 1_000_000
        return await self._services.read(
            lambda view: charts(
                view,
                now_us,
                since_us=since_us,
                until_us=now_us,
                queue=queue,
                points_max=points_max,
            )
        )

    async def requests(self, search: RequestSearch, after: int | None) -> FittingPage:
        """Return a page of the requests of all queues that fit, newest first, and their number."""
        return await self._services.read(
            lambda view: requests_page(view, search, after, SHOWN_ROWS)
        )

    async def more_requests(self, search: RequestSearch, after: int | None) -> RequestPage:
        """Return a larger page of them, uncounted, for a file."""
        return await self._services.read(
            lambda view: list_requests(view, search, after=after, limit=WRITTEN_ROWS)
        )

    async def oldest_open(self, queue: str | None, after: int | None) -> RequestPage:
        """Return a page of what has no outcome, of a queue or of all, the oldest first."""
        return await self._services.read(
            lambda view: oldest_open(view, queue, after=after or 0, limit=SHOWN_ROWS)
        )

    async def in_hand(self, queue: str | None, worker_id: str | None = None) -> RequestsInHand:
        """Return what workers have in hand, of a queue or of all, or one of them, longest first."""
        return await requests_in_hand(self._services, queue, SHOWN_ROWS, worker_id)

    async def dead_alike(self, queue: str | None) -> tuple[tuple[DeadAlike, ...], bool]:
        """Return the dead letters that stand by queue and reason; False where that is not all."""
        return await self._services.read(lambda view: dead_alike(view, queue))

    async def failing_alike(self, queue: str | None, after: str) -> SignaturePage:
        """Return a page of why requests failed last, each reason with how many."""
        return await self._services.read(
            lambda view: list_signatures(view, queue, after=after, limit=SHOWN_SIGNATURES)
        )

    async def bulk_preview(self, verb: Verb, search: RequestSearch) -> BulkPreview:
        """Return how many requests fit now, with the newest of them."""
        if search.queue is not None and search.queue not in QUEUE_KINDS:
            raise KernelError(no_such_queue(search.queue), code="work_queue_unknown")
        return await bulk_operations.preview(self._services.read, verb, search)

    async def begin_bulk(self, request: BulkRequest, upper_sequence: int) -> BulkOperation:
        """Begin what goes on by itself; it is about no request beyond a sequence."""
        read, write = self._services.read, self._services.write
        operation = await bulk_operations.begin(read, write, request, upper_sequence)
        _log.info(
            "operator_acted",
            verb=f"bulk_{request.verb}",
            queue=request.search.queue,
            bulk_number=operation.bulk_number,
            decided_by=request.decided_by,
        )
        return operation

    async def bulk_operations(self, after: int | None) -> BulkOperationsPage:
        """Return a page of the bulk operations, newest first."""
        return await self._services.read(
            lambda view: list_bulk_operations(view, after=after, limit=SHOWN_ROWS)
        )

    async def bulk_operation(self, bulk_number: int) -> BulkOperation | None:
        """Return a bulk operation, and how far it has come; None where there is none."""
        return await self._services.read(lambda view: bulk_operation(view, bulk_number))

    async def stop_bulk(self, bulk_number: int, stopped_by: str) -> None:
        """End a bulk operation where it is."""
        await self._services.write(StopBulkUnit(bulk_number, stopped_by))
        _log.info(
            "operator_acted", verb="bulk_stop", bulk_number=bulk_number, decided_by=stopped_by
        )

    async def request(self, queue: str, request_id: str) -> RequestView | None:
        """Return a request; None where nothing asked this queue for it."""
        return await request_view(self._services, queue, request_id)

    async def sessions(self, words: str | None, after: str | None) -> NewestSessionsDocument:
        """Return a page of the belief sessions with these words, the last changed first."""
        return await self._services.read(
            lambda view: find_sessions(view, words, after=after, limit=SHOWN_ROWS)
        )

    async def session(
        self, session_id: str, before: int | None, step: int | None
    ) -> SessionView | None:
        """Return a session after a step, with the entries of its trail up to a number."""
        return await self._services.read(
            lambda view: session_view(view, session_id, before=before, limit=SHOWN_ROWS, step=step)
        )

    async def operations(self, criteria: AuditFilter, before: int | None) -> OperationPageDocument:
        """Return a page of the operations that a filter admits, newest first."""
        return await self._services.read(
            lambda view: newest_operations_page(view, criteria, before, SHOWN_ROWS)
        )

    async def operation(self, operation_id: str) -> OperationRecordDocument | None:
        """Return what the record says of an operation; None where it says nothing."""
        return await self._services.read(lambda view: describe_operation(view, operation_id))

    async def around_operation(self, operation_id: str) -> AroundOperation:
        """Return the causes and consequences of an operation, and what undoing it takes."""
        return await self._services.read(lambda view: around_operation(view, operation_id))

    async def undo(self, undoing: UndoTogether | UndoEpoch, caller: Caller | None) -> None:
        """Undo operations, each by an operation of its own."""
        services = self._services
        if caller is not None:
            await services.read(lambda view: check_not_own(view, undoing, caller))
        await services.write(unit_of(undoing, services.confirmations))
        _log.info("operator_acted", verb="undo", decided_by=undoing.decided_by)

    async def bindings(self, after: str | None) -> BindingPageDocument:
        """Return a page of the source bindings, in the order of their ids."""
        return await self._services.read(lambda view: list_bindings(view, after, BINDINGS_SHOWN))

    async def binding(self, binding_id: str) -> BindingView | None:
        """Return a binding and what it did lately; None where no binding has the id."""
        return await self._services.read(lambda view: binding_view(view, binding_id))

    async def manifests(self, source_event_id: str, after: int) -> ManifestPageDocument:
        """Return what bindings made of an event, after a cycle."""

        def read(view: ReadableView) -> ManifestPageDocument:
            page = manifests_of(view, source_event_id, after=after, limit=BINDINGS_SHOWN)
            return manifests_document(page)

        return await self._services.read(read)

    async def moment(self, sequence: int) -> LogMoment:
        """Return a row of the log as a moment."""
        return await self._services.read(lambda view: moment_of_row(view, sequence))

    async def past(self, sequence: int) -> PastView:
        """Return the record as it stood behind a row of the log."""
        return await self._services.read(lambda view: past_view(view, sequence, PAST_ROWS))

    async def past_sessions(self, sequence: int, after: str | None) -> NewestSessionsDocument:
        """Return a page of the sessions as they stood, the last changed first."""
        return await self._services.read(
            lambda view: sessions_as_of(view, sequence, after=after, limit=SHOWN_ROWS)
        )

    async def past_session(self, session_id: str, sequence: int) -> PastSession | None:
        """Return a session as it stood; None where it was not declared then."""
        return await self._services.read(
            lambda view: past_session(view, session_id, sequence, SHOWN_ROWS)
        )

    async def node(self, node_id: str, sequence: int | None) -> NodeDocument | None:
        """Return a node as it stood, or as it is now; None where there is none."""

        def read(view: ReadableView) -> NodeDocument | None:
            if sequence is None:
                return describe_node(view, node_id)
            return node_as_of(view, node_id, sequence)

        return await self._services.read(read)

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

    async def explain(self, question: ProvenanceQuestion) -> Provenance | str:
        """Return where something comes from; of an id of a run its lineage, as text."""

        def read(view: ReadableView) -> Provenance | str:
            return provenance_of_question(view, question) or explain_as_text(view, question)

        return await self._services.read(read)

    async def exhibit(self, question: ProvenanceQuestion) -> bytes:
        """Return the page that proves what an id names, under the published checkpoint."""
        publishing = self._services.publishing
        note = None if publishing is None else publishing.note()
        if publishing is None or note is None:
            message = "no checkpoint is published: set ROTULUS_CHECKPOINT_KEY for the gateway"
            raise KernelError(message, code="checkpoint_not_published")
        keys = [log.verifier for log in publishing.policy().logs]

        def read(view: ReadableView) -> bytes:
            name, hypothesis = question.record_id, question.hypothesis
            return page(gather(view, name, hypothesis, note=note, keys=keys))

        try:
            return await self._services.read(read)
        except CheckpointDiverged as error:
            raise KernelError(str(error), code="exhibit_refused") from error

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
