"""Asks for requests for work in pages, newest first, and for those that were given up."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from kernel.model.numbers import SEQUENCE_MAX
from kernel.records.access.readable_view import ReadableView
from kernel.work.attempts import SignaturePage, list_signatures
from kernel.work.dead_letters import DeadLetters, dead_letters
from kernel.work.queue_kinds import QUEUE_KINDS, no_such_queue
from kernel.work.request_lists import RequestPage, list_requests
from kernel.work.request_search import RequestSearch, StateAsked
from workers.questions.fields import ROWS_READ, Limit, Name, PageByName, Since, Until
from workers.questions.question import Question, QuestionRefused
from workers.views.moments import us_of

Queue = Annotated[
    str | None,
    Field(min_length=1, max_length=128, description=f"One of {', '.join(QUEUE_KINDS)}."),
]


After = Annotated[
    int | None,
    Field(ge=0, le=SEQUENCE_MAX, description="Go on before this number, the page's last."),
]


ErrorSignature = Annotated[
    Name | None,
    Field(description="Why it was given up, or the signature of its newest attempt that failed."),
]


class RequestFilter(BaseModel):
    """Which requests are meant: those that fit in everything that is stated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    queue: Queue = None
    request_id: Annotated[Name | None, Field(description="The request with this id.")] = None
    item_key: Annotated[Name | None, Field(description="Requests for this item.")] = None
    request_key: Annotated[
        Name | None, Field(description="The request under this key of its producer.")
    ] = None
    session_id: Annotated[
        Name | None, Field(description="Recomputes that operations of this session caused.")
    ] = None
    tag: Annotated[Name | None, Field(description="As `customer=acme`.")] = None
    error_signature: ErrorSignature = None
    state: Annotated[
        StateAsked | None,
        Field(
            description="standing: given up and not settled;"
            " open with a signature: waits for another attempt."
        ),
    ] = None
    priority: Annotated[Name | None, Field(description="One priority of the queue.")] = None
    words: Annotated[
        Name | None, Field(description="Part of the reason why it was given up or cancelled.")
    ] = None
    content_words: Annotated[
        Name | None, Field(description="Part of the content as JSON, in whatever case.")
    ] = None
    numbers: Annotated[
        str | None,
        Field(
            pattern=r"^[0-9]{1,15}(,[0-9]{1,15}){0,255}$",
            description="Requests by their `request_sequence`, such as `3,17`.",
        ),
    ] = None
    since: Since = None
    until: Until = None

    def search(self) -> RequestSearch:
        """Return what is asked of requests."""
        names = RequestFilter.model_fields.keys() - {"since", "until"}
        stated = {name: getattr(self, name) for name in names}
        return RequestSearch(**stated, from_us=us_of(self.since), before_us=us_of(self.until))


class ListRequests(RequestFilter, Question):
    """List requests of a queue, or of all, newest first; go on while `next_after` is given.

    A page may be empty and not the last; where `complete` is false a bound ended it.
    """

    paths: ClassVar = ("/v1/queues/{queue}/requests", "/v1/requests")
    subject: ClassVar = "operators"
    action: ClassVar = "read.requests"
    rows: ClassVar = "requests"
    rows_read: ClassVar = 20
    place: ClassVar = "request_sequence"

    after: After = None
    limit: Limit = 100

    def answer(self, view: ReadableView) -> RequestPage:
        """Return a page of requests."""
        expect_queue(self.queue)
        return list_requests(view, self.search(), after=self.after, limit=self.limit)


class ListDeadLetters(Question):
    """List what was given up of a queue, or of all, and is not settled; how much for which reason.

    Those come first that were asked for last; go on while `next_after` is given.
    """

    paths: ClassVar = ("/v1/queues/{queue}/dead-letters", "/v1/dead-letters")
    subject: ClassVar = "operators"
    action: ClassVar = "read.requests"
    rows: ClassVar = "dead_letters"
    rows_read: ClassVar = ROWS_READ
    place: ClassVar = "request_sequence"

    queue: Queue = None
    error_signature: ErrorSignature = None
    after: After = None
    limit: Limit = 100

    def answer(self, view: ReadableView) -> DeadLetters:
        """Return a page of dead letters."""
        expect_queue(self.queue)
        return dead_letters(
            view,
            self.queue,
            error_signature=self.error_signature,
            after=self.after,
            limit=self.limit,
        )

    def join_pages(self, document: Any, following: Any) -> Any:
        """Return two pages as one; each says of everything how much there is."""
        return {**super().join_pages(document, following), "by_signature": document["by_signature"]}


class ListFailures(PageByName):
    """List why requests of a queue, or of all, failed last: each signature with how many."""

    paths: ClassVar = ("/v1/queues/{queue}/failures", "/v1/failures")
    subject: ClassVar = "operators"
    action: ClassVar = "read.requests"
    rows: ClassVar = "signatures"
    place: ClassVar = "signature"

    queue: Queue = None

    def answer(self, view: ReadableView) -> SignaturePage:
        """Return a page of signatures."""
        expect_queue(self.queue)
        return list_signatures(view, self.queue, after=self.after, limit=self.limit)


def expect_queue(name: str | None) -> None:
    """Refuse a queue that there is not.

    Raises:
        QuestionRefused: `work_queue_unknown`.
    """
    if name is not None and name not in QUEUE_KINDS:
        raise QuestionRefused(no_such_queue(name), code="work_queue_unknown")
