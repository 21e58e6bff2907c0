"""Handles extractions: tasks that this worker performs, and steps that producers state.

A step is on the record with its request, so the worker only reports that it is due (§16.5). A task
goes three ways to the gateway and back: the run begins, the source is read and an extractor asked,
and what that came to is handed in. Nothing is held between two of them but the open request, so a
worker that dies leaves a run that the next one takes as it stands (decision kernel/0291).

A document waits for no other (INV-EXT-1): what asks nobody is read at once and handed in together;
what asks a model runs beside it, `MODEL_CALLS_MAX` at a time, and is handed in when it is there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.model.extraction_result import ExtractionRefused
from kernel.records.extraction import last_attempt
from kernel.work.contents import EXTRACTION_QUEUE, ExtractionTask
from kernel.work.extraction_sources import read_source
from kernel.work.reports import (
    ExtractionBegun,
    ExtractionFailed,
    ExtractionFinished,
    TransitionDue,
    WorkReport,
)
from kernel.work.requests import read_content
from queues.queue.items import Claim
from workers.worker.attempts import ErrorTexts, delivery_of, log_fields
from workers.worker.batches import (
    ClaimResult,
    Handler,
    attempt_fields,
    leave_closed,
    now_us,
    settlement_of,
)
from workers.worker.gateway_reports import REPORTS_PATH, GatewayReporter, Outcome
from workers.worker.handlers.extractor import SourceToRead, extract_and_check
from workers.worker.handlers.extractors import Extractors

MODEL_CALLS_MAX = 8
"""Extractors of one batch that ask a model at the same time."""

VALUES_AT_ONCE_MAX = 256
"""Values that are handed in together: each is an operation of the transaction that takes them."""

WAITS_FOR_MODEL_MS = 30_000
"""Pause after which a run that waits for a model is offered again (decision workers/0124)."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Task:
    """A claim whose request is open, and what it asks for."""

    claim: Claim
    task: ExtractionTask | None
    """None of a step that a producer states."""

    extractor: str = ""
    blocked_by: str | None = None
    """What the run waits for."""


@dataclass(frozen=True, slots=True)
class _Ended:
    task: _Task
    report: ExtractionFinished | ExtractionFailed

    @property
    def values(self) -> int:
        """How many values it has; a failure counts as one."""
        result = self.report.result if isinstance(self.report, ExtractionFinished) else {}
        return max(1, len(result.get("values", ())))


class ExtractionHandler(Handler):
    """Turns claims into recorded steps of runs."""

    def __init__(
        self,
        ledger: Ledger,
        reporter: GatewayReporter,
        extractors: Extractors,
        texts: ErrorTexts,
    ) -> None:
        self._texts = texts
        self._ledger = ledger
        self._reporter = reporter
        self._extractors = extractors

    async def handle(self, claims: Sequence[Claim]) -> list[ClaimResult]:
        """Record steps, perform tasks, and say how each claim ends."""
        tasks = await anyio.to_thread.run_sync(
            self._ledger.read, lambda view: self._open(view, claims)
        )
        there = {task.claim.key for task in tasks}
        gone = [claim for claim in claims if claim.key not in there]
        settled = await leave_closed(self._ledger, gone)
        steps = [task for task in tasks if task.task is None]
        waiting = [task for task in tasks if self._waits(task)]
        settled += [
            ClaimResult(task.claim, "put_off", task.blocked_by or "", WAITS_FOR_MODEL_MS)
            for task in waiting
        ]
        settled += await self._report(
            steps,
            [
                TransitionDue(request_id=task.claim.key, **self._attempt(task.claim))
                for task in steps
            ],
        )
        performed = [task for task in tasks if task.task is not None and task not in waiting]
        return settled + await self._perform(performed)

    def _open(self, view: LedgerView, claims: Iterable[Claim]) -> list[_Task]:
        """Read what is open of a batch, in one snapshot."""
        tasks = []
        for claim in claims:
            request = view.open_request(claim.key)
            if request is None:
                continue
            task = read_content(request)
            if not isinstance(task, ExtractionTask):
                tasks.append(_Task(claim, None))
                continue
            last = last_attempt(view, task.extraction_run_id)
            blocked_by = None if last is None else last.get("block_reason")
            tasks.append(_Task(claim, task, self._extractor_of(view, task), blocked_by))
        return tasks

    def _extractor_of(self, view: LedgerView, task: ExtractionTask) -> str:
        if task.extractor is not None:
            return task.extractor
        try:
            return self._extractors.serving(read_source(view, task.source_ref).content_kind)
        except ExtractionRefused:
            # Its begin says what is wrong with the source.
            return self._extractors.serving("")

    def _waits(self, task: _Task) -> bool:
        """Tell whether a run waits for a model that this worker does not have either."""
        lacks_model = self._extractors.lacks_model(task.extractor)
        return task.blocked_by == "model_unavailable" and lacks_model

    async def _perform(self, tasks: Sequence[_Task]) -> list[ClaimResult]:
        begun = [
            ExtractionBegun(request_id=task.claim.key, extractor=task.extractor) for task in tasks
        ]
        outcomes = await self._outcomes(tasks, begun)
        settled, running = list[ClaimResult](), list[_Task]()
        for task, outcome in zip(tasks, outcomes, strict=True):
            if outcome["outcome"] == "recorded":
                running.append(task)
            else:
                settled.append(settlement_of(task.claim, outcome, rejection_is_final=True))
        asking = [task for task in running if self._extractors.asks_model(task.extractor)]
        at_once = [task for task in running if task not in asking]
        limit = anyio.Semaphore(MODEL_CALLS_MAX)

        async def ask(task: _Task) -> None:
            async with limit:
                ended = await self._extract(task)
            settled.extend(await self._hand_in([ended]))

        async with anyio.create_task_group() as group:
            for task in asking:
                group.start_soon(ask, task)
            together: list[_Ended] = []
            for task in at_once:
                together.append(await self._extract(task))
                if sum(ended.values for ended in together) >= VALUES_AT_ONCE_MAX:
                    settled.extend(await self._hand_in(together))
                    together = []
            settled.extend(await self._hand_in(together))
        return settled

    async def _extract(self, of: _Task) -> _Ended:
        """Have a source read; whatever happens, there is something to hand in."""
        request_id, task = of.claim.key, of.task
        assert task is not None, "a step is not performed"  # noqa: S101 - for the types
        try:
            kind = self._extractors.get(of.extractor)
            source = await anyio.to_thread.run_sync(
                self._ledger.read, lambda view: self._read(view, task)
            )
            extraction = await extract_and_check(kind.extractor, source)
        except ExtractionRefused as refused:
            return _Ended(of, await self._fail(of.claim, refused))
        report = ExtractionFinished(
            request_id=request_id,
            source_text_sha256=source.source.sha256,
            result=extraction.result.model_dump(mode="json"),
            claim_authority=kind.claim_authority,
            outputs=extraction.outputs,
            **self._attempt(of.claim),
        )
        return _Ended(of, report)

    async def _fail(self, claim: Claim, refused: ExtractionRefused) -> ExtractionFailed:
        """Say why an extractor, or the model that it asked, came to nothing."""
        cause, worker_id = refused.__cause__ or refused, self._texts.worker_id
        error = await self._texts.of(cause, refused.code)
        _log.error(
            "extraction_failed",
            request_id=claim.key,
            attempt=claim.attempt,
            worker=worker_id,
            code=refused.code,
            **log_fields(error),
        )
        delivery = delivery_of(claim, worker_id, now_us())
        return ExtractionFailed(
            request_id=claim.key, code=refused.code, delivery=delivery, error=error
        )

    def _attempt(self, claim: Claim) -> dict[str, Any]:
        return attempt_fields(claim, self._texts.worker_id, now_us())

    def _read(self, view: LedgerView, task: ExtractionTask) -> SourceToRead:
        return SourceToRead(task.source_ref, read_source(view, task.source_ref), task.fields)

    async def _hand_in(self, ended: Sequence[_Ended]) -> list[ClaimResult]:
        return await self._report([run.task for run in ended], [run.report for run in ended])

    async def _report(
        self, tasks: Sequence[_Task], reports: Sequence[WorkReport]
    ) -> list[ClaimResult]:
        outcomes = await self._outcomes(tasks, reports)
        return [
            # A state machine that refuses a step refuses it again.
            settlement_of(task.claim, outcome, rejection_is_final=True)
            for task, outcome in zip(tasks, outcomes, strict=True)
        ]

    async def _outcomes(
        self, tasks: Sequence[_Task], reports: Sequence[WorkReport]
    ) -> list[Outcome]:
        claims = [task.claim for task in tasks]
        documents = [report.model_dump(mode="json") for report in reports]
        shared = {"queue": EXTRACTION_QUEUE}
        return await self._reporter.batch(REPORTS_PATH, "reports", documents, shared, claims)
