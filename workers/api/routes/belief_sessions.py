"""Serves the belief protocol (seed 001 §3): every verb on a session, its state, its audit.

A verb with `If-Match` happens only on the head that it names. `Prefer: return=minimal` leaves the
list of survivors out of an answer, `survivors` bounds it; `Prefer: proof` has an elimination
answered with the proof of its tombstone, `Prefer: durability=witnessed` once witnesses have
cosigned it.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Header, Path, Query, Request, Response
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
)
from pydantic_core import PydanticKnownError

from actors import messages
from kernel.belief.limits import (
    MAX_CARRIED,
    MAX_CLAIMED_IDS,
    MAX_HYPOTHESES,
    MAX_ID_CHARS,
    MAX_STABILITY_WINDOW,
)
from kernel.belief.terms import OntologyBundle, SessionPolicy, TombstonePlace
from kernel.records.access.readable_view import NotCleared
from workers.api.errors import ApiError
from workers.api.json_answers import json_answer
from workers.api.json_routes import json_router
from workers.api.preferences import NONE, preferences_of
from workers.api.preferred_proofs import add_preferred_of_elimination
from workers.api.services import Given, Services
from workers.use_cases.access import does
from workers.views.belief_sessions import (
    Acceptance,
    Approval,
    Declared,
    Eliminated,
    Entered,
    Observation,
    Ontology,
    Snapshot,
    Succeeded,
)

router = json_router("write.sessions", prefix="/v1/sessions", tags=["sessions"])

ObligationId = Annotated[str, Path(min_length=1, max_length=MAX_ID_CHARS)]
_ID_SIZE = {"minLength": 1, "maxLength": MAX_ID_CHARS}
Id = Annotated[str, Field(json_schema_extra=_ID_SIZE)]
"""An id of a caller, as the document says it; the session measures it, in its own words."""


def _ids_of_at_most(count: int) -> PlainValidator:
    """Return what takes a list as it was read; whoever works with it checks what stands in it.

    Looking at a million ids, and copying their list, takes longer than a loop may be held (decision
    actors/0068).
    """

    def check_count(value: Any) -> Any:
        if not isinstance(value, list):
            raise PydanticKnownError("list_type")
        if len(value) > count:
            context = {"field_type": "List", "max_length": count, "actual_length": len(value)}
            raise PydanticKnownError("too_long", context)
        return value

    schema = Annotated[list[Id], Field(max_length=count, fail_fast=True)]
    return PlainValidator(check_count, json_schema_input_type=schema)


Survivors = Annotated[int | None, Query(ge=0, le=MAX_HYPOTHESES)]


class AnswerSize:
    """How many survivors an answer lists."""

    def __init__(
        self, survivors: Survivors = None, prefer: Annotated[str | None, Header()] = None
    ) -> None:
        self.survivors_max = survivors
        """None for all."""

        self.headers: dict[str, str] | None = None
        """Which preference was applied, as the answer says it."""

        if prefer is None or survivors is not None:
            return
        if "return=minimal" in {preference.strip().lower() for preference in prefer.split(",")}:
            self.survivors_max, self.headers = 0, {"Preference-Applied": "return=minimal"}


class Conditions(AnswerSize):
    """What every verb is given beside its body."""

    def __init__(
        self,
        survivors: Survivors = None,
        if_match: Annotated[str | None, Header()] = None,
        prefer: Annotated[str | None, Header()] = None,
    ) -> None:
        super().__init__(survivors, prefer)
        self.expected_head = None if if_match in (None, "*") else if_match.strip('"')

    def fields(self) -> dict[str, Any]:
        """Return them as the fields of a message."""
        return {"expected_head": self.expected_head, "survivors_max": self.survivors_max}


GivenSize = Annotated[AnswerSize, Depends(AnswerSize)]
GivenConditions = Annotated[Conditions, Depends(Conditions)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DeclareBody(_Body):
    """A declaration; with `session_id` it may be repeated and is answered the same."""

    session_id: UUID | None = None
    ontology: Ontology
    hypotheses: Annotated[list[str], _ids_of_at_most(MAX_HYPOTHESES)]
    metadata: dict[str, Any] | None = None
    validate_hypotheses: StrictBool = False
    allow_force: StrictBool = False
    stability_window: Annotated[int, Field(ge=0, le=MAX_STABILITY_WINDOW, strict=True)] = 0
    elimination_store: TombstonePlace = "ledger"


class _VerbBody(_Body):
    session_id: UUID | None = None
    """May be repeated from the path."""


class EliminateBody(_VerbBody):
    """An elimination; known by (source_id, observation_id) when it comes again."""

    source_id: Id
    observation_id: Id
    eliminated: Annotated[list[str], _ids_of_at_most(MAX_CLAIMED_IDS)]
    justification: dict[str, Any] | None = None


class ObligationBody(_VerbBody):
    """An obligation that so many further eliminations discharge."""

    obligation_id: Id
    min_total_eliminations: Annotated[int, Field(ge=0, le=MAX_HYPOTHESES, strict=True)]


class ExitBody(_VerbBody):
    """Why an obligation may be left; all of it is optional."""

    obligation_id: Id | None = None
    """May be repeated from the path."""

    context: dict[str, Any] | None = None


class ConclusionBody(_VerbBody):
    """What a session is concluded with; `context` is kept in the audit."""

    conclusion_id: Id
    context: dict[str, Any] | None = None


class TerminateBody(_VerbBody):
    """Why a session may end; all of it is optional. `context.force` counts as JSON true only."""

    context: dict[str, Any] | None = None


Observations = Annotated[list[Observation], Field(max_length=MAX_CARRIED, fail_fast=True)]


class SucceedBody(_VerbBody):
    """Why a session is closed, and what of it holds on: `carried`, or all but `undone`."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
    undone: Observations | None = None
    carried: Observations | None = None
    cause: dict[str, Any] | None = None
    """What reversed the ground, as its author says it; it is kept in the audit."""

    successor_id: UUID | None = None
    """The id of the session that goes on; without one it is named after this session."""


# Routes are tried in their order, so what is asked most stands first.
@router.post("/{session_id}/eliminate", responses={200: {"model": Eliminated}})
async def eliminate(
    session_id: UUID,
    body: EliminateBody,
    request: Request,
    services: Given,
    conditions: GivenConditions,
) -> Any:
    """Strike hypotheses; what was struck never comes back.

    With `Prefer: proof` the answer has the proof that the tombstone is in the log, and with
    `Prefer: durability=witnessed, wait=10` it waits until witnesses have cosigned.
    """
    message = messages.Eliminate(
        body.source_id,
        body.observation_id,
        body.eliminated,
        body.justification,
        **conditions.fields(),
    )
    preferences = preferences_of(request)
    add = partial(add_preferred_of_elimination, preferences) if preferences != NONE else None
    return await _ask(services, session_id, body, message, conditions, add)


@router.post("", status_code=201, responses={201: {"model": Declared}})
async def declare(body: DeclareBody, services: Given, size: GivenSize) -> Any:
    """Open a belief session over a set of hypotheses."""
    session_id = str(body.session_id or services.ledger.host.new_id())
    message = messages.Declare(
        OntologyBundle(**body.ontology.model_dump()),
        body.hypotheses,
        SessionPolicy(
            body.validate_hypotheses,
            body.allow_force,
            body.stability_window,
            body.elimination_store,
        ),
        body.metadata,
        size.survivors_max,
    )
    if await services.hides_session(session_id):
        raise NotCleared("a session of this id is there, which your clearance does not let you see")
    snapshot = await services.sessions.ask(session_id, message)
    declared = {"session_id": session_id, "snapshot": snapshot}
    return await json_answer(declared, 201, size.headers)


@router.get(
    "/{session_id}", openapi_extra=does("read.sessions"), responses={200: {"model": Snapshot}}
)
async def query(session_id: UUID, services: Given, size: GivenSize) -> Any:
    """Return where a session stands."""
    snapshot = await services.sessions.ask(str(session_id), messages.Query(size.survivors_max))
    return await json_answer(snapshot)


@router.post("/{session_id}/obligations", responses={200: {"model": Entered}})
async def enter_obligation(
    session_id: UUID, body: ObligationBody, services: Given, conditions: GivenConditions
) -> Any:
    """Open an obligation; one at a time."""
    message = messages.EnterObligation(
        body.obligation_id, body.min_total_eliminations, **conditions.fields()
    )
    return await _ask(services, session_id, body, message, conditions)


@router.post(
    "/{session_id}/obligations/{obligation_id:path}/exit",
    responses={200: {"model": Approval}},
)
async def request_exit(
    session_id: UUID,
    obligation_id: ObligationId,
    services: Given,
    conditions: GivenConditions,
    body: ExitBody | None = None,
) -> Any:
    """Close the obligation if enough was eliminated since it was entered."""
    body = body or ExitBody()
    _check_repeated("obligation_id", body.obligation_id, obligation_id)
    message = messages.RequestExit(obligation_id, body.context, **conditions.fields())
    return await _ask(services, session_id, body, message, conditions)


@router.post("/{session_id}/conclusions", responses={200: {"model": Acceptance}})
async def declare_conclusion(
    session_id: UUID, body: ConclusionBody, services: Given, conditions: GivenConditions
) -> Any:
    """Declare a conclusion; an open obligation holds it back."""
    message = messages.DeclareConclusion(body.conclusion_id, body.context, **conditions.fields())
    return await _ask(services, session_id, body, message, conditions)


@router.post("/{session_id}/terminate", responses={200: {"model": Approval}})
async def request_termination(
    session_id: UUID,
    services: Given,
    conditions: GivenConditions,
    body: TerminateBody | None = None,
) -> Any:
    """End the session if its rules allow; afterwards only reading is possible."""
    body = body or TerminateBody()
    message = messages.RequestTermination(body.context, **conditions.fields())
    return await _ask(services, session_id, body, message, conditions)


@router.post("/{session_id}/succeed", responses={200: {"model": Succeeded}})
async def succeed(
    session_id: UUID, body: SucceedBody, services: Given, conditions: GivenConditions
) -> Any:
    """Close the session where its ground was undone, and go on in a successor.

    What was struck stays struck here. The successor is declared in the same transaction over the
    whole universe, and repeats the eliminations that still hold. The same request again is
    answered as it was; any other verb, or another successor, is refused with `SESSION_SUCCEEDED`,
    which names the successor.
    """
    undone, carried = (
        None if listed is None else [[named.source_id, named.observation_id] for named in listed]
        for listed in (body.undone, body.carried)
    )
    successor_id = None if body.successor_id is None else str(body.successor_id)
    message = messages.Succeed(
        body.reason, undone, carried, body.cause, successor_id, **conditions.fields()
    )
    return await _ask(services, session_id, body, message, conditions)


async def _ask(
    services: Services,
    session_id: UUID,
    body: _VerbBody,
    message: messages.BeliefVerb,
    conditions: Conditions,
    add: Callable[[Services, dict[str, Any]], Awaitable[None]] | None = None,
) -> Response:
    _check_repeated("session_id", body.session_id, session_id)
    answer = await services.sessions.ask(str(session_id), message)
    if add is not None:
        await add(services, answer)
    return await json_answer(answer, headers=conditions.headers)


def _check_repeated(name: str, stated: object, in_path: object) -> None:
    if stated is not None and stated != in_path:
        raise ApiError("INVALID_REQUEST", f"{name} is another than the path's")
