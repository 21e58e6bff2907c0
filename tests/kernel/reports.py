"""Effects that are to happen outside, and what the runtime says became of them."""

from typing import Any

from kernel.ledger.ledger import Ledger, Request
from kernel.records.external import EXTERNAL_QUEUE
from kernel.records.external_report import FAILED, PERFORMED
from kernel.values.canonical import sha256_hex
from tests.kernel.build import ABSENT, changed, code_of, effect, envelope, submit
from tests.kernel.every import HASH, own

TEXT = "It is so ordered.\n"
TEXT_HASH = sha256_hex(TEXT.encode())
TOKEN = "a-token-of-these-tests"  # noqa: S105 - made up here
PAYLOAD = "primitive_effects.0.payload"


def artifact(target: str, content: str | None = TEXT, **fields: Any) -> dict[str, Any]:
    stated = {} if content is None else {"content": content}
    hashed = TEXT_HASH if content is None else sha256_hex(content.encode())
    payload = {"source_artifact_kind": "pdf", "content_hash": hashed, **stated, **fields}
    return own("document_artifact_write", target, **payload)


def emission(target: str, path: str, content: str = TEXT) -> dict[str, Any]:
    hashed = sha256_hex(content.encode())
    return own(
        "materialization_emit",
        target,
        materialized_path=path,
        content_hash=hashed,
        content=content,
    )


def grant(target: str) -> dict[str, Any]:
    payload = {
        "recipient_email_hash": HASH,
        "shared_corpus_view_id": "view",
        "share_token_policy_id": "policy",
    }
    return own("share_link_grant", target, **payload)


def revoke(target: str) -> dict[str, Any]:
    return own("share_link_revoke", target, revocation_reason="left")


def asked_outside(ledger: Ledger, document: dict[str, Any]) -> Request:
    """Submit what asks for an effect outside and return its request."""
    result = submit(ledger, document)
    assert code_of(result) is None, result
    with ledger.view() as view:
        [*_, newest] = view.open_requests(queue=EXTERNAL_QUEUE)
    return newest


def report(request: Request, kind: str = PERFORMED, **fields: Any) -> dict[str, Any]:
    """The envelope of the runtime that answers a request; by default as it asks."""
    document = request.document
    stated: dict[str, Any] = {
        "request_id": request.request_id,
        "original_operation_id": document["operation_id"],
        "effect_id": document["effect_id"],
        "effect_kind": document["effect_kind"],
        "attempts": 1,
    }
    if kind == FAILED:
        stated["error_code"] = "external_storage_full"
    else:
        content_hash = document["payload"].get("content_hash", HASH)
        stated["written"] = [{"path": "a/b", "sha256": content_hash, "size_bytes": 3}]
        if document["effect_kind"] == "share_link_grant":
            stated |= {"token_sha256": sha256_hex(TOKEN.encode()), "recipient_email_hash": HASH}
    receipt = effect("receipt_only", **(stated | fields)) | {"receipt_subkind": kind}
    return envelope("external_effect_report", [receipt], actor="system")


def spoiled(request: Request, changes: dict[str, Any]) -> dict[str, Any]:
    return changed(report(request), changes)


ARTIFACT, LINK, CLOSED, AUTHORITY = "artifact", "link", "closed", "authority"

_MISMATCH = ("external_report_mismatch", "payload")
_FIRST = "primitive_effects.0"

REPORTS: list[tuple[str, str, tuple[str, dict[str, Any]]]] = [
    ("receipt_kind_unknown", "receipt_subkind", (ARTIFACT, {f"{_FIRST}.receipt_subkind": ABSENT})),
    (
        "receipt_kind_unknown",
        "receipt_subkind",
        (ARTIFACT, {f"{_FIRST}.receipt_subkind": "access_overlay_override"}),
    ),
    (
        "external_request_unknown",
        "payload.request_id",
        (ARTIFACT, {f"{PAYLOAD}.request_id": "request:99:nobody"}),
    ),
    ("external_request_unknown", "payload.request_id", (AUTHORITY, {})),
    ("external_request_closed", "payload.request_id", (CLOSED, {})),
    (*_MISMATCH, (ARTIFACT, {f"{PAYLOAD}.original_operation_id": "another"})),
    (*_MISMATCH, (ARTIFACT, {f"{PAYLOAD}.effect_id": "another"})),
    (*_MISMATCH, (ARTIFACT, {f"{PAYLOAD}.effect_kind": "share_link_grant"})),
    (*_MISMATCH, (ARTIFACT, {f"{PAYLOAD}.written.0.sha256": HASH})),
    (*_MISMATCH, (ARTIFACT, {f"{PAYLOAD}.token_sha256": HASH})),
    (*_MISMATCH, (LINK, {f"{PAYLOAD}.token_sha256": ABSENT})),
    (*_MISMATCH, (LINK, {f"{PAYLOAD}.recipient_email_hash": TEXT_HASH})),
    ("effect_payload_invalid", "payload.written", (ARTIFACT, {f"{PAYLOAD}.written": []})),
    ("effect_payload_invalid", "payload.written", (ARTIFACT, {f"{PAYLOAD}.written": ABSENT})),
    ("effect_payload_invalid", "payload.attempts", (ARTIFACT, {f"{PAYLOAD}.attempts": 0})),
]
"""Reports that are refused: the code, the field, and which request is answered with what."""
