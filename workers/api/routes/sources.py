"""Takes events of others: CloudEvents and webhooks become sources, which bindings meet.

Any JSON is taken, and is data and never an instruction: its text is wrapped as untrusted. If
`ROTULUS_WEBHOOK_SECRET` is set, a body that is not signed with it is refused before it is read.
"""

from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import ValidationError

from actors.commit.units import IntentUnit
from actors.errors import IntentInvalid
from actors.messages import PRINCIPAL
from actors.orchestrator.intents import Intent
from kernel.model.problems import first_problem
from kernel.model.result import RejectedResult
from workers.api.body_limits import limits_of
from workers.api.errors import ApiError, respond
from workers.api.json_bodies import read_json
from workers.api.json_routes import json_router
from workers.api.operation_results import (
    ResultsDocument,
    are_only_counted,
    count_only_response,
    results_document,
)
from workers.api.services import Given, Services
from workers.use_cases.source_intake import (
    ATTRIBUTE_CHARS_MAX,
    CLOUD_EVENT,
    CLOUD_EVENTS,
    EVENTS_MAX,
    NEEDED,
    ArrivedSource,
    SourceRefused,
    binary_event_as_source,
    event_as_source,
    is_binary_event,
    is_signed,
    webhook_as_source,
)

router = json_router("report.source", prefix="/v1/sources", tags=["sources"])

SourceName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]

_ATTRIBUTE = {"type": "string", "minLength": 1, "maxLength": ATTRIBUTE_CHARS_MAX}
_EVENT: dict[str, Any] = {
    "type": "object",
    "required": [*NEEDED],
    "properties": {
        **dict.fromkeys(NEEDED, _ATTRIBUTE),
        "specversion": {"type": "string", "enum": ["1.0"]},
        "data": {},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    },
}
"""A CloudEvent in structured mode; its other attributes are texts, integers and booleans."""

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            media_type: {"schema": schema}
            for media_type, schema in (
                ("application/json", {}),
                (CLOUD_EVENT, _EVENT),
                (
                    CLOUD_EVENTS,
                    {"type": "array", "minItems": 1, "maxItems": EVENTS_MAX, "items": _EVENT},
                ),
            )
        },
    }
}


class ArrivedDocument(ResultsDocument):
    """The sources that were taken, and the two results of each."""

    node_ids: list[str]
    """The id of each source, in order."""


@router.post("/{name}", openapi_extra=_BODY)
async def arrive(name: SourceName, request: Request, services: Given) -> ArrivedDocument | Response:
    """Take a webhook, a CloudEvent (structured, binary or a batch) or any other JSON as a source.

    Each has two results: that of its creation, and that of its media type. Sent again it is the
    same source.
    """
    body = await request.body()
    headers = {key.lower(): value for key, value in request.headers.items()}
    secret, now_s = services.webhook_secret, services.ledger.host.now_us() // 1_000_000
    if secret is not None and not is_signed(secret, headers, body, now_s):
        raise ApiError("webhook_unsigned", "the body is not signed with the secret of this gateway")
    try:
        arrived = await _sources_of(name, headers, body, limits_of(request.scope["path"]))
        intents = [intent for source in arrived for intent in source.intents()]
    except SourceRefused as refused:
        raise ApiError(refused.code, f"{refused.field}: {refused}".removeprefix(": ")) from None
    except ValidationError as error:
        field, message = first_problem(error)
        raise ApiError("INVALID_REQUEST", f"{field}: {message}") from None
    results = [await _carry_out(services, intent) for intent in intents]
    for result in results:
        if isinstance(result, RejectedResult) and result.receipt_id is not None:
            return _refusal(result)
    document = results_document(results)
    if are_only_counted(results):
        return count_only_response(document)
    return {**document, "node_ids": [source.node_id for source in arrived]}


async def _sources_of(
    name: str, headers: dict[str, str], body: bytes, limits: Any
) -> list[ArrivedSource]:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if is_binary_event(headers):
        if media_type.endswith("json"):
            await read_json(body, limits)
        return [binary_event_as_source(name, headers, _check_body(body))]
    value = await read_json(body, limits)
    if media_type == CLOUD_EVENT:
        return [event_as_source(name, value)]
    if media_type != CLOUD_EVENTS:
        return [webhook_as_source(name, headers, body)]
    if not isinstance(value, list) or not 0 < len(value) <= EVENTS_MAX:
        message = f"a batch is a list of 1 to {EVENTS_MAX} events"
        raise SourceRefused("cloud_event_invalid", "", message)
    return [event_as_source(name, event) for event in value]


def _check_body(body: bytes) -> bytes:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise ApiError("body_not_utf8", f"byte {error.start} is not UTF-8") from None
    return body


async def _carry_out(services: Services, intent: Intent) -> object:
    try:
        return await services.write(IntentUnit(intent, None, principal=PRINCIPAL.get()))
    except IntentInvalid as invalid:
        return invalid


def _refusal(result: RejectedResult) -> Response:
    """Return a refusal with a status by which who sends knows whether to send it again."""
    rejection = result.rejection
    response = respond(rejection.reason_code, rejection.message, result.document())
    if rejection.retry_after_s is not None:
        response.status_code = 429
        response.headers["Retry-After"] = str(rejection.retry_after_s)
    else:
        response.status_code = 422
    return response
