"""Asks for what an operator looks after: quarantines, holds, what was lost, detectors, shards."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import Field
from typing_extensions import TypedDict

from kernel.algebra.verbs import OPERATOR_VERBS
from kernel.audit.operator_log import OperatorLog, operator_log
from kernel.ledger.shards import NOBODY, shards_of
from kernel.records.access.readable_view import ReadableView
from kernel.records.legal_holds import LegalHold, open_holds
from kernel.values.host import iso_time
from workers.questions.fields import ROWS_READ, Limit, Name, PageByName
from workers.questions.question import Question
from workers.questions.requests import After
from workers.views.implications import ImplicationsDocument, implications_document
from workers.views.lost_answers import LostDocument, losses_document
from workers.views.quarantines import QuarantinesDocument, quarantines_document

SUBJECT: Final = "operators"
LOST_MAX: Final = 1000
_VERBS: Final = "|".join(OPERATOR_VERBS)
OperatorVerb = Annotated[str, Field(pattern=f"^({_VERBS})$")]


class HoldsDocument(TypedDict):
    """The holds that are open."""

    holds: list[LegalHold]


class GatewayShards(TypedDict):
    """The shards of a gateway."""

    shards: list[int]
    last_acquired_at: str


class ShardsDocument(TypedDict):
    """The shards of each gateway by its name, and those that nobody owns."""

    of: int
    gateways: dict[str, GatewayShards]
    unowned: list[int]


class GetImplications(PageByName):
    """Show how far each detector of implications has read, and what is halted and why.

    Go on while `next_after` is given.
    """

    paths: ClassVar = ("/v1/implications",)
    subject: ClassVar = SUBJECT
    rows: ClassVar = "halts"
    place: ClassVar = "halt_id"

    def answer(self, view: ReadableView) -> ImplicationsDocument:
        """Return the detectors, and a page of the halts that stand."""
        return implications_document(view, after=self.after, limit=self.limit)

    def summary(self, document: Any) -> str:
        """Return how many detectors and halts there are."""
        counts = f"{len(document['detectors'])} detectors, {len(document['halts'])} halts"
        return f"{counts} on this page"


class ListQuarantines(Question):
    """List what stands as damaged, in the order in which it was found."""

    paths: ClassVar = ("/v1/quarantines",)
    subject: ClassVar = SUBJECT
    rows: ClassVar = "quarantines"

    def answer(self, view: ReadableView) -> QuarantinesDocument:
        """Return the quarantines that stand."""
        return quarantines_document(view)


class ListLegalHolds(Question):
    """List the legal holds that are open, in the order in which they were set."""

    paths: ClassVar = ("/v1/legal-holds",)
    subject: ClassVar = SUBJECT
    rows: ClassVar = "holds"

    def answer(self, view: ReadableView) -> HoldsDocument:
        """Return the holds."""
        return {"holds": [*open_holds(view)]}


class ListLost(Question):
    """List what is known to be lost since the ledger went back, page by page.

    While nobody has accepted the ledger that is there, that is what its gateways have found; after
    that what was accepted last.
    """

    paths: ClassVar = ("/v1/ledger/lost",)
    subject: ClassVar = SUBJECT
    rows: ClassVar = "lost"

    after: Annotated[int, Field(ge=0, le=10**9, description="Go on after so many.")] = 0
    limit: Annotated[int, Field(ge=1, le=LOST_MAX, description="At most so many.")] = LOST_MAX

    def answer(self, view: ReadableView) -> LostDocument:
        """Return a page of what is lost."""
        return losses_document(view, after=self.after, limit=self.limit)


class ListOperatorDecisions(Question):
    """List what people decided about queues, requests and the record, newest first: who and why.

    A page may be empty and not the last: go on while `next_after` is given.
    """

    paths: ClassVar = ("/v1/operator-log",)
    subject: ClassVar = SUBJECT
    rows: ClassVar = "entries"
    rows_read: ClassVar = ROWS_READ
    place: ClassVar = "ec_sequence_number"

    verb: Annotated[OperatorVerb | None, Field(description="What was decided.")] = None
    who: Annotated[
        Name | None, Field(description="Part of the name of who decided, in whatever case.")
    ] = None
    after: After = None
    limit: Limit = 100

    def answer(self, view: ReadableView) -> OperatorLog:
        """Return a page of decisions."""
        return operator_log(view, verb=self.verb, who=self.who, after=self.after, limit=self.limit)


class GetShards(Question):
    """Show the shards of each gateway, and those that nobody owns right now."""

    paths: ClassVar = ("/v1/shards",)
    action: ClassVar = "read.fleet"

    def answer(self, view: ReadableView) -> ShardsDocument:
        """Return who owns what."""
        gateways: dict[str, GatewayShards] = {}
        unowned = []
        known = shards_of(view)
        for shard in known:
            if shard.owner == NOBODY:
                unowned.append(shard.shard)
                continue
            gateway = gateways.setdefault(shard.owner, {"shards": [], "last_acquired_at": ""})
            gateway["shards"].append(shard.shard)
            acquired_at = iso_time(shard.acquired_at_us)
            gateway["last_acquired_at"] = max(gateway["last_acquired_at"], acquired_at)
        return {"of": len(known), "gateways": dict(sorted(gateways.items())), "unowned": unowned}

    def summary(self, document: Any) -> str:
        """Return how many gateways own shards."""
        return f"{len(document['gateways'])} gateways own shards of {document['of']}"
