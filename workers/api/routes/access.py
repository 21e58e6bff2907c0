"""Serves who may do what: grants and keys, each change an operation on the record."""

from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from kernel.records.access.actions import EVERYTHING, SCOPE, SCOPE_CHARS_MAX, Grant, Role
from kernel.records.access.clearance import Clearance
from kernel.records.access.errors import AccessRefused
from kernel.records.access.principals import KEY_HOLDER, PRINCIPAL, PRINCIPAL_CHARS_MAX
from kernel.records.access.records import (
    KEY_DAYS_MAX,
    REASON_CHARS_MAX,
    AccessDecision,
    access_record,
)
from kernel.values.host import iso_time
from workers.api.json_routes import RecordId, json_router
from workers.api.routes.work_requests import requester_of
from workers.api.services import Given, Services
from workers.questions.fields import NO_NUL
from workers.use_cases.access import AccessChanges, NewKey, caller_of, does

GRANTS_AT_ONCE = 16

router = json_router("manage.access", prefix="/v1/access", tags=["access"])

PrincipalName = Annotated[str, Field(max_length=PRINCIPAL_CHARS_MAX, pattern=f"^{PRINCIPAL}$")]
KeyHolder = Annotated[str, Field(max_length=PRINCIPAL_CHARS_MAX, pattern=f"^{KEY_HOLDER}$")]
ScopeName = Annotated[str, Field(max_length=SCOPE_CHARS_MAX, pattern=rf"^(\*|{SCOPE})$")]
Reason = Annotated[str, Field(max_length=REASON_CHARS_MAX, pattern=NO_NUL)]


class _Reasoned(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: Reason = ""
    """Why; it goes on the record."""


class RoleOf(BaseModel):
    """A role, and of what."""

    model_config = ConfigDict(extra="forbid")

    role: Role
    scope: ScopeName = EVERYTHING
    clearance: Clearance | None = None
    """Up to which visibility class its holder reads; that of the role where it is left out."""


class KeyBody(_Reasoned):
    """Whose key is made, the roles that come with it, and how long it stands."""

    principal: KeyHolder
    roles: Annotated[list[RoleOf], Field(max_length=GRANTS_AT_ONCE, fail_fast=True)] = []
    days: Annotated[int, Field(ge=1, le=KEY_DAYS_MAX, strict=True)] = 90


class DaysBody(_Reasoned):
    """How long the key stands that takes the place of another."""

    days: Annotated[int, Field(ge=1, le=KEY_DAYS_MAX, strict=True)] = 90


class GrantBody(_Reasoned, RoleOf):
    """Who is given a role, and of what."""

    principal: PrincipalName


class KeyDocument(TypedDict):
    """A key that was made; nobody sees it again."""

    key: str
    key_id: str
    principal: str
    expires_at: str


class RevokedDocument(TypedDict):
    """The keys that ended: the one that is named, and those of browsers that it opened."""

    revoked: list[str]


class GrantedDocument(TypedDict):
    """Whether anything changed."""

    changed: bool


class CallerDocument(TypedDict):
    """Who asks, and with which roles; nobody where access is open."""

    access: str
    principal: str | None
    roles: list[dict[str, str]]


@router.get("/caller", openapi_extra=does("public"))
async def whoami(services: Given, request: Request) -> CallerDocument:
    """Return who asks, and what they were granted."""
    caller = caller_of(request.scope)
    return {
        "access": "open" if services.door is None else "keys",
        "principal": None if caller is None else caller.principal,
        "roles": []
        if caller is None
        else [
            {"role": grant.role, "scope": grant.scope, "clearance": grant.reads_up_to}
            for grant in caller.grants
        ],
    }


@router.post("/keys", status_code=201)
async def create_key(body: KeyBody, services: Given, request: Request) -> KeyDocument:
    """Make a key and give its principal roles; the answer alone has the key."""
    grants = [_grant_of(body.principal, each) for each in body.roles]
    made = await _changes(services).create_key(
        body.principal, grants, body.days, _decision(request, body.reason)
    )
    return await _key_document(services, made)


@router.post("/keys/{key_id}/rotate", status_code=201)
async def rotate_key(
    key_id: RecordId, body: DaysBody, services: Given, request: Request
) -> KeyDocument:
    """Make a key in the place of another, which ends at once."""
    record = await services.read(access_record)
    principal = next((key.principal for key in record.keys if key.key_id == key_id), None)
    if principal is None:
        raise AccessRefused("access_key_unknown", f"no key that stands has the id {key_id!r}")
    decision = _decision(request, body.reason)
    made = await _changes(services).create_key(principal, (), body.days, decision, replaces=key_id)
    return await _key_document(services, made)


@router.post("/keys/{key_id}/revoke")
async def revoke_key(
    key_id: RecordId, body: _Reasoned, services: Given, request: Request
) -> RevokedDocument:
    """End a key before its time, and the logins that it opened; no gateway takes it after 5 s."""
    ended = await _changes(services).revoke_key(key_id, _decision(request, body.reason))
    await _refresh(services)
    return {"revoked": list(ended)}


@router.post("/grants")
async def grant(body: GrantBody, services: Given, request: Request) -> GrantedDocument:
    """Give a principal a role; again changes nothing."""
    return await _change(body, services, request, stands=True)


@router.post("/grants/withdraw")
async def withdraw(body: GrantBody, services: Given, request: Request) -> GrantedDocument:
    """End what a principal was given."""
    return await _change(body, services, request, stands=False)


async def _change(
    body: GrantBody, services: Services, request: Request, *, stands: bool
) -> GrantedDocument:
    granted = _grant_of(body.principal, body)
    decision = _decision(request, body.reason)
    changed = await _changes(services).change_grant(granted, decision, stands=stands)
    await _refresh(services)
    return {"changed": changed}


def _grant_of(principal: str, body: RoleOf) -> Grant:
    return Grant(principal, body.role, body.scope, body.clearance or "")


async def _key_document(services: Services, made: NewKey) -> KeyDocument:
    await _refresh(services)
    return {
        "key": str(made.key),
        "key_id": made.key.key_id,
        "principal": made.principal,
        "expires_at": iso_time(made.expires_at_us),
    }


def _changes(services: Services) -> AccessChanges:
    return AccessChanges(services.write, services.ledger.host)


async def _refresh(services: Services) -> None:
    if services.door is not None:
        await services.door.table.refresh()


def _decision(request: Request, reason: str) -> AccessDecision:
    return AccessDecision(requester_of(request, "")[:REASON_CHARS_MAX], reason)
