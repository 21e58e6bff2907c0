"""Serves replays: done again from the record, with a receipt for each operation (§6.3)."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator
from typing_extensions import TypedDict

from kernel.ledger.ledger import Document
from kernel.model.dumped import DumpOf
from kernel.model.numbers import SEQUENCE_MAX
from kernel.model.replay import AuditContext, AuditReplayReceipt, AuditReplayStrategy, CallerKind
from kernel.records.access.readable_view import NotCleared
from kernel.values.errors import KernelError
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.services import Given
from workers.questions.fields import NAME_CHARS_MAX
from workers.views.cold_reads import is_archived, note_archive_read

REPLAYED_MAX = 1000
"""Operations of one request: they are replayed in one transaction, and everybody waits for it."""

router = json_router("replay.operations", prefix="/v1/audit", tags=["audit"])

Sequence = Annotated[int, Field(ge=1, le=SEQUENCE_MAX, strict=True)]
Text = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]


class Context(BaseModel):
    """For whom a replay is done; see `AuditContext`."""

    model_config = ConfigDict(extra="forbid")

    caller_kind: CallerKind = "other"
    retention_upgrade_required: StrictBool = False
    caller_attribution: Text | None = None


class ReplayBody(BaseModel):
    """One operation, or a range of sequences with both its ends."""

    model_config = ConfigDict(extra="forbid")

    operation_id: Text | None = None
    from_sequence: Sequence | None = None
    to_sequence: Sequence | None = None
    strategy: AuditReplayStrategy = "record_only"
    audit_context: Context = Context()

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        ends = (self.from_sequence, self.to_sequence)
        if (self.operation_id is None) == (ends == (None, None)) or ends.count(None) == 1:
            raise ValueError("name an operation_id, or a from_sequence and a to_sequence")
        first, last = self.from_sequence or 1, self.to_sequence or 1
        if not first <= last < first + REPLAYED_MAX:
            raise ValueError(f"a range holds 1 to {REPLAYED_MAX} operations")
        return self

    @property
    def target(self) -> str | tuple[int, int]:
        """What is to be replayed."""
        return self.operation_id or (self.from_sequence or 1, self.to_sequence or 1)


class ReplayDocument(TypedDict):
    """A receipt for each operation that was replayed, and how many gave what is recorded."""

    receipts: list[Annotated[Document, DumpOf(AuditReplayReceipt)]]
    reproduced: int
    blocked: int


@router.post("/replay")
async def replay(body: ReplayBody, services: Given) -> ReplayDocument:
    """Replay and record it; what was not reproduced says why. No model is asked.

    A record that gives other bytes than it holds is answered with `replay_differs`, and health
    says so from then on. It takes a clearance of everything.
    """
    if not services.reader.reads_everything:
        raise NotCleared("a replay reads what it replays whole: it takes a clearance of everything")
    context = AuditContext(**body.audit_context.model_dump())
    try:
        receipts = await services.replay(body.target, body.strategy, context)
    except KernelError as error:
        if error.code == "replay_differs":
            services.health.problems["record"] = str(error)
        raise ApiError(error.code, str(error), getattr(error, "details", None)) from None
    if await services.read(lambda view: is_archived(view, body.target)):
        note_archive_read()
    return {
        "receipts": [receipt.document() for receipt in receipts],
        "reproduced": sum(receipt.output_reproduced for receipt in receipts),
        "blocked": sum(not receipt.output_reproduced for receipt in receipts),
    }
