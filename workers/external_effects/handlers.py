"""Performs each kind of effect outside, by a table from canonical kind to function.

Performing twice is performing once: a file that is there with its content is done, a token that
was issued for the same operation and effect is the token.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import orjson

from kernel.values.canonical import canonicalize, sha256_hex
from workers.external_effects.errors import ExternalEffectError
from workers.external_effects.event_file import EventFile
from workers.external_effects.requests import EffectRequest
from workers.external_effects.write_once_folder import OutsideFolder, WrittenFile

ARTIFACTS = "artifacts"
MATERIALIZED = "materialized"
SHARE_LINKS = "share-links"
EVENTS = ("events", "materializations.jsonl")
TOKEN_BYTES = 32

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Outside:
    """The folders that effects go to, and what handlers need of the process."""

    folder: OutsideFolder
    events: EventFile
    random_bytes: Callable[[int], bytes]
    expect_owner: Callable[[], None]
    """Raises `ExternalEffectError` where another gateway performs effects by now."""


@dataclass(frozen=True, slots=True)
class Performed:
    """The file, event or token that exists outside now."""

    written: tuple[WrittenFile, ...]
    token_sha256: str | None = None


def write_artifact(request: EffectRequest, outside: Outside) -> Performed:
    """Write content under its hash (§4.3.4)."""
    payload = request.payload
    place = (ARTIFACTS, payload["source_artifact_kind"], payload["content_hash"])
    return Performed((_write_file(request, outside, place),))


def emit_materialization(request: EffectRequest, outside: Outside) -> Performed:
    """Write a file under its path, then append its event (§4.3.11)."""
    place = (MATERIALIZED, *request.payload["materialized_path"].split("/"))
    written = _write_file(request, outside, place)
    event = {
        "request_id": request.request_id,
        "operation_id": request.document["operation_id"],
        "effect_id": request.document["effect_id"],
        "effect_kind": request.document["effect_kind"],
        "target_ref": request.target_ref,
        "path": written.path,
        "content_hash": written.sha256,
        "size_bytes": written.size_bytes,
        "decided_at": request.document["enqueued_at"],
    }
    line = outside.events.append(request.request_id, canonicalize(event), outside.expect_owner)
    return Performed((written, line))


def issue_token(request: EffectRequest, outside: Outside) -> Performed:
    """Leave a token for delivery; only its hash goes further (§4.3.9)."""
    if not request.link_stands:
        raise ExternalEffectError("share_link_revoked", "the link was revoked before")
    if request.held_back is not None:
        raise _stays(request.held_back)
    place = (SHARE_LINKS, f"{_file_name(request.target_ref)}.json")
    names = {
        "share_link_id": request.target_ref,
        "operation_id": request.document["operation_id"],
        "effect_id": request.document["effect_id"],
        "recipient_email_hash": request.payload["recipient_email_hash"],
    }
    content = outside.folder.read(place)
    if content is None:
        random = outside.random_bytes(TOKEN_BYTES)
        token = base64.urlsafe_b64encode(random).rstrip(b"=").decode()
        content = canonicalize({**names, "token": token})
    token = _token_of(content, names)
    written = outside.folder.write(place, content)
    return Performed((written,), sha256_hex(token.encode()))


HANDLERS: Mapping[str, Callable[[EffectRequest, Outside], Performed]] = MappingProxyType(
    {
        "document_artifact_write": write_artifact,
        "materialization_emit": emit_materialization,
        "share_link_grant": issue_token,
    }
)


def _write_file(request: EffectRequest, outside: Outside, place: tuple[str, ...]) -> WrittenFile:
    if request.content is None:
        code = "external_content_not_on_record"
        raise ExternalEffectError(code, "the record does not hold the content")
    # What an earlier process has written is outside already, and is reported as it is.
    if request.held_back is not None and outside.folder.read(place) != request.content:
        raise _stays(request.held_back)
    return outside.folder.write(place, request.content)


def _stays(code: str) -> ExternalEffectError:
    return ExternalEffectError(code, "what it was made of may not leave")


def _token_of(content: bytes, names: Mapping[str, str]) -> str:
    """The token in a file, which has to be this effect's."""
    try:
        document = orjson.loads(content)
        token, stated = document["token"], {name: document[name] for name in names}
    except (ValueError, KeyError, TypeError):
        token, stated = None, {}
    if not isinstance(token, str) or stated != dict(names):
        raise ExternalEffectError("external_path_occupied", "the file is another effect's")
    return token


def _file_name(name: str) -> str:
    """A name that is safe as it is, or its digest."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    return f"sha256-{hashlib.sha256(name.encode()).hexdigest()}"
