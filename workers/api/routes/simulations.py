"""Serves simulations: what an operation would come to, in a session's order (§11)."""

from typing import Annotated, Any, Self
from uuid import UUID

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from actors.messages import Simulate
from actors.orchestrator.intents import PublicIntent
from kernel.model.result import RejectedResult
from kernel.model.simulation import ALL_FORBIDDEN, Retention, SimulationExternalEffectPolicy
from kernel.simulate.operation import SimulationDocument, SimulationResult
from workers.api.envelope_sizes import check_envelope_size
from workers.api.errors import respond
from workers.api.json_routes import json_router
from workers.api.services import Given

router = json_router("simulate.operations", prefix="/v1/sessions", tags=["simulations"])

UNPROCESSABLE = 422


class SimulationBody(BaseModel):
    """What to simulate, and under which policy; without one everything outside is forbidden."""

    model_config = ConfigDict(extra="forbid")

    intent: PublicIntent | None = None
    envelope: dict[str, Any] | None = None
    policy: SimulationExternalEffectPolicy = ALL_FORBIDDEN
    retention: Retention = "ephemeral"
    simulation_key: Annotated[str, StringConstraints(min_length=1, max_length=400)] | None = Field(
        default=None
    )
    """The asker's own name for this asking; the same again gets the first answer."""

    @model_validator(mode="after")
    def _one_operation(self) -> Self:
        if (self.intent is None) == (self.envelope is None):
            raise ValueError("either an intent or an envelope")
        return self


@router.post("/{session_id}/simulations")
async def simulate(
    session_id: UUID, body: SimulationBody, request: Request, services: Given
) -> SimulationDocument | Response:
    """Say what an operation would come to; nothing of it happens, having asked is recorded."""
    if body.envelope is not None:
        await check_envelope_size(body.envelope, len(await request.body()))
    operation = body.envelope if body.intent is None else body.intent
    message = Simulate(operation or {}, body.policy, body.retention, body.simulation_key)
    result = await services.sessions.ask(str(session_id), message)
    if not isinstance(result, SimulationResult):
        raise result
    await services.expect_readable(result.document())
    if result.outcome == "previewed":
        return result.document()
    code, text = _why(result)
    response = respond(code, text, result.document())
    response.status_code = UNPROCESSABLE
    return response


def _why(result: SimulationResult) -> tuple[str, str]:
    """The code of a simulation without a preview, and what to tell a person."""
    if isinstance(result.submission, RejectedResult):
        rejection = result.submission.rejection
        return rejection.reason_code, rejection.message
    if result.outcome == "not_supported":
        return "simulation_not_supported_for_operation_kind", str(result.reason)
    outside = ", ".join(violation.external_effect for violation in result.violations)
    return str(result.reason), f"the policy does not allow {outside}"
