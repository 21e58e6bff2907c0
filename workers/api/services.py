"""Gathers the services that routes get: sessions, ledger, queues, the next commit."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from fastapi import Depends

from actors.commit.thought_units import UNSIGNED, Sealing
from actors.commit.units import Unit
from actors.sessions.runtime import Sessions
from actors.synthesis.synthesis import Synthesis
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.model.replay import AuditContext, AuditReplayReceipt, AuditReplayStrategy
from kernel.records.access.readable_view import (
    OF_EVERYTHING,
    ReadableView,
    RecordReader,
    expect_readable,
    read_as,
    readable_view,
)
from kernel.rollback.confirmation import Confirmations
from kernel.verify.checked_reading import checking_view
from workers.api.access import Door
from workers.api.gathered_proofs import GatheredProofs
from workers.api.middleware.admission import Admission
from workers.api.operation_stream import OperationStreams
from workers.api.outcome_watch import OutcomeWatch
from workers.publication.log_publishing import LogPublishing
from workers.use_cases.log_archiving import KEEPS_ALL, RetentionPolicy
from workers.use_cases.provider_login import ProviderLogin
from workers.views.attention_facts import RecordLook
from workers.views.checkpoints import CheckpointStatusDocument, checkpoint_status, what_waits
from workers.views.cold_reads import note_archive_read
from workers.views.readiness import Health
from workers.views.surroundings import FleetServices, WorkServices

T = TypeVar("T")

READERS_MAX = 256
"""Readers for whom services are kept; beyond that they are made again."""

Traceparents = tuple[tuple[str, ...], ...]
Write = Callable[[Unit], Awaitable[Any]]
Report = Callable[[Sequence[Unit], Traceparents], Awaitable[list[Any]]]
"""Units, and for each the spans that it belongs to, or nothing."""

ReplayTarget = str | tuple[int, int]
Replayed = tuple[AuditReplayReceipt, ...]
Replay = Callable[[ReplayTarget, AuditReplayStrategy, AuditContext], Awaitable[Replayed]]


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that lives as long as the gateway."""

    ledger: Ledger
    sessions: Sessions
    synthesis: Synthesis
    work: WorkServices
    write: Write
    """Runs one unit in the next commit and returns its result, or raises its error."""

    report: Report
    """Runs urgent units in the next commit, before others, and returns their results."""

    confirmations: Confirmations
    replay: Replay
    """Replay an operation or a range and record it; see `ReplayUnit`."""

    outcomes: OutcomeWatch
    admission: Admission
    worker_token: str | None
    door: Door | None = None
    """What judges who asks; None where access is open."""

    provider: ProviderLogin | None = None
    """By what people log in beside keys."""

    streams: OperationStreams = field(default_factory=OperationStreams)
    proofs: GatheredProofs = field(default_factory=GatheredProofs)
    sweeping: set[str] = field(default_factory=set)
    """The sweeps that run in this process: one of each kind at a time."""

    fleet: FleetServices = field(default_factory=FleetServices)
    health: Health = field(default_factory=Health)
    attention: RecordLook = field(default_factory=RecordLook)
    """What remembers of the record what changes seldom, for the list of what needs somebody."""

    sealing: Sealing = UNSIGNED
    """Who signs seals, and how many sessions a round has."""

    publishing: LogPublishing | None = None
    """The published log; None where there is none."""

    retention: RetentionPolicy = KEEPS_ALL
    """What stays in the database, and for how long."""

    webhook_secret: str | None = None
    """What signs the events of others; None where they need no signature."""

    reader: RecordReader = OF_EVERYTHING
    """Who reads: the gateway itself, or whoever makes a request where access takes keys."""

    by_reader: dict[RecordReader, "Services"] = field(default_factory=dict, repr=False)
    """The services by which readers read, as they were made for them."""

    def for_reader(self, reader: RecordReader) -> "Services":
        """Return the services by which somebody reads what they may."""
        if reader == self.reader:
            return self
        services = self.by_reader.get(reader)
        if services is None:
            if len(self.by_reader) >= READERS_MAX:
                self.by_reader.clear()
            # What was remembered for others may be what this reader must not be told.
            are_whole = reader.reads_everything and self.reader.reads_everything
            attention = self.attention if are_whole else RecordLook()
            services = replace(self, reader=reader, attention=attention)
            self.by_reader[reader] = services
        return services

    async def expect_readable(self, answer: Any) -> None:
        """Refuse an answer that was not made by `read`, and names what the reader may not know.

        Raises:
            NotCleared: it does.
        """
        if not self.reader.reads_everything:
            check = partial(expect_readable, reader=self.reader, answer=answer)
            await anyio.to_thread.run_sync(self.ledger.read, check)

    async def hides_session(self, session_id: str) -> bool:
        """Tell whether a session is there, and nothing that the reader may know of."""
        if self.reader.reads_everything:
            return False

        def look(view: LedgerView) -> bool:
            there = view.belief_session(session_id) is not None
            return there and readable_view(view, self.reader).belief_session(session_id) is None

        return await anyio.to_thread.run_sync(self.ledger.read, look)

    async def read(self, question: Callable[[ReadableView], T]) -> T:
        """Answer a question from a snapshot of the ledger, off the event loop.

        What the reader may not read is not there.

        Raises:
            RowDamaged: a row that it reads is not what it says of itself.
        """

        def ask_view(view: LedgerView) -> tuple[T, bool]:
            answer = read_as(checking_view(view), self.reader, question)
            return answer, view.archive.reads > 0

        answer, was_archive_read = await anyio.to_thread.run_sync(self.ledger.read, ask_view)
        if was_archive_read:
            note_archive_read()
        return answer

    async def checkpoint(self) -> CheckpointStatusDocument:
        """Return the published checkpoint with its verdict, which are numbers, for any reader."""
        publishing, read = self.publishing, self.for_reader(OF_EVERYTHING).read
        if publishing is None:
            waiting = await read(what_waits)
            return {
                "publishes": False,
                "problem": None,
                "checkpoint": None,
                "policy": None,
                **waiting,
            }
        return await read(
            lambda view: checkpoint_status(
                view,
                publishing.note(),
                publishing.policy(),
                publishes=publishing.publishes,
                problem=publishing.problem,
            )
        )


def services_placeholder() -> Services:
    """Stand for the services in the signature of an endpoint, which is called with them."""
    raise NotImplementedError


Given = Annotated[Services, Depends(services_placeholder)]
"""Ask for this in a route to be given the services."""
