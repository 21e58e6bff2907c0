"""Sessions over HTTP: declare, eliminate, query, audit, and operations in a session's order."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from actors.errors import ActorError, IntentInvalid
from actors.intents import PublicIntent
from actors.messages import Audit, Declare, Eliminate, Operate, Query, SubmitEnvelope
from kernel.belief.terms import OntologyBundle, SessionPolicy, TombstonePlace
from kernel.model.result import RejectedResult, SubmissionResult
from workers.api.errors import RETRYABLE_STATUS, respond
from workers.api.services import Given
from workers.host import system_host

INTENTS_MAX = 256

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Ontology(_Body):
    """Which upstream models the hypotheses come from."""

    hypothesis_space_id: str
    hypothesis_version: str
    causal_graph_ref: str
    causal_graph_version: str


class DeclareBody(_Body):
    """A declaration; with `session_id` it may be repeated and is answered the same."""

    session_id: UUID | None = None
    ontology: Ontology
    hypotheses: Annotated[list[str], Field(max_length=1_000_000)]
    metadata: dict[str, Any] | None = None
    validate_hypotheses: bool = False
    allow_force: bool = False
    stability_window: Annotated[int, Field(ge=0)] = 0
    elimination_store: TombstonePlace = "ledger"


class EliminateBody(_Body):
    """An elimination; known by (source_id, observation_id) when it comes again."""

    source_id: str
    observation_id: str
    eliminated: Annotated[list[str], Field(max_length=1_000_000)]
    justification: dict[str, Any] | None = None
    session_id: UUID | None = None
    """May be repeated from the path; is not read."""


class OperationsBody(_Body):
    """Intents, in order."""

    intents: Annotated[list[PublicIntent], Field(min_length=1, max_length=INTENTS_MAX)]


@router.post("", status_code=201)
async def declare(body: DeclareBody, services: Given) -> dict[str, Any]:
    """Open a belief session over a set of hypotheses."""
    session_id = str(body.session_id or system_host().new_id())
    message = Declare(
        OntologyBundle(**body.ontology.model_dump()),
        tuple(body.hypotheses),
        SessionPolicy(
            body.validate_hypotheses,
            body.allow_force,
            body.stability_window,
            body.elimination_store,
        ),
        body.metadata,
    )
    snapshot = await services.sessions.ask(session_id, message)
    return {"session_id": session_id, "snapshot": snapshot}


@router.get("/{session_id}")
async def query(session_id: UUID, services: Given) -> Any:
    """Return where a session stands."""
    return await services.sessions.ask(str(session_id), Query())


@router.post("/{session_id}/eliminate")
async def eliminate(
    session_id: UUID,
    body: EliminateBody,
    services: Given,
    if_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Strike hypotheses; what was struck never comes back."""
    message = Eliminate(
        body.source_id,
        body.observation_id,
        tuple(body.eliminated),
        body.justification,
        if_match.strip('"') if if_match else None,
    )
    return await services.sessions.ask(str(session_id), message)


@router.get("/{session_id}/audit")
async def audit(
    session_id: UUID, services: Given, since_event_id: str | None = None
) -> dict[str, Any]:
    """Return a session's audit entries, all or those after one."""
    events = await services.sessions.ask(str(session_id), Audit(since_event_id))
    return {"events": events}


@router.post("/{session_id}/operations")
async def operate(session_id: UUID, body: OperationsBody, services: Given) -> dict[str, Any]:
    """Put intents through the kernel in order; each has its own result."""
    results = await services.sessions.ask(str(session_id), Operate(tuple(body.intents)))
    return {"results": [result_document(one) for one in results]}


@router.post("/{session_id}/envelopes")
async def submit(session_id: UUID, body: dict[str, Any], services: Given) -> Any:
    """Submit an envelope as its author wrote it; a refusal names check, reason and field."""
    result = await services.sessions.ask(str(session_id), SubmitEnvelope(body))
    if isinstance(result, SubmissionResult):
        return result.document()
    if isinstance(result, RejectedResult):
        return _refusal(result)
    raise result


def _refusal(result: RejectedResult) -> JSONResponse:
    """Return a refused envelope's response; what lacked capacity alone may be sent again as is."""
    rejection = result.rejection
    response = respond(rejection.reason_code, rejection.message, result.document())
    if rejection.retry_after_s is not None:
        response.status_code = 429
        response.headers["Retry-After"] = str(rejection.retry_after_s)
    elif response.status_code not in RETRYABLE_STATUS:
        response.status_code = 422
    return response


def result_document(result: object) -> dict[str, Any]:
    """Return one operation's result as it leaves the process."""
    if isinstance(result, SubmissionResult):
        return result.document() | {"duplicate": result.duplicate}
    if isinstance(result, RejectedResult):
        return result.document()
    if isinstance(result, IntentInvalid):
        return {
            "validation_result": "invalid",
            "reason_code": result.code,
            "field": result.field,
            "message": str(result),
        }
    code = result.code if isinstance(result, ActorError) else "internal"
    return {"validation_result": "failed", "reason_code": code, "message": "nothing was written"}
