"""Encodes messages to another gateway as bytes, and decodes the answers on their way back.

The form is JSON, written and read by tables; nothing that is read is ever executed. It is Python's
JSON, because a caller's value may hold what stricter readers refuse (a lone surrogate, NaN, an
integer beyond 64 bits), and has to arrive unchanged. Gateways of one ledger run the same release.
An entry that cannot be decoded is deleted, and its caller asks again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from pydantic import Field, TypeAdapter

from actors.forwarding.reply_codec import decode, encode
from actors.messages import (
    Audit,
    Declare,
    DeclareConclusion,
    Eliminate,
    EnterObligation,
    Message,
    Operate,
    Query,
    Recomputed,
    Reports,
    RequestExit,
    RequestTermination,
    Simulate,
    SubmitEnvelope,
)
from actors.orchestrator.intents import (
    AdaptFields,
    CreateClaim,
    CreateSource,
    Intent,
    LinkInput,
    RecalculateAuthority,
    SynthesizedUnderstanding,
    SynthesizeUnderstanding,
)
from kernel.belief.terms import OntologyBundle, SessionPolicy
from kernel.checks.v01_sizes import too_many_entries
from kernel.json_text import SteppedDecoder, is_longer_than, written_in_steps
from kernel.model.simulation import SimulationExternalEffectPolicy
from kernel.work.reports import WorkReport

LONG_CHARS = 64 << 10
"""What is longer is written and read on a thread, and in steps."""

_DECODER = SteppedDecoder()
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
"""Every intent that another gateway may forward."""

_REPORT: TypeAdapter[Any] = TypeAdapter(WorkReport)


@dataclass(frozen=True, slots=True)
class ForwardedMessage:
    """A forwarded request: the message, its session, and the gateway that waits for the answer."""

    ask_id: str
    gateway: str
    session_id: str
    message: Message


def to_bytes(value: Any) -> bytes:
    """Return a JSON value as bytes; bytes inside it are written as the text that they hold."""
    return written_in_steps(value, _write) if is_longer_than(value, LONG_CHARS) else _write(value)


def _write(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=bytes.decode)
    return text.encode("utf-8", "surrogatepass")


def from_bytes(content: bytes) -> Any:
    """Return the JSON value that bytes hold."""
    text = content.decode("utf-8", "surrogatepass")
    return _DECODER.decode_in_steps(text) if len(text) > LONG_CHARS else json.loads(text)


def is_long(message: Message) -> bool:
    """Tell whether writing a message down is nothing for the event loop."""
    values = [getattr(message, field.name) for field in fields(message) if field.init]
    models = chain.from_iterable(value for value in values if isinstance(value, tuple))
    inside = [model if isinstance(model, str) else vars(model) for model in models]
    return is_longer_than([*values, *inside], LONG_CHARS)


Result = TypeVar("Result")


async def aside(work: Callable[..., Result], *given: Any, is_long: bool) -> Result:
    """Do what writes or reads a message: here, or on a thread where it is long."""
    return await anyio.to_thread.run_sync(work, *given) if is_long else work(*given)


def encode_asking(asking: ForwardedMessage) -> bytes:
    """Return a forwarded request as bytes."""
    kind = type(asking.message)
    return to_bytes(
        {
            "ask_id": asking.ask_id,
            "gateway": asking.gateway,
            "session_id": asking.session_id,
            "request_id": asking.message.request_id,
            "traceparents": asking.message.traceparents,
            "kind": kind.__name__,
            "fields": _MESSAGES[kind][0](asking.message),
        }
    )


def decode_asking(content: bytes) -> ForwardedMessage:
    """Return the forwarded request that bytes hold.

    Raises:
        ValueError, KeyError, TypeError: when they hold none.
    """
    document = from_bytes(content)
    message = _READERS[document["kind"]](document["fields"])
    message.request_id = document["request_id"]
    message.traceparents = tuple(tuple(each) for each in document["traceparents"])
    return ForwardedMessage(
        document["ask_id"], document["gateway"], document["session_id"], message
    )


def encode_reply(ask_id: str, answer: Any, error: Exception | None = None) -> bytes:
    """Return an answer, or the error instead of it, as bytes."""
    return to_bytes([ask_id, encode(answer if error is None else error), error is not None])


def asked_for(content: bytes) -> str:
    """Return whose answer bytes hold, without reading it.

    Raises:
        ValueError: they hold none.
    """
    if not content.startswith(b'["'):
        raise ValueError("no answer")
    return content[2 : content.index(b'"', 2)].decode()


def decode_reply(content: bytes) -> tuple[str, Any, Exception | None]:
    """Return the id of the request, its answer, and the error instead of one."""
    ask_id, value, failed = from_bytes(content)
    answer = decode(value)
    return (ask_id, None, answer) if failed else (ask_id, answer, None)


def _intents(intents: tuple[Intent, ...]) -> list[Any]:
    # Not in JSON mode, which would take null for infinity; a model's answer in it is text.
    return [intent.model_dump() for intent in intents]


def _read_intents(documents: list[Any]) -> tuple[Any, ...]:
    return tuple(_INTENT.validate_python(document) for document in documents)


def _declared(message: Declare) -> Any:
    return {
        "ontology": message.ontology.to_dict(),
        "hypotheses": message.hypotheses,
        "policy": message.policy.to_dict(),
        "metadata": message.metadata,
        "survivors_max": message.survivors_max,
    }


def _read_declared(given: Any) -> Declare:
    ontology, policy = OntologyBundle(**given["ontology"]), SessionPolicy(**given["policy"])
    hypotheses = tuple(given["hypotheses"])
    return Declare(ontology, hypotheses, policy, given["metadata"], given["survivors_max"])


def _named(message: Message) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in fields(message) if field.init}


def _read_eliminated(given: Any) -> Eliminate:
    return Eliminate(**{**given, "eliminated": tuple(given["eliminated"])})


def _sized(envelope: Any) -> Any:
    """Return an envelope after checking the length of its lists, as its sender did."""
    oversize = too_many_entries(envelope) if isinstance(envelope, dict) else None
    if oversize is not None:
        raise ValueError(oversize.message)
    return envelope


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
        _sized(given["envelope"]) if intent is None else _INTENT.validate_python(intent),
        SimulationExternalEffectPolicy.model_validate(given["policy"]),
        given["retention"],
        given["simulation_key"],
    )


_MESSAGES: Mapping[type[Message], tuple[Callable[[Any], Any], Callable[[Any], Message]]] = (
    MappingProxyType(
        {
            Declare: (_declared, _read_declared),
            Eliminate: (_named, _read_eliminated),
            EnterObligation: (_named, lambda given: EnterObligation(**given)),
            RequestExit: (_named, lambda given: RequestExit(**given)),
            DeclareConclusion: (_named, lambda given: DeclareConclusion(**given)),
            RequestTermination: (_named, lambda given: RequestTermination(**given)),
            Query: (_named, lambda given: Query(**given)),
            Audit: (_named, lambda given: Audit(**given)),
            Operate: (
                lambda message: _intents(message.intents),
                lambda given: Operate(_read_intents(given)),
            ),
            SubmitEnvelope: (
                lambda message: message.document,
                lambda given: SubmitEnvelope(_sized(given)),
            ),
            Simulate: (_simulated, _read_simulated),
            Recomputed: (
                lambda message: _intents(message.intents),
                lambda given: Recomputed(_read_intents(given)),
            ),
            Reports: (
                lambda message: [report.model_dump(mode="json") for report in message.reports],
                lambda given: Reports(tuple(_REPORT.validate_python(one) for one in given)),
            ),
        }
    )
)
"""The functions to JSON and back, by kind of message."""

_READERS = {kind.__name__: read for kind, (_, read) in _MESSAGES.items()}
