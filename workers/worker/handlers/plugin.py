"""Handles a plug-in's queue: each job with its deadline, its cancellation and one outcome.

The result of a handler is reported at once, so that a long job keeps no other waiting. The gateway
closes a request that is open and no other, so a job that two workers did has one outcome. A job
whose request was closed meanwhile, because it was cancelled, is cancelled here with the next
renewal of its claim.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
import structlog
from pydantic import ValidationError

from kernel.ledger.ledger import Ledger, LedgerView, Request
from kernel.values.canonical import canonicalize_readable
from kernel.values.errors import LedgerUnavailable
from kernel.values.foreign_code import call_foreign, cause_of, message_of
from kernel.work.attempts import snoozes_of
from kernel.work.reports import RESULT_BYTES_MAX, WorkFinished
from kernel.work.requests import read_content
from kernel.work.retry_policy import PAUSE_MS_MAX
from queues.errors import QueueError
from queues.queue.items import Claim
from queues.queue.job_progress import NOTE_CHARS_MAX, JobProgress
from workers.client.errors import GatewayError
from workers.environment.foreign_calls import await_foreign
from workers.environment.foreign_threads import ForeignCodeHangs
from workers.plugins import JobContext, JobRefused, QueuePlugin, RetryAfter
from workers.worker.attempts import ErrorTexts, log_fields
from workers.worker.batch_progress import note_progress
from workers.worker.batches import (
    SNOOZED,
    ClaimResult,
    Handler,
    attempt_fields,
    failed_claim,
    leave_closed,
    now_us,
    settlement_of,
)
from workers.worker.gateway_reports import ABSENCES, REPORTS_PATH, GatewayReporter

CODE_CHARS_MAX = 200
UNKNOWN_DELAY_MS = 5_000
"""Pause after which a job is offered again whose gateway lacks the plug-in."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Running:
    request_id: str
    scope: anyio.CancelScope
    is_closed: bool = False


class PluginHandler(Handler):
    """Works on the jobs of one plug-in's queue."""

    def __init__(
        self,
        ledger: Ledger,
        reporter: GatewayReporter,
        plugin: QueuePlugin,
        progress: JobProgress,
        texts: ErrorTexts,
    ) -> None:
        self._texts = texts
        self.claim_items = plugin.concurrency
        self._ledger = ledger
        self._reporter = reporter
        self._plugin = plugin
        self._progress = progress
        self._running: set[_Running] = set()
        self._snoozes: dict[str, int] = {}
        """Of the jobs in hand that came back before, how often each asked for a pause."""

    async def handle(self, claims: Sequence[Claim]) -> list[ClaimResult]:
        """Work on what is open and return how each claim ends."""
        requests = await anyio.to_thread.run_sync(self._open, claims)
        if again := [claim.key for claim in claims if claim.error]:
            self._snoozes |= await anyio.to_thread.run_sync(self._snoozes_of, again)
        gone = [claim for claim in claims if claim.key not in requests]
        settled = await leave_closed(self._ledger, gone)

        async def work(claim: Claim) -> None:
            settled.append(await self._work(claim, requests[claim.key]))
            note_progress()

        async with anyio.create_task_group() as tasks:
            for claim in claims:
                if claim.key in requests:
                    tasks.start_soon(work, claim)
        for name in again:
            self._snoozes.pop(name, None)
        return settled

    async def renew(self) -> None:
        """Cancel the jobs whose requests were closed."""
        running = tuple(self._running)
        with suppress(LedgerUnavailable):  # the next renewal looks again
            names = [job.request_id for job in running]
            still_open = await anyio.to_thread.run_sync(self._open_names, names)
            for job in running:
                if job.request_id not in still_open:
                    job.is_closed = True
                    job.scope.cancel()

    def _open(self, claims: Sequence[Claim]) -> dict[str, Request]:
        with self._ledger.view() as view:
            requests = ((claim.key, view.open_request(claim.key)) for claim in claims)
            return {key: request for key, request in requests if request is not None}

    def _snoozes_of(self, request_ids: Sequence[str]) -> dict[str, int]:
        with self._ledger.view() as view:
            return snoozes_of(view, request_ids)

    def _open_names(self, request_ids: Sequence[str]) -> set[str]:
        with self._ledger.view() as view:
            return {name for name in request_ids if view.open_request(name) is not None}

    async def _work(self, claim: Claim, request: Request) -> ClaimResult:
        try:
            content = read_content(request)
        except ValidationError:
            # Another version of the plug-in took it, or this one is too old.
            return ClaimResult(claim, "failed", "content_unreadable")
        except Exception as error:  # noqa: BLE001 - a model is a foreign program
            return await self._fail_claim(claim, "content_unreadable", error)
        with anyio.CancelScope() as scope:
            running = _Running(request.request_id, scope)
            self._running.add(running)
            try:
                outcome = await self._call(claim, request, content)
            finally:
                self._running.discard(running)
        if running.is_closed:
            return ClaimResult(claim, "done")
        return outcome

    async def _call(self, claim: Claim, request: Request, content: Any) -> ClaimResult:
        limit_s = self._plugin.limit_s
        absences: list[LedgerUnavailable | GatewayError] = []
        context = JobContext(
            request_id=request.request_id,
            content=content,
            attempt=claim.attempt,
            snoozes=self._snoozes.get(claim.key, 0),
            deadline_s=anyio.current_time() + limit_s,
            view=partial(self._view, absences),
            submit=partial(self._submit, absences),
            progress=partial(self._note, request.request_id),
        )
        try:
            name = f"the handler of {self._plugin.name} for {request.request_id}"
            result = await await_foreign(
                name, self._plugin.handler, context, tick=note_progress, limit_s=limit_s
            )
        except ForeignCodeHangs as error:
            return await self._fail_claim(claim, "handler_timed_out", error, "handler_timed_out")
        except Exception as error:  # noqa: BLE001 - a handler is a foreign program
            for absence in absences:
                if absence is error:
                    return ClaimResult(claim, "put_off", absence.code)
            return await self._end(claim, error)
        return await self._report(claim, result)

    async def _end(self, claim: Claim, error: Exception) -> ClaimResult:
        """Return how a job ends by what its handler raised, which may be of a class of ours."""
        try:
            pause_ms, code = call_foreign(_pause_ms_and_code, error)
        except Exception as unreadable:  # noqa: BLE001 - an error is a foreign object
            return await self._fail_claim(claim, "handler_failed", unreadable)
        if pause_ms is not None:
            return ClaimResult(claim, "snoozed", SNOOZED, pause_ms)
        if isinstance(error, JobRefused):
            return failed_claim(claim, await self._texts.of(error, code or "refused"), final=True)
        return await self._fail_claim(claim, "handler_failed", error, code or None)

    async def _fail_claim(
        self, claim: Claim, event: str, error: Exception, code: str | None = None
    ) -> ClaimResult:
        kind = type(cause_of(error)).__name__
        described = await self._texts.of(error, code or f"{event}: {kind}")
        is_retried = self._plugin.retry is None or self._plugin.retry.retries(cause_of(error))
        _log.error(
            event,
            queue=self._plugin.name,
            request_id=claim.key,
            attempt=claim.attempt,
            worker=self._texts.worker_id,
            **log_fields(described),
        )
        return failed_claim(claim, described, final=not is_retried)

    async def _report(self, claim: Claim, result: object) -> ClaimResult:
        document = {} if result is None else result
        try:
            worker_id = self._texts.worker_id
            report = call_foreign(_report_of_result, claim, worker_id, document)
        except Exception as error:  # noqa: BLE001 - a result is a foreign object
            failed = await self._fail_claim(
                claim, "handler_result_invalid", error, "handler_result_invalid"
            )
            return replace(failed, final=True)
        shared = {"queue": self._plugin.name}
        [outcome] = await self._reporter.batch(REPORTS_PATH, "reports", [report], shared, [claim])
        if outcome.get("code") == "work_queue_unknown":
            return ClaimResult(claim, "put_off", "work_queue_unknown", UNKNOWN_DELAY_MS)
        return settlement_of(claim, outcome, rejection_is_final=True)

    @contextmanager
    def _view(self, absences: list[Any]) -> Iterator[LedgerView]:
        try:
            with self._ledger.view() as view:
                yield view
        except LedgerUnavailable as error:
            absences.append(error)
            raise

    async def _submit(
        self, absences: list[Any], session_id: str, intents: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        path = f"/v1/sessions/{UUID(session_id)}/operations"
        body = {"intents": [dict(intent) for intent in intents]}
        try:
            answer = await self._reporter.post(path, body)
        except GatewayError as error:
            if error.code in ABSENCES:
                absences.append(error)
            raise
        results: list[dict[str, Any]] = answer["results"]
        return results

    async def _note(self, request_id: str, percent: int, note: str = "") -> None:
        note_progress()
        with suppress(QueueError):  # a hint
            shown = min(100, max(0, int(percent)))
            await self._progress.note(self._plugin.name, request_id, shown, note[:NOTE_CHARS_MAX])


def _pause_ms_and_code(error: Exception) -> tuple[int | None, str | None]:
    """Return the pause that an error asks for, and its code; raises where it is no such thing."""
    if isinstance(error, RetryAfter):
        if type(error.pause_ms) is not int or not 0 <= error.pause_ms <= PAUSE_MS_MAX:
            raise ValueError(f"pause_ms is a whole number from 0 to {PAUSE_MS_MAX}")
        return error.pause_ms, None
    if isinstance(error, JobRefused):
        return None, message_of(error.reason, CODE_CHARS_MAX)
    if isinstance(error, GatewayError):
        return None, message_of(error.code, CODE_CHARS_MAX)
    return None, None


def _report_of_result(claim: Claim, worker_id: str, document: object) -> dict[str, Any]:
    """Return the report of a result; raises what is wrong with it."""
    if not isinstance(document, Mapping):
        raise TypeError(f"a handler returns a mapping or None, not a {type(document).__name__}")
    result = dict(document)
    size = len(canonicalize_readable(result))
    if size > RESULT_BYTES_MAX:
        raise ValueError(f"a result of {size} bytes; at most {RESULT_BYTES_MAX} are taken")
    attempt = attempt_fields(claim, worker_id, now_us())
    return WorkFinished(request_id=claim.key, result=result, **attempt).model_dump(mode="json")
