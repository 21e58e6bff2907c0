"""Resolves the content that an effect puts outside: text, base64, or held by a node.

Content is known by its SHA-256. It stays in the envelope's blob, which can be erased, or in the
record of its node; no other record repeats it. A node's content is its payload's `content` as it
stands there, its isolation markers included.
"""

import base64
import binascii
from typing import Annotated

import orjson
from pydantic import StringConstraints, model_validator

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import MAX_ENVELOPE_BYTES, KernelEffect
from kernel.records.record import Operation
from kernel.records.typed import Key, Payload, Sha256, check_reference
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.values.errors import EffectInapplicable

_STATED = ("content", "content_base64")
_Long = Annotated[str, StringConstraints(max_length=MAX_ENVELOPE_BYTES)]


class Emitted(Payload):
    """An effect's statement of content that is to exist outside."""

    content_hash: Sha256
    content: _Long | None = None
    content_base64: _Long | None = None
    content_node_ref: Key | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "Emitted":
        stated = (self.content, self.content_base64, self.content_node_ref)
        if sum(place is not None for place in stated) > 1:
            raise ValueError("content comes from one place")
        return self


def check_content(emitted: Emitted, operation: Operation) -> Document:
    """Return where the content is held, for the request; refuse content of another hash.

    Raises:
        EffectInapplicable: `content_hash_mismatch`, `effect_payload_invalid` or
            `record_reference_missing`.
    """
    if emitted.content_node_ref is not None:
        place = "payload.content_node_ref"
        check_reference(operation, schema.nodes, emitted.content_node_ref, place)
        node = operation.transaction.node(emitted.content_node_ref) or {}
        _check_hash(_of_node(node), emitted.content_hash, place)
        return {
            "content_node_ref": emitted.content_node_ref,
            "content_record_hash": sha256_hex(canonicalize(node)),
        }
    for name in _STATED:
        value = getattr(emitted, name)
        if value is not None:
            place = f"payload.{name}"
            _check_hash(_decode_base64(name, value), emitted.content_hash, place)
    return {}


def without_content(effect: KernelEffect) -> KernelEffect:
    """Return an effect as its record keeps it."""
    payload = {name: value for name, value in effect.payload.items() if name not in _STATED}
    return effect.model_copy(update={"payload": payload})


def recorded_content(view: LedgerView, request: Document) -> bytes | None:
    """Return the content that a request asks for, or None where the record does not hold it."""
    payload = request["payload"]
    if "content_node_ref" in payload:
        content = _content_of_node(view, payload)
    else:
        content = _content_of_envelope(view, request)
    if content is None or sha256_hex(content) != payload["content_hash"]:
        return None
    return content


def _content_of_node(view: LedgerView, payload: Document) -> bytes | None:
    """Return the node as of the effect's decision: its newest record, or a kept state."""
    row = view.tables.get(schema.nodes, payload["content_node_ref"])
    if row is not None and sha256_hex(row["record"]) == payload["content_record_hash"]:
        return _of_node(orjson.loads(row["record"]))
    pre_image = view.pre_image(payload["content_record_hash"])
    return None if pre_image is None else _of_node(orjson.loads(pre_image))


def _content_of_envelope(view: LedgerView, request: Document) -> bytes | None:
    envelope = view.envelope(request["operation_id"])
    for effect in () if envelope is None else envelope["primitive_effects"]:
        if effect["effect_id"] == request["effect_id"]:
            for name in _STATED:
                if effect["payload"].get(name) is not None:
                    return _decode_base64(name, effect["payload"][name])
    return None


def _of_node(node: Document) -> bytes | None:
    content = node.get("payload", {}).get("content")
    return content.encode() if isinstance(content, str) else None


def _decode_base64(name: str, value: str) -> bytes:
    if name == "content":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise EffectInapplicable(
            "not base64", code="effect_payload_invalid", field=f"payload.{name}"
        ) from None


def _check_hash(content: bytes | None, content_hash: str, place: str) -> None:
    if content is None or sha256_hex(content) != content_hash:
        raise EffectInapplicable(
            "the content does not hash to content_hash", code="content_hash_mismatch", field=place
        )
