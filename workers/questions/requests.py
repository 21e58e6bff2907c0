"""Asks for requests for work in pages, newest first, and for those that were given up."""

from collections import Counter
from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.ledger.ledger import LedgerView
from kernel.model.numbers import SEQUENCE_MAX
from kernel.work.dead_letters import DeadLetters, dead_letters
from kernel.work.queue_kinds import QUEUE_KINDS, no_such_queue
from kernel.work.request_lists import RequestPage, RequestSearch, list_requests
from kernel.work.requests import State
from workers.questions.fields import Limit, Name, PageByName, Since, Until
from workers.questions.question import Question, QuestionRefused
from workers.views.moments import us_of

Queue = Annotated[
    str | None,
    Field(min_length=1, max_length=128, description=f"One of {', '.join(QUEUE_KINDS)}."),
]


class ListRequests(Question):
    """List requests of a queue, or of all, newest first; go on while `next_after` is given.

    A page may be empty and not the last.
    """

    paths: ClassVar = ("/v1/queues/{queue}/requests", "/v1/requests")
    subject: ClassVar = "operators"
    rows: ClassVar = "requests"
    rows_read: ClassVar = 20
    place: ClassVar = "request_sequence"

    queue: Queue = None
    request_id: Annotated[Name | None, Field(description="The request with this id.")] = None
    item_key: Annotated[Name | None, Field(description="Requests for this item.")] = None
    request_key: Annotated[
        Name | None, Field(description="The request under this key of its producer.")
    ] = None
    session_id: Annotated[
        Name | None, Field(description="Recomputes that operations of this session caused.")
    ] = None
    state: Annotated[State | None, Field(description="What is in this state.")] = None
    priority: Annotated[Name | None, Field(description="One priority of the queue.")] = None
    words: Annotated[
        Name | None, Field(description="Part of the reason why it was given up or cancelled.")
    ] = None
    since: Since = None
    until: Until = None
    after: Annotated[
        int | None,
        Field(ge=0, le=SEQUENCE_MAX, description="Go on before this number, the page's last."),
    ] = None
    limit: Limit = 100

    def answer(self, view: LedgerView) -> RequestPage:
        """Return a page of requests."""
        expect_queue(self.queue)
        stated = self.model_dump(exclude={"queue", "since", "until", "after", "limit"})
        search = RequestSearch(**stated, from_us=us_of(self.since), before_us=us_of(self.until))
        return list_requests(view, self.queue, search, after=self.after, limit=self.limit)


class ListDeadLetters(PageByName):
    """List what was given up of a queue, or of all, and is not settled; how much for which reason.

    Go on while `next_after` is given: a page may be empty and not the last.
    """

    paths: ClassVar = ("/v1/queues/{queue}/dead-letters", "/v1/dead-letters")
    subject: ClassVar = "operators"
    rows: ClassVar = "dead_letters"
    place: ClassVar = "request_id"

    queue: Queue = None
    error_signature: Annotated[
        Name | None, Field(description="What was given up for this reason.")
    ] = None

    def answer(self, view: LedgerView) -> DeadLetters:
        """Return a page of dead letters."""
        expect_queue(self.queue)
        return dead_letters(
            view,
            self.queue,
            error_signature=self.error_signature,
            after=self.after,
            limit=self.limit,
        )

    def joined(self, document: Any, following: Any) -> Any:
        """Return two pages as one, with how many there are in both for which reason."""
        counts = Counter(document["by_signature"]) + Counter(following["by_signature"])
        return {**super().joined(document, following), "by_signature": dict(counts)}


def expect_queue(name: str | None) -> None:
    """Refuse a queue that there is not.

    Raises:
        QuestionRefused: `work_queue_unknown`.
    """
    if name is not None and name not in QUEUE_KINDS:
        raise QuestionRefused(no_such_queue(name), code="work_queue_unknown")
