"""Serves the erasing of payloads, and the legal holds that win over it (P6)."""

from typing import Annotated

import anyio.to_thread
from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from actors.commit.erasure_units import EraseUnit, LiftHoldUnit, SetHoldUnit
from kernel.records.legal_holds import Grounds, LegalHold, SubjectKind
from kernel.retention.erasure import ErasablePayload, Erasure, PayloadKind
from kernel.retention.thought_contents import lies_in_archive
from workers.api.access import decider
from workers.api.json_routes import json_router
from workers.api.services import Given

GROUNDS_CHARS_MAX = 1000

router = json_router("erase.payloads", prefix="/v1", tags=["operators"])

_Text = r"^[^\x00-\x1f]*$"
_Name = r"^[^\x00-\x1f/]+$"
"""Names a hold in a path."""

_Stated = Annotated[
    str, Field(min_length=1, max_length=GROUNDS_CHARS_MAX, pattern=r"[^\s\x1c-\x1f]")
]
_HoldName = Annotated[str, Field(min_length=1, max_length=128, pattern=_Name)]
_HoldId = Annotated[str, Path(min_length=1, max_length=128, pattern=_Name)]


class GroundsBody(BaseModel):
    """Why, and on whose authority; both go on the record. A key says on whose."""

    model_config = ConfigDict(extra="forbid")

    reason: _Stated
    authority: _Stated

    def grounds(self, request: Request) -> Grounds:
        """Return them as the kernel takes them; raises `ApiError`, see `decider`."""
        return Grounds(self.reason, decider(request, self.authority))


class ErasureBody(GroundsBody):
    """A thought of a session, or a model's answer by its recorded output."""

    payload_kind: PayloadKind
    payload_id: Annotated[str, Field(min_length=1, max_length=512, pattern=_Text)]
    session_id: Annotated[str, Field(max_length=128, pattern=_Text)] = ""


class HoldBody(GroundsBody):
    """What is held: all (`ledger`), a session of thoughts, a payload by its commitment."""

    hold_id: _HoldName
    subject_kind: SubjectKind
    subject_id: Annotated[str, Field(max_length=128, pattern=_Text)] = ""


class LiftedDocument(TypedDict):
    """Whether anything changed."""

    changed: bool


@router.post("/erasures")
async def erase(body: ErasureBody, services: Given, request: Request) -> Erasure:
    """Delete a payload and its salt for good, on the record; again changes nothing.

    Its commitment stays, and with it every proof. A payload under a legal hold is refused. One that
    lies in an archive that does not answer is erased on the record: ask again until it is deleted.
    """
    payload = ErasablePayload(body.payload_kind, body.payload_id, body.session_id)
    erasure: Erasure = await services.write(EraseUnit(payload, body.grounds(request)))
    if payload.kind == "thought":
        # Again each time: a process may have been killed here.
        erase_content = services.ledger.archive.erase_content
        await anyio.to_thread.run_sync(erase_content, erasure.commitment)
    return erasure


@router.post("/legal-holds")
async def set_legal_hold(body: HoldBody, services: Given, request: Request) -> LegalHold:
    """Set a legal hold on the record; what it holds is neither erased nor collected."""
    subject, grounds = (body.subject_kind, body.subject_id), body.grounds(request)
    is_archived = body.subject_kind == "payload" and await services.read(
        lambda view: lies_in_archive(view, body.subject_id)
    )
    unit = SetHoldUnit(body.hold_id, subject, grounds, is_archived=is_archived)
    hold: LegalHold = await services.write(unit)
    return hold


@router.post("/legal-holds/{hold_id}/lift")
async def lift_legal_hold(
    hold_id: _HoldId, body: GroundsBody, services: Given, request: Request
) -> LiftedDocument:
    """Lift a legal hold on the record; again changes nothing."""
    return {"changed": await services.write(LiftHoldUnit(hold_id, body.grounds(request)))}
