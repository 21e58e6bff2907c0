"""Encodes messages to another gateway as bytes, and decodes the answers on their way back.

A message is an object of its kind and its fields: a field whose declared type has a form of its own
is written and read in that, every other field as it is. The JSON is Python's, because a caller's
value may hold what stricter readers refuse (a lone surrogate, NaN, an integer beyond 64 bits) and
has to arrive unchanged; nothing that is read is ever executed. Gateways of one ledger run the same
release. An entry that cannot be decoded is deleted, and its caller asks again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import anyio.to_thread
from pydantic import Field, TypeAdapter

from actors.forwarding.reply_codec import decode, encode
from actors.messages import (
    Audit,
    Declare,
    DeclareConclusion,
    Eliminate,
    EndAuditSession,
    EnterObligation,
    FinalizeMerkle,
    Message,
    Operate,
    Query,
    Recomputed,
    RecordThought,
    Reports,
    RequestExit,
    RequestTermination,
    Simulate,
    StartAuditSession,
    SubmitEnvelope,
    Succeed,
    VerifyThoughtChain,
)
from actors.orchestrator.intents import (
    Intent,
    PublicIntent,
    RecalculateAuthority,
    SynthesizedUnderstanding,
)
from kernel.belief.terms import OntologyBundle, SessionPolicy
from kernel.model.simulation import SimulationExternalEffectPolicy
from kernel.transaction.checks.schema import too_many_entries
from kernel.values.fleet_protocol import PROTOCOL
from kernel.values.json_text import SteppedDecoder, is_longer_than, write_in_steps
from kernel.work.reports import SuccessfulAttempt, WorkReport

LONG_CHARS = 64 << 10
"""What is longer is written and read on a thread, and in steps."""

_DECODER = SteppedDecoder()
_AnyIntent = Annotated[
    PublicIntent | RecalculateAuthority | SynthesizedUnderstanding,
    Field(discriminator="intent_kind"),
]
"""Every intent that another gateway may forward."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who has forwarded a request: its id, the gateway that waits for the answer, its session."""

    ask_id: str
    gateway: str
    session_id: str


@dataclass(frozen=True, slots=True)
class ForwardedMessage(Asker):
    """A forwarded request."""

    message: Message


def to_bytes(value: Any) -> bytes:
    """Return a JSON value as bytes; bytes inside it are written as the text that they hold."""
    return write_in_steps(value, _write) if is_longer_than(value, LONG_CHARS) else _write(value)


def _write(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=bytes.decode)
    return text.encode("utf-8", "surrogatepass")


def from_bytes(content: bytes) -> Any:
    """Return the JSON value that bytes hold."""
    text = content.decode("utf-8", "surrogatepass")
    return _DECODER.decode_in_steps(text) if len(text) > LONG_CHARS else json.loads(text)


def is_long(message: Message) -> bool:
    """Tell whether writing a message down is nothing for the event loop."""
    values = [getattr(message, name) for name in _MESSAGES[type(message)]]
    models = chain.from_iterable(value for value in values if isinstance(value, tuple))
    inside = [model if isinstance(model, str) else vars(model) for model in models]
    return is_longer_than([*values, *inside], LONG_CHARS)


Result = TypeVar("Result")


async def aside(work: Callable[..., Result], *arguments: Any, is_long: bool) -> Result:
    """Do what writes or reads a message: here, or on a thread where it is long."""
    return await anyio.to_thread.run_sync(work, *arguments) if is_long else work(*arguments)


def encode_asking(asking: ForwardedMessage) -> bytes:
    """Return a forwarded request as bytes."""
    message = asking.message
    forms = _MESSAGES[type(message)]
    return to_bytes(
        {
            "protocol": PROTOCOL,
            "ask_id": asking.ask_id,
            "gateway": asking.gateway,
            "session_id": asking.session_id,
            "request_id": message.request_id,
            "principal": message.principal,
            "traceparents": message.traceparents,
            "kind": type(message).__name__,
            "fields": {name: form.write(getattr(message, name)) for name, form in forms.items()},
        }
    )


def decode_asking(content: bytes) -> Asker:
    """Return the forwarded request that bytes hold.

    Where a gateway of another version has written them, only who asks is returned.

    Raises:
        ValueError, KeyError, TypeError: when they hold none.
    """
    document = from_bytes(content)
    asker = (document["ask_id"], document["gateway"], document["session_id"])
    if document["protocol"] != PROTOCOL:
        return Asker(*asker)
    kind, values = _KINDS[document["kind"]], document["fields"]
    message = kind(**{name: form.read(values[name]) for name, form in _MESSAGES[kind].items()})
    message.request_id = document["request_id"]
    message.principal = document["principal"]
    message.traceparents = tuple(tuple(of_message) for of_message in document["traceparents"])
    return ForwardedMessage(*asker, message)


def encode_reply(ask_id: str, answer: Any, error: Exception | None = None) -> bytes:
    """Return an answer, or the error instead of it, as bytes."""
    return to_bytes([ask_id, encode(answer if error is None else error), error is not None])


def asker_of(content: bytes) -> str:
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


@dataclass(frozen=True, slots=True)
class _Form:
    """How values of one type are written as JSON and read again."""

    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value


def _validating_form(kind: Any, mode: Literal["json", "python"]) -> _Form:
    adapter = TypeAdapter(kind)
    return _Form(partial(adapter.dump_python, mode=mode), adapter.validate_python)


# Not in JSON mode, which would take null for infinity; a model's answer in it is text.
_INTENT = _validating_form(_AnyIntent, "python")
_INTENTS = _validating_form(tuple[_AnyIntent, ...], "python")


def _check_lengths(envelope: Any) -> Any:
    """Return an envelope after checking the length of its lists, as its sender did."""
    oversize = too_many_entries(envelope) if isinstance(envelope, dict) else None
    if oversize is not None:
        raise ValueError(oversize.message)
    return envelope


def _write_operation(operation: Any) -> dict[str, Any]:
    is_intent = isinstance(operation, Intent)
    return {"intent": _INTENT.write(operation)} if is_intent else {"envelope": operation}


def _read_operation(value: Any) -> Any:
    return _INTENT.read(value["intent"]) if "intent" in value else _check_lengths(value["envelope"])


_AS_IT_IS = _Form()
_FORMS: Mapping[Any, _Form] = MappingProxyType(
    {
        Sequence[str]: _Form(read=tuple),
        OntologyBundle: _Form(OntologyBundle.to_dict, lambda value: OntologyBundle(**value)),
        SessionPolicy: _Form(SessionPolicy.to_dict, lambda value: SessionPolicy(**value)),
        object: _Form(read=_check_lengths),
        Intent | dict[str, Any]: _Form(_write_operation, _read_operation),
        tuple[Intent, ...]: _INTENTS,
        tuple[RecalculateAuthority, ...]: _INTENTS,
        tuple[WorkReport, ...]: _validating_form(tuple[WorkReport, ...], "json"),
        SimulationExternalEffectPolicy: _validating_form(SimulationExternalEffectPolicy, "json"),
        SuccessfulAttempt | None: _validating_form(SuccessfulAttempt | None, "json"),
    }
)
"""The form of a message's field, by its declared type."""

_OF_JSON = frozenset({int, str, type(None), dict[str, Any], list[list[str]]})
"""Types whose values are JSON as they are; so is one of several literals, or of these."""


def _forms(kind: type[Message]) -> dict[str, _Form]:
    types = get_type_hints(kind, include_extras=True)
    return {field.name: _form_of(types[field.name]) for field in fields(kind) if field.init}


def _form_of(kind: Any) -> _Form:
    """Return the form of a declared type.

    Raises:
        TypeError: it has none, and its values are no JSON.
    """
    if kind in _FORMS:
        return _FORMS[kind]
    either = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    if not all(each in _OF_JSON or get_origin(each) is Literal for each in either):
        raise TypeError(f"a field of a message has no form: {kind}")
    return _AS_IT_IS


_MESSAGES: Mapping[type[Message], Mapping[str, _Form]] = MappingProxyType(
    {
        kind: _forms(kind)
        for kind in (
            Declare,
            Eliminate,
            EnterObligation,
            RequestExit,
            DeclareConclusion,
            RequestTermination,
            Succeed,
            Query,
            Audit,
            Operate,
            SubmitEnvelope,
            Simulate,
            Recomputed,
            Reports,
            StartAuditSession,
            RecordThought,
            VerifyThoughtChain,
            FinalizeMerkle,
            EndAuditSession,
        )
    }
)
"""Every message that another gateway may send, with the forms of its fields."""

_KINDS = {kind.__name__: kind for kind in _MESSAGES}
