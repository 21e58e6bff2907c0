"""Asks for an extraction in the transaction of whatever is its cause (§13.5, §16.4, K19).

The same cause twice is one run, and one that was abandoned is found and not begun again, however
often a sweep or a binding asks (INV-EXT-4). A person who wants it again requeues the dead letter
that it left, or asks under a name of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.outbox import NO_TAGS
from kernel.work.contents import EXTRACTION_QUEUE, EXTRACTION_REQUESTED
from kernel.work.extraction_runs import replacement_of, run_of
from kernel.work.requests import WorkRequest, enqueue, reentry_key, request_id_of


@dataclass(frozen=True, slots=True)
class RequestedExtraction:
    """The run that an asking came to."""

    extraction_run_id: str
    request_id: str
    state: str
    """The state of the run; pending where no step of it is recorded."""

    duplicate: bool
    """Whether the run was there before: then nothing was recorded."""


def request_extraction(
    transaction: LedgerTransaction,
    artifact_ref: str,
    extractor: str | None = None,
    cause: str = EXTRACTION_REQUESTED,
    *,
    corpus_id: str,
    understanding_id: str | None = None,
    fields: Sequence[str] = (),
    priority: str | None = None,
) -> RequestedExtraction:
    """Ask for the extraction of an artifact as it is now; durable with the transaction.

    `cause` is the `state_change_reason` of the run's first step. Without an extractor the one
    that serves the artifact's kind of content is taken when a worker begins.

    Raises:
        ExtractionRefused: there is no such text; nothing was recorded.
        WorkRefused: the queue or the run is full, or a name is too long; nothing was recorded.
    """
    run_id, state = run_of(transaction, artifact_ref, extractor, corpus_id=corpus_id, fields=fields)
    request_id = request_id_of(EXTRACTION_QUEUE, run_id)
    if state is not None:
        return RequestedExtraction(run_id, request_id, state, duplicate=True)
    content: Document = {
        "extraction_run_id": run_id,
        "source_ref": artifact_ref,
        "corpus_id": corpus_id,
        "extractor": extractor,
        "fields": list(fields),
        "understanding_id": understanding_id,
        "cause": cause,
    }
    request = WorkRequest(
        EXTRACTION_QUEUE,
        run_id,
        {name: value for name, value in content.items() if value not in (None, [])},
        priority,
    )
    [receipt] = enqueue(transaction, [request])
    return RequestedExtraction(run_id, receipt.request_id, "pending", duplicate=False)


def request_reentry(
    transaction: LedgerTransaction,
    content: Document,
    cause: str,
    *,
    after_attempt: int,
    delay_s: int,
    priority: str,
    tags: Mapping[str, str] = NO_TAGS,
) -> str:
    """Ask for the next try of a run after one of its steps and return the request's id."""
    run_id = content["extraction_run_id"]
    key = reentry_key(run_id, after_attempt)
    stated = {**content, "cause": cause}
    again = WorkRequest(EXTRACTION_QUEUE, key, stated, priority, delay_s, tags=tags)
    [receipt] = enqueue(transaction, [again])
    return receipt.request_id


def request_replacement(
    transaction: LedgerTransaction,
    content: Document,
    cause: str,
    *,
    priority: str,
    tags: Mapping[str, str] = NO_TAGS,
) -> str:
    """Ask for a run that begins anew in the place of one that ended, and return its name.

    Nothing that the other run extracted is carried forward (INV-EXT-6).
    """
    replaced = content["extraction_run_id"]
    run_id = replacement_of(replaced)
    anew = {
        **content,
        "extraction_run_id": run_id,
        "replaces_extraction_run_id": replaced,
        "cause": cause,
    }
    enqueue(transaction, [WorkRequest(EXTRACTION_QUEUE, run_id, anew, priority, tags=tags)])
    return run_id
