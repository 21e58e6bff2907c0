"""Wraps the client for event loops for threads; `make blocking` writes it.

Each method waits for the one of its name on a loop in a thread (`blocking_calls.py`).
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, overload

import anyio
import httpx

from .blocking_calls import Blocking, BlockingClient, BlockingContext, LoopThread
from .bulk_operations import BulkOperations, Verb
from .contents import JobContent
from .enqueue_stream import EnqueueStream
from .gateway_http import GIVE_UP_AFTER_S, NO_HEADERS, GatewayHttp, Patience, Refused
from .jobs import Job, JobFailures, JobOutcome, JobStatus
from .log_proofs import (
    WITNESSED_WITHIN_S,
    InclusionProof,
    LogProofs,
    OutcomeProof,
    TreeHead,
    WitnessedRow,
)
from .records import Document, Records
from .requests import REQUESTS_MAX, JobRequest
from .rotulus import CALL_S_MAX, Requested, Rotulus
from .session_operations import OperationOutcome, SessionOperations
from .source_bindings import SourceBindings

R = TypeVar("R")


class BlockingPatience(Blocking[Patience], of=Patience):
    """The pauses of one call between a refusal and the next attempt."""

    def wait(self, response: Refused) -> None:
        """Return when the same may be sent again.

        Raises:
            GatewayError: sending it again does not help, or has not for too long.
        """
        self._call(self._of.wait, response)


class BlockingGatewayHttp(Blocking[GatewayHttp], of=GatewayHttp):
    """A connection pool to one gateway; use as a context manager."""

    def ask(
        self,
        method: str,
        path: str,
        *,
        may_repeat: Callable[[Refused], bool] = lambda _: True,
        **options: Any,
    ) -> httpx.Response:
        """Send a request as `httpx` takes it until there is a success, and return that.

        `may_repeat` says after which refusals sending it again is safe.

        Raises:
            GatewayError: with the gateway's own code or one of the class's.
        """
        answer: httpx.Response = self._call(
            self._of.ask, method, path, may_repeat=may_repeat, **options
        )
        return answer

    def ask_document(self, method: str, path: str, **options: Any) -> Any:
        """Send a request as `ask` does, and return the JSON of the answer.

        Raises:
            GatewayError: likewise; `gateway_failed` where the answer is no JSON.
        """
        answer: Any = self._call(self._of.ask_document, method, path, **options)
        return answer

    def send_lines(
        self, path: str, lines: Iterable[bytes], headers: Mapping[str, str] = NO_HEADERS
    ) -> tuple[list[dict[str, Any]], Refused | None]:
        """Post lines and return the answers that came, and why no more came, where that is known.

        An answer is a line with a `line`; one without is a refusal of those that have none.
        """
        answer: tuple[list[dict[str, Any]], Refused | None] = self._call(
            self._of.send_lines, path, lines, headers
        )
        return answer

    def patience(self, may_repeat: Callable[[Refused], bool] = lambda _: True) -> BlockingPatience:
        """Return the pauses of one call, with which it sends again what was refused."""
        answer: BlockingPatience = self._call(self._of.patience, may_repeat)
        return answer

    def gateway_urls(self) -> tuple[str, ...] | None:
        """Return the URLs that the living gateways advertise; None where no gateway answers."""
        answer: tuple[str, ...] | None = self._call(self._of.gateway_urls)
        return answer

    def answers(self, path: str) -> bool:
        """Tell whether the gateway answers this path with success right now."""
        answer: bool = self._call(self._of.answers, path)
        return answer


class BlockingJob(Blocking[Job[R]], Generic[R], of=Job):
    """A handle on a request; every method raises `GatewayError`."""

    @property
    def queue(self) -> str:
        """As `Job.queue`."""
        return self._of.queue

    @property
    def request_id(self) -> str:
        """As `Job.request_id`."""
        return self._of.request_id

    @property
    def key(self) -> str | None:
        """As `Job.key`."""
        return self._of.key

    @property
    def is_duplicate(self) -> bool:
        """As `Job.is_duplicate`."""
        return self._of.is_duplicate

    def result(self, timeout: float | None = None) -> JobOutcome[R]:
        """Return how the job ended, once it has; a job that was given up or cancelled has ended.

        One that was given up and requeued goes on: the outcome is that of the newest request, whose
        id it has.

        Raises:
            TimeoutError: it is still open after `timeout` seconds; it goes on all the same.
            JobLost: it was taken and is on the record no longer; ask again under its key.
            JobResultInvalid: it is done, and its result is not of the function's type.
        """
        answer: JobOutcome[R] = self._call(self._of.result, timeout)
        return answer

    def value(self, timeout: float | None = None) -> R:
        """Return what the work came to, once it is done; empty where it is an operation.

        Raises:
            JobFailed: it was given up or cancelled; with its attempts.
            TimeoutError, JobLost, JobResultInvalid: see `result`.
        """
        answer: R = self._call(self._of.value, timeout)
        return answer

    def failures(self) -> JobFailures:
        """Return what was tried in vain, and why each attempt failed."""
        answer: JobFailures = self._call(self._of.failures)
        return answer

    def status(self) -> JobStatus:
        """Return the job as it stands; `work_request_unknown` where the queue has none."""
        answer: JobStatus = self._call(self._of.status)
        return answer

    def waiting(self) -> str | None:
        """Return in a sentence why the job waits; None once it has its outcome."""
        answer: str | None = self._call(self._of.waiting)
        return answer

    def cancel(self, reason: str = "the producer took it back", *, decided_by: str = "") -> bool:
        """Take the job back; False where it had its outcome before.

        `reason` has 1 to 200 characters. `decided_by`, the name of who takes it back, has up to
        100 and is sent where it is given; on the record it stands in brackets behind the reason.
        """
        answer: bool = self._call(self._of.cancel, reason, decided_by=decided_by)
        return answer

    def prioritize(self, priority: str, *, reason: str = "", decided_by: str = "") -> bool:
        """Let the job wait at another priority of its queue; False where nothing changed.

        Nothing changes where it has its outcome or waits at that priority. What a worker has in
        hand goes on.
        """
        answer: bool = self._call(
            self._of.prioritize, priority, reason=reason, decided_by=decided_by
        )
        return answer


class BlockingEnqueueStream(BlockingContext[EnqueueStream], of=EnqueueStream):
    """Asks for work one after another and lets many be on their way; a context manager.

    What is put is sent at once, with what was put while the call before was on its way. The block
    ends when everything that was put is on the record; where it fails or is cancelled, what was
    put may or may not be.
    """

    @property
    def recorded(self) -> int:
        """As `EnqueueStream.recorded`."""
        return self._of.recorded

    def put(self, content: JobContent, **options: Any) -> None:
        """Take a content with the options of `Rotulus.enqueue`; returns when there is room.

        Raises:
            GatewayError: one that was put before was refused; nothing more is taken.
        """
        self._call(self._of.put, content, **options)


class BlockingBulkOperations(Blocking[BulkOperations], of=BulkOperations):
    """Bulk operations at a gateway; every method raises `GatewayError` with its own code.

    Criteria are those of `Records.requests` and `queue`; the state follows from the verb. Documents
    are as the gateway answers them.
    """

    def preview(self, verb: Verb, **criteria: Any) -> Document:
        """Return how many requests fit now (`count`), and the ten newest of them (`samples`)."""
        answer: Document = self._call(self._of.preview, verb, **criteria)
        return answer

    def begin(
        self,
        verb: Verb,
        *,
        reason: str,
        priority_to: str | None = None,
        decided_by: str = "",
        upper_sequence: int | None = None,
        idempotency_key: str | None = None,
        **criteria: Any,
    ) -> Document:
        """Begin; it goes on by itself, whatever is killed, and `get` says how far it has come.

        `priority_to` is the priority that `prioritize` gives to what waits in one queue. With the
        `upper_sequence` of a preview it is about no request that was recorded later. Under an
        `idempotency_key` it begins once.
        """
        answer: Document = self._call(
            self._of.begin,
            verb,
            reason=reason,
            priority_to=priority_to,
            decided_by=decided_by,
            upper_sequence=upper_sequence,
            idempotency_key=idempotency_key,
            **criteria,
        )
        return answer

    def get(self, bulk_number: int) -> Document:
        """Return a bulk operation, and how far it has come."""
        answer: Document = self._call(self._of.get, bulk_number)
        return answer

    def stop(self, bulk_number: int, *, decided_by: str = "") -> Document:
        """End a bulk operation where it is; what it has done stays."""
        answer: Document = self._call(self._of.stop, bulk_number, decided_by=decided_by)
        return answer


class BlockingSourceBindings(Blocking[SourceBindings], of=SourceBindings):
    """The bindings at a gateway; every method raises `GatewayError` with the gateway's own code.

    With `prove` a change returns only with the verified proof that its row is in the log, as
    `inclusion_proof`, and raises `LogProofInvalid` otherwise.
    """

    def create(
        self, binding_id: str, meaning: Mapping[str, Any], intent_key: str | None = None
    ) -> Mapping[str, Any]:
        """Create a binding; `meaning` has its `selector_list`, `target_kind`, `corpus_id`, …."""
        answer: Mapping[str, Any] = self._call(self._of.create, binding_id, meaning, intent_key)
        return answer

    def update(
        self, binding_id: str, changes: Mapping[str, Any], intent_key: str | None = None
    ) -> Mapping[str, Any]:
        """Change what a binding means, as a further generation, or its title."""
        answer: Mapping[str, Any] = self._call(self._of.update, binding_id, changes, intent_key)
        return answer

    def disable(self, binding_id: str, intent_key: str | None = None) -> Mapping[str, Any]:
        """Let a binding be evaluated no more."""
        answer: Mapping[str, Any] = self._call(self._of.disable, binding_id, intent_key)
        return answer

    def enable(
        self,
        binding_id: str,
        critical_approval: Mapping[str, Any] | None = None,
        intent_key: str | None = None,
    ) -> Mapping[str, Any]:
        """Let a disabled binding be evaluated again, as a further generation."""
        answer: Mapping[str, Any] = self._call(
            self._of.enable, binding_id, critical_approval, intent_key
        )
        return answer

    def show(self, binding_id: str, generation: str | None = None) -> Mapping[str, Any]:
        """Return a binding in a generation, by default the one in force, and how its pairs stand.

        `superseded_by` names the generation that took its place.
        """
        answer: Mapping[str, Any] = self._call(self._of.show, binding_id, generation)
        return answer

    def page(self, after: str | None = None, limit: int = 20) -> Mapping[str, Any]:
        """Return `bindings` in the order of their ids; `next_after` where there are more."""
        answer: Mapping[str, Any] = self._call(self._of.page, after, limit)
        return answer


class BlockingLogProofs(Blocking[LogProofs], of=LogProofs):
    """The tree over the log of a gateway; every method raises `GatewayError` for its refusals."""

    def head(self) -> TreeHead:
        """Return the head of the tree as the gateway states it."""
        answer: TreeHead = self._call(self._of.head)
        return answer

    def inclusion(self, sequence: int, size: int | None = None) -> InclusionProof:
        """Return the verified proof that a row is in the tree, now or at a size.

        Raises:
            LogProofInvalid: what the gateway answers proves nothing.
        """
        answer: InclusionProof = self._call(self._of.inclusion, sequence, size)
        return answer

    def outcome(self, queue: str, request_id: str, size: int | None = None) -> OutcomeProof:
        """Return the verified proof of the outcome of a request, in the tree now or of a size.

        A gateway that has not sealed the outcome yet answers `outcome_not_sealed`; ask again after
        a few seconds.

        Raises:
            LogProofInvalid: what the gateway answers proves nothing.
        """
        answer: OutcomeProof = self._call(self._of.outcome, queue, request_id, size)
        return answer

    def witnessed(self, sequence: int, within_s: int = WITNESSED_WITHIN_S) -> WitnessedRow:
        """Return a row under a witnessed checkpoint, waiting for witnesses for so many seconds.

        Raises:
            NotWitnessed: they have not cosigned it in time.
            LogProofInvalid: what the gateway answers proves nothing.
        """
        answer: WitnessedRow = self._call(self._of.witnessed, sequence, within_s)
        return answer

    def grown_from(self, old: TreeHead, size: int | None = None) -> TreeHead:
        """Return a head whose tree begins with that of an older head, which was kept.

        Raises:
            LogProofInvalid: the log is not the one of the older head.
        """
        answer: TreeHead = self._call(self._of.grown_from, old, size)
        return answer

    def submit(
        self, session_id: str, envelope: Mapping[str, Any]
    ) -> tuple[dict[str, Any], InclusionProof]:
        """Submit an envelope and return the result with the verified proof of its row.

        It is sent again after failures, under its idempotency key.

        Raises:
            LogProofInvalid: the operation may be on the record, the answer does not prove it.
        """
        answer: tuple[dict[str, Any], InclusionProof] = self._call(
            self._of.submit, session_id, envelope
        )
        return answer

    def submit_witnessed(
        self, session_id: str, envelope: Mapping[str, Any], within_s: int = WITNESSED_WITHIN_S
    ) -> tuple[dict[str, Any], WitnessedRow]:
        """Submit an envelope and return the result with its row under a witnessed checkpoint.

        It is sent again after failures, under its idempotency key.

        Raises:
            NotWitnessed: the operation is on the record; witnesses have not cosigned it in time.
            LogProofInvalid: the operation may be on the record, the answer does not prove it.
        """
        answer: tuple[dict[str, Any], WitnessedRow] = self._call(
            self._of.submit_witnessed, session_id, envelope, within_s
        )
        return answer


class BlockingRecords(Blocking[Records], of=Records):
    """The record at a gateway; every method raises `GatewayError` with the gateway's own code.

    Documents are as the gateway answers them. A list reads on as it is iterated.
    """

    def queues(self) -> Document:
        """Return what each queue holds, what is paused, and who works."""
        answer: Document = self._call(self._of.queues)
        return answer

    def node(self, node_id: str) -> Document:
        """Return a node: a source, a claim, an understanding with its authority."""
        answer: Document = self._call(self._of.node, node_id)
        return answer

    def operation(self, operation_id: str) -> Document:
        """Return an operation: its row of the log, its envelope, effects and receipts."""
        answer: Document = self._call(self._of.operation, operation_id)
        return answer

    def extraction(self, run_id: str) -> Document:
        """Return a run: its steps, what it read, which fields failed and why."""
        answer: Document = self._call(self._of.extraction, run_id)
        return answer

    def operations(self, **criteria: Any) -> Iterator[Document]:
        """Iterate over the operations that every criterion fits, oldest first.

        Criteria are `entity`, `declared`, `semantic_intent`, `effect_kind`, `reversibility`,
        `actor`, `session_id`, `since`, `until`, `from_sequence` and `to_sequence`. With
        `order="newest"` the newest come first.
        """
        answer: Iterator[Document] = self._call(self._of.operations, **criteria)
        return answer

    def bindings(self) -> Iterator[Document]:
        """Iterate over the source bindings by their ids."""
        answer: Iterator[Document] = self._call(self._of.bindings)
        return answer

    def extractions(self, state: str = "blocked") -> Iterator[Document]:
        """Iterate over the extractions that are in a state now."""
        answer: Iterator[Document] = self._call(self._of.extractions, state)
        return answer

    def requests(self, queue: str | None = None, **criteria: Any) -> Iterator[Document]:
        """Iterate over the requests that every criterion fits, of a queue or of all, newest first.

        Criteria are `request_id`, `item_key`, `request_key`, `session_id` (of the operation that a
        recompute follows from), `tag` (as `customer=acme`), `error_signature` (why it was given up,
        or that of its newest attempt that failed), `state`, `priority`, `words` (of the reason for
        which it was given up or cancelled), `content_words` (a part of the content as JSON),
        `numbers` (as `3,17`), `since` and `until`.
        """
        answer: Iterator[Document] = self._call(self._of.requests, queue, **criteria)
        return answer

    def sessions(self, words: str | None = None) -> Iterator[Document]:
        """Iterate over the belief sessions with these words in id or title, last changed first."""
        answer: Iterator[Document] = self._call(self._of.sessions, words)
        return answer

    def dead_letters(
        self, queue: str | None = None, error_signature: str | None = None
    ) -> Iterator[Document]:
        """Iterate over what was given up and not settled, of a queue or of all."""
        answer: Iterator[Document] = self._call(self._of.dead_letters, queue, error_signature)
        return answer

    def reviews(self, kind: str) -> Iterator[Document]:
        """Iterate over what of a kind waits for a person."""
        answer: Iterator[Document] = self._call(self._of.reviews, kind)
        return answer


class BlockingSessionOperations(Blocking[SessionOperations], of=SessionOperations):
    """The operations of one session at a gateway."""

    def submit(
        self, intents: Iterable[Mapping[str, Any]], *, prove: bool = False
    ) -> Iterator[OperationOutcome]:
        """Yield the outcome of each intent, in order; what is yielded is durable.

        Intents are read as they are sent. One that has no outcome yet when this ends or is
        cancelled may be sent again under its key. With `prove` every accepted result comes with
        the proof that its row is in the log, verified.

        Raises:
            GatewayError: the session does not take them, or nobody answered for too long.
            LogProofInvalid: an answer does not prove what it says; it may be on the record.
            ValueError: an intent is no JSON; those before it may have been sent.
        """
        answer: Iterator[OperationOutcome] = self._call(self._of.submit, intents, prove=prove)
        return answer


class BlockingRotulus(BlockingClient[Rotulus], of=Rotulus):
    """A client of one gateway, or of several of one fleet; use as a context manager.

    Every method raises `GatewayError` with the gateway's own code. While nobody answers, or the
    answer is 408, 429 or 503, a call is repeated under its key, with at least the pause that
    `Retry-After` names, until the pauses come to `give_up_after_s`. A call that is cancelled may
    or may not have taken effect; under a key of the caller's own it may be made again.
    """

    def __init__(
        self,
        *urls: str,
        data_dir: str | os.PathLike[str] | None = None,
        give_up_after_s: float = GIVE_UP_AFTER_S,
        call_s_max: float = CALL_S_MAX,
        new_key: Callable[[], str] = lambda: secrets.token_hex(16),
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Hold the gateways' URLs; nothing is sent yet.

        Without any it is the gateway of the tree that runs on `data_dir`; without that, those of
        ROTULUS_GATEWAY_URL and ROTULUS_OTHER_GATEWAY_URLS, the tree on ROTULUS_DATA_DIR or on
        `rotulus-data` in the current folder, or http://127.0.0.1:8440. However often it is sent
        again, a call has ended after `call_s_max`.

        Raises:
            GatewayError: `gateway_unreachable` where no tree runs on `data_dir`,
                `data_folder_unsafe` where others can change what the folder says.
        """
        super().__init__(
            Rotulus(
                *urls,
                data_dir=data_dir,
                give_up_after_s=give_up_after_s,
                call_s_max=call_s_max,
                new_key=new_key,
                sleep=sleep,
                transport=transport,
            ),
            LoopThread(),
        )

    @property
    def gateway(self) -> BlockingGatewayHttp:
        """As `Rotulus.gateway`."""
        return BlockingGatewayHttp(self._of.gateway, self._loop)

    @property
    def bindings(self) -> BlockingSourceBindings:
        """As `Rotulus.bindings`."""
        return BlockingSourceBindings(self._of.bindings, self._loop)

    @property
    def log(self) -> BlockingLogProofs:
        """As `Rotulus.log`."""
        return BlockingLogProofs(self._of.log, self._loop)

    @property
    def records(self) -> BlockingRecords:
        """As `Rotulus.records`."""
        return BlockingRecords(self._of.records, self._loop)

    @property
    def bulk(self) -> BlockingBulkOperations:
        """As `Rotulus.bulk`."""
        return BlockingBulkOperations(self._of.bulk, self._loop)

    @overload
    def enqueue(self, content: JobRequest[R]) -> BlockingJob[R]: ...
    @overload
    def enqueue(
        self,
        content: JobContent | Mapping[str, Any],
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: str | None = None,
        delay_s: int = 0,
        run_at: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> BlockingJob[Mapping[str, Any]]: ...
    def enqueue(
        self,
        content: JobRequest[Any] | JobContent | Mapping[str, Any],
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: str | None = None,
        delay_s: int = 0,
        run_at: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> BlockingJob[Any]:
        """Ask for one piece of work; it is on the record when this returns.

        The same under the same key is the same job, whoever asks. What several tasks ask for at
        the same time is sent together. A request of a function (`AppJob.request`) has its options,
        and its result is of the function's type.

        Raises:
            GatewayError: `work_request_invalid`, `work_request_key_reserved`,
                `work_tags_invalid`, `work_request_conflict`, `work_queue_unknown`,
                `work_item_full`; `work_requests_too_many` when the queue stayed full too long.
        """
        answer: BlockingJob[Any] = self._call(
            self._of.enqueue,
            content,
            queue=queue,
            key=key,
            priority=priority,
            delay_s=delay_s,
            run_at=run_at,
            tags=tags,
        )
        return answer

    def enqueue_many(
        self, requests: Iterable[Requested], *, progress: Callable[[int], None] = lambda _: None
    ) -> list[BlockingJob[Any]]:
        """Ask for work in chunks of 256 and 4 MiB at most, in order, each of them all or none.

        `progress` is called with how many are on the record. An error's `index` counts over all
        requests, and its `jobs` are those that are on the record already.
        """
        answer: list[BlockingJob[Any]] = self._call(
            self._of.enqueue_many, requests, progress=progress
        )
        return answer

    def enqueue_stream(self, *, waiting_max: int = 2 * REQUESTS_MAX) -> BlockingEnqueueStream:
        """Return a stream to ask for work through, one after another, without waiting for each."""
        answer: BlockingEnqueueStream = self._call(self._of.enqueue_stream, waiting_max=waiting_max)
        return answer

    def run_many(
        self, requests: Iterable[Requested], *, open_max: int = REQUESTS_MAX
    ) -> Iterator[tuple[BlockingJob[Any], JobOutcome[Mapping[str, Any]]]]:
        """Ask for work and yield each job with how it ended, as they end.

        At most `open_max` (1 to 256) are open at a time, and no more is read of `requests`: where
        the fleet is slow, their source waits. Jobs that are open when this is left go on; those of
        an error are in its `jobs`.
        """
        answer: Iterator[tuple[BlockingJob[Any], JobOutcome[Mapping[str, Any]]]] = self._call(
            self._of.run_many, requests, open_max=open_max
        )
        return answer

    def outcomes(
        self,
        jobs: Sequence[BlockingJob[Any]],
        timeout: float,
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[JobOutcome[Mapping[str, Any]]]:
        """Return how jobs ended, in their order, when all have or after `timeout` seconds.

        A job that is still open then has the state "open". A result is as it is on the record.
        `progress` is called with how many have ended.
        """
        answer: list[JobOutcome[Mapping[str, Any]]] = self._call(
            self._of.outcomes, jobs, timeout, progress=progress
        )
        return answer

    def recompute(
        self, node_id: str, *, key: str | None = None, priority: str = "user_initiated_critical"
    ) -> BlockingJob[Mapping[str, Any]] | None:
        """Ask for an understanding's recompute and for all below it; on the record afterwards.

        The same key asks for the same node once. None while a wide cascade is written down, and
        for a member of a cycle: then no job stands for the node alone.
        """
        answer: BlockingJob[Mapping[str, Any]] | None = self._call(
            self._of.recompute, node_id, key=key, priority=priority
        )
        return answer

    def job(self, queue: str, request_id: str) -> BlockingJob[Mapping[str, Any]]:
        """Return the handle on a request of which the id is known; nothing is asked."""
        answer: BlockingJob[Mapping[str, Any]] = self._call(self._of.job, queue, request_id)
        return answer

    def session(self, session_id: str) -> BlockingSessionOperations:
        """Return the operations of a session."""
        answer: BlockingSessionOperations = self._call(self._of.session, session_id)
        return answer
