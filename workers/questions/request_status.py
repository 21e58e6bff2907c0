"""Asks how many requests for work there are, and for the proof of how one ended."""

from typing import Annotated, ClassVar, TypeVar

from pydantic import Field

from kernel.records.access.readable_view import ReadableView
from kernel.records.head_acceptance import is_lost
from kernel.work.requests import WorkStatus, outcome_of, status_of
from workers.questions.fields import Name, TreeSize
from workers.questions.log_tree import tree_sizes
from workers.questions.question import Question, QuestionRefused
from workers.views.log_proofs import OutcomeProofDocument, RequestFact, request_proof
from workers.views.records import RequestCounts, count_requests

T = TypeVar("T")

QueueName = Annotated[str, Field(min_length=1, max_length=128, description="Its queue.")]


class CountRequests(Question):
    """Show the requests for work on the record, and how they ended."""

    subject: ClassVar = "producers"

    def answer(self, view: ReadableView) -> RequestCounts:
        """Return the counts."""
        return count_requests(view)


class ProveOutcome(Question):
    """Prove that the outcome of a request is in the log, or that it was asked for.

    A gateway seals both every few seconds; before that the answer is `outcome_not_sealed`, or
    `admission_not_sealed`.
    """

    paths: ClassVar = ("/v1/queues/{queue}/requests/{request_id:path}/proof",)
    subject: ClassVar = "producers"
    is_exact: ClassVar = True

    queue: QueueName
    request_id: Name
    tree_size: TreeSize = None
    of: Annotated[RequestFact, Field(description="What is proved of it.")] = "outcome"

    def answer(self, view: ReadableView) -> OutcomeProofDocument:
        """Return the proof."""
        existing_request(view, outcome_of(view, self.queue, self.request_id), self.request_id)
        with tree_sizes():
            return request_proof(view, self.request_id, self.of, self.tree_size)


def existing_status(view: ReadableView, queue: str, request_id: str) -> WorkStatus:
    """Return a request of a queue as it stands, with the attempts that failed.

    Raises:
        QuestionRefused: as `existing_request`.
    """
    status = status_of(view, request_id, attempts=True)
    is_of_queue = status is not None and status.queue == queue
    return existing_request(view, status if is_of_queue else None, request_id)


def existing_request(view: ReadableView, record: T | None, request_id: str) -> T:
    """Return what is known of a request.

    Raises:
        QuestionRefused: `work_request_unknown`, or `work_request_lost` where the ledger went back.
    """
    if record is not None:
        return record
    if is_lost(view, request_id):
        message = f"{request_id!r} was lost when the ledger went back: ask again under its key"
        raise QuestionRefused(message, code="work_request_lost")
    message = f"nobody asked this queue for {request_id!r}"
    raise QuestionRefused(message, code="work_request_unknown")
