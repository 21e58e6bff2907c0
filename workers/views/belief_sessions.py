"""Shows what the belief protocol answers over HTTP (seed 001 §2).

Routes do not pass their answers through these: listing a large universe once more would cost more
than the verb.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from kernel.belief.events import Verb
from kernel.belief.limits import MAX_HYPOTHESES, MAX_ID_CHARS
from workers.views.log_proofs import DurabilityDocument, EliminationProofDocument


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Ontology(_Document):
    """Which upstream models the hypotheses come from."""

    hypothesis_space_id: str
    hypothesis_version: str
    causal_graph_ref: str
    causal_graph_version: str


class Snapshot(_Document):
    """Where a session stands."""

    session_id: str
    ontology: Ontology
    survivors: list[str] | None = None
    """Sorted; the first ones only where `survivors` bounds them, absent in a minimal answer."""

    n_survivors: Annotated[int, Field(ge=0, le=MAX_HYPOTHESES)]
    entropy_proxy: Annotated[float, Field(ge=0, le=MAX_HYPOTHESES.bit_length())]
    """log2(n_survivors), 0 for none or one."""

    terminated: bool
    active_obligation_id: str | None
    audit_head_event_id: str
    """What `If-Match` is compared with."""

    predecessor_id: str | None = None
    """The session that this one goes on from; absent where there is none."""

    successor_id: str | None = None
    """The session that goes on from this one, which is closed; absent while it is open."""


class Declared(_Document):
    """A session that was declared, now or before."""

    session_id: str
    snapshot: Snapshot


class Eliminated(_Document):
    """What an elimination did when it was first received."""

    applied_eliminated: list[str]
    ignored_eliminated: list[str]
    audit_event_id: str
    duplicate: bool
    snapshot: Snapshot
    elimination_proof: EliminationProofDocument | None = None
    """Where `Prefer: proof` asks for it; absent where the anchoring envelope was erased."""

    durability: DurabilityDocument | None = None
    """Where `Prefer: durability=witnessed` asks for it."""


class Entered(_Document):
    """An obligation that is open now."""

    audit_event_id: str
    snapshot: Snapshot


class Observation(_Document):
    """What an elimination is known by."""

    source_id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
    observation_id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]


class Succeeded(_Document):
    """A session that is closed, and the one that goes on from it."""

    successor_id: str
    carried: list[Observation]
    """The eliminations that hold on in the successor, in their order."""

    audit_event_id: str
    duplicate: bool
    snapshot: Snapshot
    """The session that is closed."""


class Approval(_Document):
    """Whether an exit or a termination was approved; both answers are on the record."""

    approved: bool
    reason: str
    audit_event_id: str
    snapshot: Snapshot


class Acceptance(_Document):
    """Whether a conclusion was accepted; both answers are on the record."""

    accepted: bool
    reason: str
    audit_event_id: str
    snapshot: Snapshot


class Delta(_Document):
    """What an entry removed."""

    eliminated: list[str]


class AuditEntry(_Document):
    """One entry of the trail; its hash covers every other field (RFC 8785)."""

    event_id: str
    session_id: str
    ts: str
    verb: Verb
    payload: dict[str, Any]
    delta: Delta
    survivors_before_hash: str
    survivors_after_hash: str
    prev_event_hash: str
    event_hash: str = Field(min_length=64, max_length=64)


class AuditPage(_Document):
    """Entries in order."""

    events: list[AuditEntry]
    next_since_event_id: str | None
    """Where the next page begins; null when there was no more."""
