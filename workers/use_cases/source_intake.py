"""Takes somebody else's JSON as a source: it becomes intents, its text wrapped.

A value, a webhook and a CloudEvent become the same: an artifact of a corpus, which the orchestrator
wraps as untrusted content (§10.3), with where it comes from as the fields by which bindings select
at intake (§13.3), and its media type as what the phase behind that found. Its id follows from who
sent it under which id, or from its bytes where nobody gave it one, so that sending it again changes
nothing (decision workers/0391).
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from actors.orchestrator.intents import MAX_TEXT_CHARS, CompletePhase, CreateSource, Intent
from kernel.model.bindings.selectors import VALUE_MAX
from kernel.values.errors import FieldRefused
from kernel.values.json_lines import printable_json

JSON_MEDIA_TYPE: Final = "application/json"
CLOUD_EVENT: Final = "application/cloudevents+json"
CLOUD_EVENTS: Final = "application/cloudevents-batch+json"
EVENTS_MAX: Final = 64
"""Events of one batch."""

ATTRIBUTES_MAX: Final = 32
ATTRIBUTE_CHARS_MAX: Final = 4_096
NEEDED: Final = ("specversion", "id", "source", "type")
SIGNED_WITHIN_S: Final = 300
"""How old a signed time may be, and how far ahead, as Standard Webhooks has it."""

_HUB = "x-hub-signature-256"
_PREFIX = "ce-"


class SourceRefused(FieldRefused):
    """What came in is no source: `cloud_event_invalid` or `source_too_large`."""


@dataclass(frozen=True, slots=True)
class ArrivedSource:
    """A text from outside, and what is said of it."""

    name: str
    """The name of who sends, or of the file: its corpus is `sources:NAME`."""

    source_kind: str
    identity: tuple[str, ...]
    """What tells it from every other of its name."""

    text: str
    source_id: str
    source_path: str
    media_type: str = JSON_MEDIA_TYPE
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def node_id(self) -> str:
        """The id of its node."""
        named = orjson.dumps([self.name, self.source_kind, *self.identity])
        return f"source:{hashlib.sha256(named).hexdigest()}"

    def intents(self) -> tuple[Intent, ...]:
        """Return what takes it onto the record and routes it.

        Raises:
            SourceRefused: it is longer than a text may be.
        """
        if len(self.text) > MAX_TEXT_CHARS:
            message = f"{len(self.text)} characters; allowed: {MAX_TEXT_CHARS}"
            raise SourceRefused("source_too_large", "text", message)
        node_id = self.node_id
        created = CreateSource(
            intent_key=node_id,
            node_id=node_id,
            corpus_id=f"sources:{self.name}",
            content_kind=self.source_kind,
            text=self.text,
            metadata=dict(self.metadata),
            visibility_class="work_product_internal",
            source_kind=self.source_kind,
            source_id=_selectable(self.source_id),
            source_path=_selectable(self.source_path),
        )
        media_type = _selectable(self.media_type)
        phase = CompletePhase(
            intent_key=f"{node_id}:media-type",
            artifact_ref=node_id,
            phase="post_doc25_conversion",
            fields={} if media_type is None else {"content_type": media_type},
        )
        return created, phase


def value_as_source(name: str, value: Any, text: str, source_id: str | None) -> ArrivedSource:
    """Return a JSON value of a file as a source: its text, or all of it where it states none."""
    identity = (source_id,) if source_id else (_digest(orjson.dumps(value)),)
    return ArrivedSource(name, "json", identity, text, source_id or name, name)


def webhook_as_source(name: str, headers: Mapping[str, str], body: bytes) -> ArrivedSource:
    """Return the body of a webhook as a source, all of it as its text."""
    event = next((headers[key] for key in sorted(headers) if key.endswith("-event")), "")
    stated = {"event": event, "webhook_id": headers.get("webhook-id", "")}
    return ArrivedSource(
        name,
        "webhook",
        (headers.get("webhook-id") or _digest(body),),
        body.decode(),
        name,
        f"{name}/{event}" if event else name,
        _media_type(headers),
        {key: value for key, value in stated.items() if value},
    )


def is_binary_event(headers: Mapping[str, str]) -> bool:
    """Tell whether the attributes of a CloudEvent stand in the headers (binary mode)."""
    return f"{_PREFIX}specversion" in headers


def binary_event_as_source(name: str, headers: Mapping[str, str], body: bytes) -> ArrivedSource:
    """Return a CloudEvent in binary mode as a source, its data as the text.

    Raises:
        SourceRefused: an attribute is missing or is none.
    """
    attributes = {
        key.removeprefix(_PREFIX): value
        for key, value in headers.items()
        if key.startswith(_PREFIX)
    }
    return _event(name, attributes, body.decode(), _media_type(headers))


def event_as_source(name: str, event: Any) -> ArrivedSource:
    """Return a CloudEvent in structured mode as a source, its data as the text.

    Raises:
        SourceRefused: it is no object, or an attribute is missing or is none.
    """
    if not isinstance(event, dict):
        raise _invalid("", f"a JSON {type(event).__name__}; allowed: an object")
    attributes = {key: event[key] for key in event if key not in {"data", "data_base64"}}
    media_type = event.get("datacontenttype", JSON_MEDIA_TYPE)
    data, encoded = event.get("data"), event.get("data_base64")
    if encoded is not None:
        text = _decode_base64(encoded)
    elif isinstance(data, str):
        text = data
    else:
        text = orjson.dumps(data).decode() if "data" in event else ""
    return _event(name, attributes, text, media_type if isinstance(media_type, str) else "")


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now_s: int) -> bool:
    """Tell whether a body was signed with a secret, in a time that does not depend on how far.

    By Standard Webhooks (`webhook-signature`, over the id, the time and the body; the time is near
    the gateway's), else as GitHub signs (`x-hub-signature-256`, over the body).
    """
    if "webhook-signature" in headers:
        stated_s = headers.get("webhook-timestamp", "")
        is_time = stated_s.isascii() and stated_s.isdecimal() and len(stated_s) <= 12
        if not is_time or abs(now_s - int(stated_s)) > SIGNED_WITHIN_S:
            return False
        head = f"{headers.get('webhook-id', '')}.{stated_s}.".encode()
        expected = hmac.digest(_key_of(secret), head + body, "sha256")
        wanted = f"v1,{base64.b64encode(expected).decode()}".encode()
        signatures = headers["webhook-signature"].split(" ")[:8]
        return any(hmac.compare_digest(each.encode(), wanted) for each in signatures)
    expected_hex = hmac.digest(secret.encode(), body, "sha256").hex()
    return hmac.compare_digest(headers.get(_HUB, "").encode(), f"sha256={expected_hex}".encode())


def _key_of(secret: str) -> bytes:
    """Return the key of a secret: what `whsec_` and base64 encode, else the secret itself."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        return secret.encode()


def _event(name: str, attributes: Mapping[str, Any], text: str, media_type: str) -> ArrivedSource:
    for key in NEEDED:
        value = attributes.get(key)
        if not isinstance(value, str) or not value:
            stated = printable_json(value) if key in attributes else "no such attribute"
            raise _invalid(key, f"{stated}; allowed: text that is not empty")
    if attributes["specversion"] != "1.0":
        raise _invalid("specversion", f"{printable_json(attributes['specversion'])}; allowed: 1.0")
    if len(attributes) > ATTRIBUTES_MAX:
        raise _invalid("", f"{len(attributes)} attributes; allowed: {ATTRIBUTES_MAX}")
    for key, value in attributes.items():
        is_long = isinstance(value, str) and len(value) > ATTRIBUTE_CHARS_MAX
        if is_long or not isinstance(value, str | int | bool | None) or len(key) > VALUE_MAX:
            allowed = f"text of at most {ATTRIBUTE_CHARS_MAX} characters, a number or a boolean"
            raise _invalid(key[:VALUE_MAX], f"{printable_json(value)}; allowed: {allowed}")
    subject = attributes.get("subject")
    path = (name, attributes["type"], *((subject,) if isinstance(subject, str) else ()))
    return ArrivedSource(
        name,
        "cloudevent",
        (attributes["source"], attributes["id"]),
        text,
        attributes["source"],
        "/".join(path),
        media_type,
        {key: value for key, value in attributes.items() if value is not None},
    )


def _decode_base64(encoded: Any) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (TypeError, ValueError):
        raise _invalid("data_base64", "allowed: UTF-8 text in base64") from None


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", JSON_MEDIA_TYPE).partition(";")[0].strip().lower()


def _selectable(value: str) -> str | None:
    return value if 0 < len(value) <= VALUE_MAX else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _invalid(key: str, message: str) -> SourceRefused:
    return SourceRefused("cloud_event_invalid", key, message)
