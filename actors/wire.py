"""Messages and answers as bytes, for gateways of the same release that share a ledger.

JSON, written and read by hand-kept tables; nothing that is read is ever executed. It is Python's
JSON, because what a caller has sent may hold what stricter ones refuse (a lone surrogate, NaN, an
integer beyond 64 bits), and has to arrive as it was. What JSON has no form for is an object that
names its kind under `$`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from actors.errors import (
    ActorError,
    ActorFailed,
    CommitFailed,
    IntentInvalid,
    MailboxFull,
    ReplyLost,
    RuntimeFull,
    SessionCorrupt,
    StaleEpoch,
)
from actors.intents import (
    AdaptFields,
    CreateClaim,
    CreateSource,
    Intent,
    LinkInput,
    RecalculateAuthority,
    SynthesizedUnderstanding,
    SynthesizeUnderstanding,
)
from actors.messages import (
    Audit,
    Declare,
    Eliminate,
    Message,
    Operate,
    Query,
    Recomputed,
    Simulate,
    SubmitEnvelope,
)
from kernel.belief.errors import BeliefError
from kernel.belief.terms import OntologyBundle, SessionPolicy
from kernel.errors import KernelError
from kernel.model.result import RejectedResult, Rejection, SubmissionResult
from kernel.model.simulation import (
    ExternalEffectViolation,
    SimulationExternalEffectPolicy,
    SimulationPreview,
)
from kernel.model.simulation_payloads import PREVIEW_PAYLOADS
from kernel.simulate.operation import SimulationResult

_INTENT: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        CreateSource
        | SynthesizeUnderstanding
        | CreateClaim
        | LinkInput
        | AdaptFields
        | RecalculateAuthority
        | SynthesizedUnderstanding,
        Field(discriminator="intent_kind"),
    ]
)
"""What a session can be asked for from elsewhere."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A message on its way to the gateway that owns the session, and where its answer goes."""

    ask_id: str
    gateway: str
    session_id: str
    message: Message


def to_bytes(value: Any) -> bytes:
    """Return the bytes of a JSON value, in which bytes stand as the text that they hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=bytes.decode)
    return text.encode("utf-8", "surrogatepass")


def from_bytes(content: bytes) -> Any:
    """Return the JSON value that bytes hold."""
    return json.loads(content.decode("utf-8", "surrogatepass"))


def encode_asking(asking: Asking) -> bytes:
    """Return an asking as bytes."""
    kind = type(asking.message)
    return to_bytes(
        {
            "ask_id": asking.ask_id,
            "gateway": asking.gateway,
            "session_id": asking.session_id,
            "request_id": asking.message.request_id,
            "kind": kind.__name__,
            "fields": _MESSAGES[kind][0](asking.message),
        }
    )


def decode_asking(content: bytes) -> Asking:
    """Return the asking that bytes hold.

    Raises:
        ValueError, KeyError, TypeError: when they hold none.
    """
    document = from_bytes(content)
    message = _READERS[document["kind"]](document["fields"])
    message.request_id = document["request_id"]
    return Asking(document["ask_id"], document["gateway"], document["session_id"], message)


def encode_reply(ask_id: str, answer: Any, error: Exception | None = None) -> bytes:
    """Return an answer, or the error in its place, as bytes."""
    return to_bytes([ask_id, encode(answer if error is None else error), error is not None])


def decode_reply(content: bytes) -> tuple[str, Any, Exception | None]:
    """Return whose answer bytes hold, the answer, and the error in its place."""
    ask_id, value, failed = from_bytes(content)
    answer = decode(value)
    return (ask_id, None, answer) if failed else (ask_id, answer, None)


def encode(value: Any) -> Any:
    """Return the JSON form of what a session answers."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return [encode(one) for one in value]
    if isinstance(value, Mapping):
        items = {name: encode(one) for name, one in value.items()}
        return {"$": "dict", "items": items} if "$" in items else items
    for kind, (name, write, _) in _ANSWERS.items():
        if isinstance(value, kind):
            return {"$": name, **write(value)}
    raise TypeError(f"no form for {type(value).__name__}")


def decode(value: Any) -> Any:
    """Return what `encode` was given."""
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        return _ANSWER_READERS[value["$"]](value)
    return {name: decode(one) for name, one in value.items()}


def _intents(intents: tuple[Intent, ...]) -> list[Any]:
    # Not in JSON mode, which would take null for infinity; a model's answer in it is text.
    return [one.model_dump() for one in intents]


def _read_intents(documents: list[Any]) -> tuple[Any, ...]:
    return tuple(_INTENT.validate_python(one) for one in documents)


def _declared(message: Declare) -> Any:
    return {
        "ontology": message.ontology.to_dict(),
        "hypotheses": list(message.hypotheses),
        "policy": message.policy.to_dict(),
        "metadata": message.metadata,
    }


def _read_declared(given: Any) -> Declare:
    ontology, policy = OntologyBundle(**given["ontology"]), SessionPolicy(**given["policy"])
    return Declare(ontology, tuple(given["hypotheses"]), policy, given["metadata"])


def _eliminated(message: Eliminate) -> Any:
    return [
        message.source_id,
        message.observation_id,
        list(message.eliminated),
        message.justification,
        message.expected_head,
    ]


def _read_eliminated(given: Any) -> Eliminate:
    source_id, observation_id, eliminated, *rest = given
    return Eliminate(source_id, observation_id, tuple(eliminated), *rest)


def _simulated(message: Simulate) -> Any:
    operation = message.operation
    is_intent = isinstance(operation, Intent)
    return {
        "intent": operation.model_dump() if isinstance(operation, Intent) else None,
        "envelope": None if is_intent else operation,
        "policy": message.policy.model_dump(mode="json"),
        "retention": message.retention,
        "simulation_key": message.simulation_key,
    }


def _read_simulated(given: Any) -> Simulate:
    intent = given["intent"]
    return Simulate(
        given["envelope"] if intent is None else _INTENT.validate_python(intent),
        SimulationExternalEffectPolicy.model_validate(given["policy"]),
        given["retention"],
        given["simulation_key"],
    )


_MESSAGES: Mapping[type[Message], tuple[Callable[[Any], Any], Callable[[Any], Message]]] = (
    MappingProxyType(
        {
            Declare: (_declared, _read_declared),
            Eliminate: (_eliminated, _read_eliminated),
            Query: (lambda _: None, lambda _: Query()),
            Audit: (lambda message: message.since_event_id, Audit),
            Operate: (
                lambda message: _intents(message.intents),
                lambda given: Operate(_read_intents(given)),
            ),
            SubmitEnvelope: (lambda message: message.document, SubmitEnvelope),
            Simulate: (_simulated, _read_simulated),
            Recomputed: (
                lambda message: _intents(message.intents),
                lambda given: Recomputed(_read_intents(given)),
            ),
        }
    )
)
"""By kind of message: to JSON and back."""

_READERS = {kind.__name__: read for kind, (_, read) in _MESSAGES.items()}


def _submission(result: SubmissionResult) -> dict[str, Any]:
    return {"document": result.document(), "duplicate": result.duplicate}


def _read_submission(given: Any) -> SubmissionResult:
    return replace(SubmissionResult.from_document(given["document"]), duplicate=given["duplicate"])


def _rejected(result: RejectedResult) -> dict[str, Any]:
    return {
        "operation_id": result.operation_id,
        "rejection": asdict(result.rejection),
        "receipt_id": result.receipt_id,
    }


def _read_rejected(given: Any) -> RejectedResult:
    return RejectedResult(
        given["operation_id"], Rejection(**given["rejection"]), given["receipt_id"]
    )


def _simulation(result: SimulationResult) -> dict[str, Any]:
    return {
        "outcome": result.outcome,
        "preview": None if result.preview is None else result.preview.model_dump(mode="json"),
        "submission": encode(result.submission),
        "receipt_id": result.receipt_id,
        "reason": result.reason,
        "violations": [one.model_dump(mode="json") for one in result.violations],
    }


def _read_simulation(given: Any) -> SimulationResult:
    return SimulationResult(
        given["outcome"],
        _read_preview(given["preview"]),
        decode(given["submission"]),
        given["receipt_id"],
        given["reason"],
        tuple(ExternalEffectViolation.model_validate(one) for one in given["violations"]),
    )


def _read_preview(given: Any) -> SimulationPreview | None:
    if given is None:
        return None
    state = given["preview_state"]
    payload = PREVIEW_PAYLOADS[state["preview_kind"]].model_validate(state["preview_payload"])
    stated = {**given, "preview_state": {**state, "preview_payload": payload}}
    return SimulationPreview.model_validate(stated)


_ERRORS: Mapping[str, type[ActorError]] = MappingProxyType(
    {
        kind.code: kind
        for kind in (
            ActorFailed,
            CommitFailed,
            MailboxFull,
            ReplyLost,
            RuntimeFull,
            SessionCorrupt,
            StaleEpoch,
        )
    }
)
"""Errors that are made of a message and details alone."""


def _actor_error(error: ActorError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": str(error),
        "details": encode(error.details),
        "retryable": error.retryable,
    }


def _read_actor_error(given: Any) -> ActorError:
    code, message, details = given["code"], given["message"], decode(given["details"])
    if code == IntentInvalid.code:
        return IntentInvalid(message, details["field"])
    if code in _ERRORS:
        return _ERRORS[code](message, details)
    error = ActorError(message, details)
    error.code, error.retryable = code, given["retryable"]
    return error


def _read_belief_error(given: Any) -> BeliefError:
    return BeliefError(given["code"], given["message"], decode(given["details"]))


_ANSWERS: Mapping[type[Any], tuple[str, Callable[[Any], dict[str, Any]], Callable[[Any], Any]]] = (
    MappingProxyType(
        {
            tuple: (
                "tuple",
                lambda value: {"items": [encode(one) for one in value]},
                lambda given: tuple(decode(one) for one in given["items"]),
            ),
            SubmissionResult: ("submission", _submission, _read_submission),
            RejectedResult: ("rejected", _rejected, _read_rejected),
            SimulationResult: ("simulation", _simulation, _read_simulation),
            BeliefError: (
                "belief_error",
                lambda error: {
                    "code": error.code,
                    "message": error.message,
                    "details": encode(error.details),
                },
                _read_belief_error,
            ),
            ActorError: ("actor_error", _actor_error, _read_actor_error),
            KernelError: (
                "kernel_error",
                lambda error: {"code": error.code, "message": str(error)},
                lambda given: KernelError(given["message"], code=given["code"]),
            ),
            # Whatever else went wrong there is a defect here as it is there.
            Exception: (
                "error",
                lambda error: {"message": repr(error)},
                lambda given: RuntimeError(given["message"]),
            ),
        }
    )
)
"""By kind of answer, the particular before the general: its name, to JSON and back."""

_ANSWER_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "dict": lambda given: {name: decode(one) for name, one in given["items"].items()},
        **{name: read for name, _, read in _ANSWERS.values()},
    }
)
