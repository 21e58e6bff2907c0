"""Defines an access overlay: what it lies over, and which writes it permits (§12.2, §12.6).

An overlay is a node of the kind AccessOverlay whose payload is the overlay, or a field
`access_overlay` of any other node (§12.4). It has its node's id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from kernel.model.node_kinds import ACCESS_OVERLAY
from kernel.model.numbers import Length, Offset, SchemaVersion
from kernel.values.canonical import canonicalize
from kernel.values.spans import Span

Granularity = Literal[
    "source_span",
    "derived_memory",
    "filing_part",
    "artifact_segment",
    "filing_unit_version",
    "filing_unit",
    "document",
    "source_artifact",
    "corpus",
]
"""What an overlay can lie over, the most specific first."""

Restriction = Literal[
    "blocked",
    "redacted_only",
    "preview_only",
    "not_shareable",
    "explicit_access_required",
    "none",
]
"""What an overlay leaves, the most restrictive first."""

GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)

CEREMONY = "access_ceremony_required"
"""A restriction of a later version, refused by a code of its own (§12.4)."""

EMBEDDED = "access_overlay"
"""The field by which a node of another kind carries an overlay."""

FIELDS = frozenset(
    {"overlay_id", "target", "access_restriction", "redacted_access_policy", "access_grants"}
)
MAX_GRANTS = 1000

_LIFTED = frozenset({"retracted", "soft_deleted", "disabled"})
"""States of a node in which its overlay no longer holds."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class OverlayTarget(_Document):
    """What an overlay lies over; a stretch has an offset and a length, nothing else has."""

    target_kind: Granularity
    target_ref: Name
    offset: Offset | None = None
    length: Length | None = None

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        is_span = self.target_kind == "source_span"
        if (self.offset is not None, self.length is not None) != (is_span, is_span):
            raise ValueError("offset and length are those of a source_span, and of nothing else")
        return self

    @property
    def span(self) -> Span | None:
        """The stretch under the overlay, None where the target is a whole thing."""
        if self.offset is None or self.length is None:
            return None
        return Span(self.target_ref, self.offset, self.offset + self.length)

    @property
    def ref(self) -> str:
        """The target as a reference names it."""
        return self.target_ref if self.span is None else self.span.ref


class RedactedAccessPolicy(_Document):
    """Which redacted artifact stands for the one that is protected (§12.6)."""

    policy_id: Name
    redacted_artifact_ref: Name
    redaction_policy_ref: Name
    redaction_provenance_ref: Name
    underlying_artifact_ref: Name | None = None
    redaction_method: (
        Literal[
            "court_filed_redaction",
            "user_redaction",
            "automated_redaction",
            "third_party_redaction",
        ]
        | None
    ) = None
    schema_version: SchemaVersion = 1


class _Content(_Document):
    overlay_id: Name | None = None
    target: OverlayTarget
    access_restriction: Restriction
    redacted_access_policy: RedactedAccessPolicy | None = None
    access_grants: Annotated[tuple[Name, ...], Field(max_length=MAX_GRANTS, fail_fast=True)] = ()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.access_restriction == "redacted_only" and self.redacted_access_policy is None:
            raise ValueError("redacted_only comes with its redacted_access_policy")
        return self


@dataclass(frozen=True, slots=True)
class AccessOverlay:
    """An overlay in force."""

    overlay_id: str
    target: OverlayTarget
    restriction: Restriction
    grants: frozenset[str] = frozenset()
    """Who may write under `explicit_access_required`."""

    redacted_ref: str | None = None
    """What may be written under `redacted_only`."""

    @property
    def granularity(self) -> Granularity:
        """How specific the overlay is."""
        return self.target.target_kind


class OverlayInvalid(ValueError):
    """A payload is no overlay; `field` is where."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


def content_of(node_kind: object, payload: Mapping[str, Any]) -> object | None:
    """Return what a node states of its overlay, None where it has none.

    Raises:
        OverlayInvalid: for an overlay that carries another.
    """
    embedded = payload.get(EMBEDDED)
    if node_kind != ACCESS_OVERLAY:
        return embedded
    if embedded is not None:
        raise OverlayInvalid("an overlay carries no other overlay", EMBEDDED)
    return payload


def read_overlay(
    node_id: str, node_kind: object, payload: Mapping[str, Any]
) -> AccessOverlay | None:
    """Read a node's overlay, None where it has none.

    Raises:
        OverlayInvalid: when what it states is not an overlay.
    """
    stated = content_of(node_kind, payload)
    if stated is None:
        return None
    prefix = "" if node_kind == ACCESS_OVERLAY else EMBEDDED
    try:
        content = _Content.model_validate_json(canonicalize(stated))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = (prefix, *(str(part) for part in first["loc"]))
        raise OverlayInvalid(first["msg"], ".".join(part for part in place if part)) from None
    if content.overlay_id not in (None, node_id):
        raise OverlayInvalid(
            "an overlay has its node's id", f"{prefix}.overlay_id" if prefix else "overlay_id"
        )
    policy = content.redacted_access_policy
    return AccessOverlay(
        node_id,
        content.target,
        content.access_restriction,
        frozenset(content.access_grants),
        None if policy is None else policy.redacted_artifact_ref,
    )


def overlay_of(record: Mapping[str, Any]) -> AccessOverlay | None:
    """Return the overlay that a node's record puts in force, None where it puts none."""
    payload = record["payload"]
    if record["node_kind"] != ACCESS_OVERLAY and EMBEDDED not in payload:
        return None
    if record["state"] in _LIFTED:
        return None
    return read_overlay(record["node_id"], record["node_kind"], payload)
