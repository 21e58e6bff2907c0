"""Plans the steps by which a client has a docket decided: the same docket, the same steps.

Every id is made from the docket's `source_id`, bounded where it is long, and the position of the
entry in it, so a second run addresses the same session and the same nodes. An `intent_key` also
carries the digest of the entry: a repeated step is recognised, and an entry that the court edited
keeps its node and is a new intent.

A docket has a line of sessions: where an entry undoes what was struck, the session is succeeded by
one that is named after the entry, and what is struck later is struck there.

A strike's justification holds the words that the rule matched, and where they stand, counted in
Unicode code points of the description as it was read. The words of a sealed entry are left out,
because a trail has no visibility class of its own.

A docket opens with its case and its caption. An entry and a caption are artifacts, of which every
phase is completed once what it is made of is on record (§13.3); a phase that finds other fields
than before is a new intent.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID, uuid5

from workers.dockets.claims import claim_of, visibility_class
from workers.dockets.course import DocketCourse, DocketStrike, Undoing
from workers.dockets.normalisation import (
    bound_name,
    by_phase,
    case_ref,
    normalise,
    normalise_caption,
)
from workers.dockets.postures import UNIVERSE_VERSION, posture_kind, universe
from workers.dockets.reader import Docket, DocketEntry
from workers.dockets.span import TextSpan

PRECEDING_ENTRY = "preceding_entry"
"""The field of an entry's metadata that names the entry that was filed before it."""

ENTRY, CAPTION = "docket_entry", "docket_caption"
"""The kinds of source that a docket is made of (`source_kind`)."""

SESSION_NAMESPACE = UUID("0b1f6a52-5f0e-5c1d-9a3e-6d6f636b6574")
DIGEST_CHARS_IN_KEY = 16


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """A stretch of a source's text: which source, and where in it."""

    source_ref: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Justification:
    """Why something is struck or undone: rule, reason, and the words of the entry that it read."""

    rule: str
    reason: str
    span: TextSpan
    source_node_id: str
    words: str | None
    """What the rule matched, word for word; None where the entry is sealed, whose span says it."""

    def document(self) -> dict[str, Any]:
        """Return the justification as the verb ELIMINATE carries it."""
        document: dict[str, Any] = {
            "rule": self.rule,
            "reason": self.reason,
            "source_node_id": self.source_node_id,
            "offset": self.span.offset,
            "length": self.span.length,
        }
        if self.words is not None:
            document["words"] = self.words
        return document


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """Open the session and declare what the case's posture can be."""

    intent_key: str
    session_id: UUID
    ontology: dict[str, str]
    hypotheses: tuple[str, ...]
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """Open the record of the docket's case."""

    intent_key: str
    case_ref: str


@dataclass(frozen=True, slots=True)
class PlannedCaption:
    """Put a docket's caption on record as a source."""

    intent_key: str
    node_id: str
    source_id: str
    source_path: str
    text: str
    case_name: str


@dataclass(frozen=True, slots=True)
class PlannedPhase:
    """Say what a phase of an artifact came to."""

    intent_key: str
    artifact_ref: str
    phase: str
    fields: dict[str, str]


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """Put an entry on record as a source."""

    intent_key: str
    node_id: str
    source_id: str
    source_path: str
    """The court, the case number and the position."""
    preceding_entry: str | None
    """The node of the entry that was filed before it; None of the first."""
    position: int
    date_filed: str
    """ISO 8601 date."""
    date_entered: str | None
    """ISO 8601 date and time, without a zone."""
    document_number: str | None
    pacer_seq_no: str | None
    description: str
    digest: str
    visibility_class: str
    understanding_node_id: str
    """The docket's understanding, which what is extracted from the entry feeds."""


@dataclass(frozen=True, slots=True)
class CreateUnderstanding:
    """Open the docket's understanding on the words of its first claim."""

    intent_key: str
    node_id: str
    source_spans: tuple[PlannedSpan, ...]


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """State what an entry says, within the docket's understanding."""

    intent_key: str
    node_id: str
    source_node_id: str
    understanding_node_id: str
    text: str
    essentiality: str
    authority: float
    span: TextSpan
    visibility_class: str


@dataclass(frozen=True, slots=True)
class Strike:
    """Eliminate postures on the ground of one entry and one rule."""

    intent_key: str
    source_id: str
    observation_id: str
    eliminated: tuple[str, ...]
    justification: Justification

    def body(self) -> dict[str, Any]:
        """Return the body of the request that sends it."""
        return {
            "source_id": self.source_id,
            "observation_id": self.observation_id,
            "eliminated": list(self.eliminated),
            "justification": self.justification.document(),
        }


@dataclass(frozen=True, slots=True)
class PlannedSuccession:
    """Close the session that strikes went to, and go on in a successor."""

    intent_key: str
    successor_id: UUID
    reason: str
    cause: Justification
    """The entry that undid what was struck, and the rule that reads it so."""
    undone: tuple[str, ...]
    """The observations that hold no more."""
    carried: tuple[tuple[str, str], ...]
    """Source and observation of each strike that holds on."""

    def body(self) -> dict[str, Any]:
        """Return the body of the request that sends it."""
        return {
            "successor_id": str(self.successor_id),
            "reason": self.reason,
            "carried": [
                {"source_id": source_id, "observation_id": observation_id}
                for source_id, observation_id in self.carried
            ],
            "cause": self.cause.document() | {"undone": list(self.undone)},
        }


Step = (
    PlannedCase
    | PlannedCaption
    | PlannedSource
    | CreateUnderstanding
    | PlannedClaim
    | PlannedPhase
    | PlannedSuccession
    | Strike
)


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """The steps for one entry, to be taken in this order."""

    position: int
    node_id: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class DocketPlan:
    """Everything a client posts for one docket: declaration, case, caption, entries as filed."""

    session_id: UUID
    declare: PlannedSession
    opening: tuple[Step, ...] = ()
    """The steps for the docket itself."""
    entries: tuple[EntryPlan, ...] = field(default=())

    def steps(self) -> Iterator[Step]:
        """Yield the steps of the docket and of all entries in order."""
        yield from self.opening
        for entry in self.entries:
            yield from entry.steps


def plan_docket(docket: Docket) -> DocketPlan:
    """Return the plan of a docket, its entries in order of filing."""
    kind = posture_kind(docket)
    session_id = uuid5(SESSION_NAMESPACE, docket.source_id)
    declare = PlannedSession(
        intent_key=f"declare:{docket.source_id}:{kind}@{UNIVERSE_VERSION}",
        session_id=session_id,
        ontology={
            "hypothesis_space_id": f"case-postures/{kind}",
            "hypothesis_version": UNIVERSE_VERSION,
            "causal_graph_ref": "none",
            "causal_graph_version": "0",
        },
        hypotheses=universe(kind),
        metadata={
            "source_id": docket.source_id,
            "docket_number": docket.docket_number,
            "court_id": docket.court_id,
            "case_name": docket.case_name,
        },
    )
    before = (None, *docket.entries)
    course = DocketCourse(kind)
    entries = tuple(
        _plan_entry(docket, course, entry, preceding)
        for entry, preceding in zip(docket.entries, before, strict=False)
    )
    return DocketPlan(session_id, declare, _plan_opening(docket), entries)


def _plan_opening(docket: Docket) -> tuple[Step, ...]:
    case, name = case_ref(docket.court_id, docket.docket_number), bound_name(docket.source_id)
    text = f"{docket.case_name}, {docket.docket_number} ({docket.court_id})"
    caption = PlannedCaption(
        intent_key=f"caption:{name}:{_digest(text)}",
        node_id=f"docket-caption:{name}",
        source_id=docket.source_id,
        source_path=f"{docket.court_id}/{docket.docket_number}/caption",
        text=text,
        case_name=docket.case_name,
    )
    phases = _phases(caption.node_id, caption.intent_key, normalise_caption(docket))
    return (PlannedCase(f"case:{_digest(case)}", case), caption, *phases)


def _plan_entry(
    docket: Docket, course: DocketCourse, entry: DocketEntry, preceding: DocketEntry | None
) -> EntryPlan:
    name = bound_name(docket.source_id)
    place = f"{name}#{entry.position}"
    source = _create_source(docket, entry, preceding)
    claim = _create_claim(name, place, entry)
    steps: list[Step] = [source]
    if preceding is None:
        spans = (PlannedSpan(source.node_id, claim.span.offset, claim.span.length),)
        key = _key("understanding", name, entry)
        steps.append(CreateUnderstanding(key, claim.understanding_node_id, spans))
    steps.append(claim)
    steps += _phases(source.node_id, _key("", place, entry), asdict(normalise(docket, entry)))
    steps += (
        _succession(name, act) if isinstance(act, Undoing) else _strike(name, act)
        for act in course.take(entry)
    )
    return EntryPlan(entry.position, source.node_id, tuple(steps))


def _phases(
    artifact_ref: str, version: str, fields: Mapping[str, str | None]
) -> Iterator[PlannedPhase]:
    for phase, values in by_phase(fields):
        key = f"{phase}:{version}:{_digest(repr(sorted(values.items())))}"
        yield PlannedPhase(key, artifact_ref, phase, values)


def _create_source(
    docket: Docket, entry: DocketEntry, preceding: DocketEntry | None
) -> PlannedSource:
    name = bound_name(docket.source_id)
    place = f"{name}#{entry.position}"
    after = "" if preceding is None else str(preceding.position)
    return PlannedSource(
        intent_key=_key(f"entry-after-{after}", place, entry),
        node_id=f"docket-entry:{place}",
        source_id=docket.source_id,
        source_path=f"{docket.court_id}/{docket.docket_number}/{entry.position}",
        preceding_entry=f"docket-entry:{name}#{after}" if after else None,
        position=entry.position,
        date_filed=entry.date_filed.isoformat(),
        date_entered=entry.date_entered.isoformat() if entry.date_entered else None,
        document_number=entry.document_number,
        pacer_seq_no=entry.pacer_seq_no,
        description=entry.description,
        digest=entry.digest,
        visibility_class=visibility_class(entry.description),
        understanding_node_id=_understanding(name),
    )


def _create_claim(name: str, place: str, entry: DocketEntry) -> PlannedClaim:
    claim = claim_of(entry.description)
    return PlannedClaim(
        intent_key=_key("claim", place, entry),
        node_id=f"claim:{place}",
        source_node_id=f"docket-entry:{place}",
        understanding_node_id=_understanding(name),
        text=claim.text,
        essentiality=claim.essentiality,
        authority=claim.authority,
        span=claim.span,
        visibility_class=visibility_class(entry.description),
    )


def _understanding(name: str) -> str:
    return f"understanding:{name}"


def _strike(source_id: str, struck: DocketStrike) -> Strike:
    entry, elimination = struck.entry, struck.elimination
    return Strike(
        intent_key=_key(f"strike:{elimination.rule}", f"{source_id}#{entry.position}", entry),
        source_id=source_id,
        observation_id=_observation(source_id, struck),
        eliminated=elimination.strikes,
        justification=_justification(
            source_id, entry, elimination.rule, elimination.reason, elimination.span
        ),
    )


def _succession(source_id: str, undoing: Undoing) -> PlannedSuccession:
    entry, name = undoing.entry, undoing.name
    place = f"{source_id}#{entry.position}"
    return PlannedSuccession(
        intent_key=_key(f"succeed:{name}", place, entry),
        successor_id=uuid5(SESSION_NAMESPACE, f"{place}:{name}"),
        reason=undoing.reason,
        cause=_justification(source_id, entry, name, undoing.reason, undoing.span),
        undone=tuple(_observation(source_id, struck) for struck in undoing.undone),
        carried=tuple((source_id, _observation(source_id, struck)) for struck in undoing.carried),
    )


def _observation(source_id: str, struck: DocketStrike) -> str:
    return f"{source_id}#{struck.entry.position}:{struck.elimination.rule}"


def _justification(
    source_id: str, entry: DocketEntry, rule: str, reason: str, span: TextSpan
) -> Justification:
    sealed = visibility_class(entry.description) == "sealed"
    words = None if sealed else span.of(entry.description)
    return Justification(rule, reason, span, f"docket-entry:{source_id}#{entry.position}", words)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARS_IN_KEY]


def _key(kind: str, place: str, entry: DocketEntry) -> str:
    return f"{kind}:{place}:{entry.digest[:DIGEST_CHARS_IN_KEY]}"
