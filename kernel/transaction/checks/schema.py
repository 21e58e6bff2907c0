"""Judges the shape of an envelope, its names and its sizes (V1).

V1: the envelope has its shape, its versions, and an actor who may write (§2.2, §20.1).

Bounds an envelope before anything of it is read into a model.

A list that is too long costs what its entries cost, and each of millions that are wrong is an error
of its own. So a door holds an envelope against this table before it hands it to anybody, and V1
does it again.

V1: an operation that comes from outside is called by a UUID (§2.1).

The runtime draws its ids, or derives them from what they are of (`merge:`, `contradiction:`); a log
of version 1.5 has the ids that it has. The version of a UUID is its author's: what sorts operations
is their sequence.

V1: what has a name that the runtime derives is first written by the runtime (§16.4).

A claim that an extraction will write, and the run that it will be, can be named beforehand by
anybody who knows the text. Once it is there, others go on with it as with anything else.

V1: `recorded_at` is a time in UTC (§2.1).

V1: what models answered is there when the envelope is, and the orchestrator put it (§6.4).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import (
    BATCH_REVIEW,
    BELIEF_ANCHOR,
    ENQUEUE,
    EPOCH_ROLLBACK,
    IMPLICATION_HALT,
    IMPLICATION_RESUME,
    IMPLICATION_RUN,
    KEY_HANDOVER,
    LANDSCAPE_SEAL,
    OPERATOR_VERBS,
    REBUILD,
    RECEIPTS_SEAL,
    REPORT_VERB,
    ROLLBACK,
    THOUGHT_VERBS,
)
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import (
    ACTORS,
    MAX_ADJUDICATED,
    MAX_CAUSAL_PARENTS,
    MAX_DEPTH,
    MAX_EFFECTS,
    MAX_ENVELOPE_BYTES,
    MAX_MODEL_OUTPUTS,
    MAX_REFS,
    Envelope,
    SubmittedEnvelope,
)
from kernel.model.node_kinds import RUNTIME_KINDS, RUNTIME_PREFIXES, derived_name_in
from kernel.model.problems import first_problem
from kernel.transaction.checks.check import Refusal, Submission, Verdict, printable_excerpt
from kernel.values.canonical import CanonicalizationError, canonicalize_readable
from kernel.values.host import parse_time_us
from kernel.values.json_text import depth_exceeds

TOO_LARGE = "envelope_too_large"

ENTRIES_MAX: Mapping[tuple[str, ...], int] = MappingProxyType(
    {
        # A rollback has a receipt beside as many inverses; V3 holds other verbs to MAX_EFFECTS.
        ("primitive_effects",): MAX_EFFECTS + 1,
        ("causal_parent_operation_ids",): MAX_CAUSAL_PARENTS,
        ("recorded_model_outputs",): MAX_MODEL_OUTPUTS,
        ("adjudicates_receipt_ids",): MAX_ADJUDICATED,
        ("source_refs",): MAX_REFS,
        ("target_refs",): MAX_REFS,
        ("read_set_refs",): MAX_REFS,
        ("write_set_refs",): MAX_REFS,
        ("source_visibility_taint",): MAX_REFS,
        ("affected_subgraph_descriptor", "affected_node_refs"): MAX_REFS,
        ("affected_subgraph_descriptor", "affected_edge_refs"): MAX_REFS,
        ("affected_subgraph_descriptor", "visibility_class_envelope"): MAX_REFS,
    }
)
"""By where a list stands in an envelope: how many entries it has at most."""

_LISTS = (list, tuple)
_LISTS_BY_PART = tuple(
    (part, tuple((path[-1], limit) for path, limit in ENTRIES_MAX.items() if path[:-1] == part))
    for part in dict.fromkeys(path[:-1] for path in ENTRIES_MAX)
)
"""The same by the part in which the lists stand, the envelope itself first."""


@dataclass(frozen=True, slots=True)
class Oversize:
    """A part of an envelope that is larger than it may be."""

    field: str
    """Empty for the envelope as a whole, whose size is its canonical bytes."""

    limit: int
    actual: int

    @property
    def message(self) -> str:
        """The limit and the size in words."""
        if not self.field:
            return f"an envelope has at most {self.limit} bytes, this one {self.actual}"
        return f"{self.field} has at most {self.limit} entries, here {self.actual}"

    @property
    def details(self) -> dict[str, int]:
        """The limit and the size as fields."""
        return {"limit": self.limit, "actual": self.actual}


def too_many_entries(document: Document) -> Oversize | None:
    """Return the first list of an envelope that is too long; costs a look at each list."""
    for part, limits in _LISTS_BY_PART:
        stated = document.get(part[0]) if part else document
        if not isinstance(stated, dict):
            continue
        for name, limit in limits:
            value = stated.get(name)
            if value and isinstance(value, _LISTS) and len(value) > limit:
                return Oversize(".".join((*part, name)), limit, len(value))
    return None


def too_many_bytes(content: bytes) -> Oversize | None:
    """Return the envelope as oversized where its canonical bytes are too many."""
    if len(content) > MAX_ENVELOPE_BYTES:
        return Oversize("", MAX_ENVELOPE_BYTES, len(content))
    return None


_ALLOWED_ACTORS = {"orchestrator": ACTORS, "caller": frozenset({"user"})}

_RUNTIME_VERBS = frozenset(
    {
        *("recalculate_authority", ENQUEUE, BELIEF_ANCHOR, "simulate", REPORT_VERB, BATCH_REVIEW),
        *(ROLLBACK, EPOCH_ROLLBACK, REBUILD),
        *(IMPLICATION_RUN, IMPLICATION_HALT, IMPLICATION_RESUME, LANDSCAPE_SEAL),
        *THOUGHT_VERBS,
        *OPERATOR_VERBS,
        *(KEY_HANDOVER, RECEIPTS_SEAL),
    }
)
_RUNTIME_KINDS = frozenset({"policy_snapshot_advance"})
"""A caller that moved the policy would have everybody else's operations refused (V5)."""

_NOT_NAMES: Any = {"primitive_effects": {"__all__": {"payload"}}, "recorded_model_outputs": True}


_BACKSLASH = ord("\\")
_NO_BRACKETS = bytes({*range(256)} - {*b"{["})

Parsed = tuple[Envelope, Document, bytes] | Refusal
"""An envelope, what it was read from, and the canonical form that is stored; or why it is none."""


def parse(document: object) -> Parsed:
    """Read a document as an envelope; needs nothing of the record."""
    if not isinstance(document, dict):
        return Refusal("envelope_schema_invalid", "", "an envelope is a JSON object")
    version = document.get("schema_version")
    if isinstance(version, bool) or version not in (None, 1):
        return Refusal(
            "envelope_schema_version_unsupported", "schema_version", "schema_version is 1"
        )
    oversize = too_many_entries(document)
    if oversize is not None:
        return _refuse_size(oversize)
    # Each error of the model holds a copy of the whole document.
    if not document.keys() >= _REQUIRED.keys():
        missing = next(name for name in _REQUIRED if name not in document)
        return Refusal("envelope_schema_invalid", missing, "Field required")
    return _read(document)


_REQUIRED = dict.fromkeys(
    name for name, field in Envelope.model_fields.items() if field.is_required()
)


def _read(document: Document) -> Parsed:
    try:
        content = canonicalize_readable(document)
        oversize = too_many_bytes(content)
        if oversize is not None:
            return _refuse_size(oversize)
        # Nesting this deep needs this many brackets.
        brackets = len(content.translate(None, _NO_BRACKETS))
        if brackets > MAX_DEPTH and depth_exceeds(document, MAX_DEPTH):
            return Refusal("envelope_schema_invalid", "", f"nested deeper than {MAX_DEPTH}")
        envelope = VALIDATE(content)
    except CanonicalizationError as error:
        return Refusal("envelope_schema_invalid", "", str(error))
    except ValidationError as error:
        return Refusal("envelope_schema_invalid", *first_problem(error))
    # Canonical form writes U+0000 only like this; the names are searched only where it occurs, and
    # one byte is found much faster than six.
    if (
        _BACKSLASH in content
        and b"\\u0000" in content
        and names_hold_nul(envelope.model_dump(exclude=_NOT_NAMES))
    ):
        return Refusal("envelope_schema_invalid", "", "a name holds the character U+0000")
    return envelope, document, content


VALIDATE: Callable[[bytes], Envelope] = SubmittedEnvelope.__pydantic_validator__.validate_json
"""What `model_validate_json` calls, which costs a tenth of the reading."""


def _refuse_size(oversize: Oversize) -> Refusal:
    return Refusal(TOO_LARGE, oversize.field, oversize.message, details=oversize.details)


def check_actor(submission: Submission) -> Verdict:
    """Refuse an actor whom this submitter may not speak for (INV-15.7.8, K18).

    Nobody else writes what the runtime decides (an authority, a session's anchor): no caller, and
    no migration of an earlier version's log.
    """
    envelope, submitter = submission.envelope, submission.submitter
    if envelope.actor not in _ALLOWED_ACTORS[submitter]:
        message = f"a {submitter} may not act as {printable_excerpt(envelope.actor)}"
        return Refusal("envelope_actor_unauthorized", "actor", message)
    if envelope.supersedes is None:
        if submitter == "orchestrator":
            return None
    elif submitter != "orchestrator":
        message = "what takes a lite envelope's place comes from the runtime"
        return Refusal("envelope_actor_unauthorized", "supersedes", message)
    if envelope.semantic_intent in _RUNTIME_VERBS:
        message = f"{envelope.semantic_intent} is the runtime's own"
        return Refusal("envelope_actor_unauthorized", "semantic_intent", message)
    if envelope.compensates_operation_id is not None:
        message = "what makes up for an operation is the runtime's own"
        return Refusal("envelope_actor_unauthorized", "compensates_operation_id", message)
    for index, effect in enumerate(envelope.primitive_effects):
        is_runtimes = (effect.target_ref or "").startswith(RUNTIME_PREFIXES)
        if is_runtimes or effect.payload.get("node_kind") in RUNTIME_KINDS:
            field = f"primitive_effects.{index}.target_ref"
            message = "the causal graph is the runtime's own"
            return Refusal("envelope_actor_unauthorized", field, message)
        kind = EFFECT_KINDS.get(effect.effect_kind)
        if kind is not None and kind.canonical in _RUNTIME_KINDS:
            field = f"primitive_effects.{index}.effect_kind"
            message = f"{effect.effect_kind} is the runtime's own"
            return Refusal("envelope_actor_unauthorized", field, message)
    return None


def names_hold_nul(names: object) -> bool:
    """Tell whether a name holds U+0000, which not every store's text can; content may."""
    level: list[object] = [names]
    while level:
        value = level.pop()
        if isinstance(value, str) and "\x00" in value:
            return True
        if isinstance(value, dict | tuple):
            level.extend(value.values() if isinstance(value, dict) else value)
    return False


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def check_operation_id(submission: Submission) -> Verdict:
    """Refuse a caller's operation whose id is no UUID in lower case."""
    operation_id = submission.envelope.operation_id
    if submission.submitter != "caller" or _UUID.fullmatch(operation_id):
        return None
    return Refusal(
        "envelope_operation_id_invalid",
        "operation_id",
        "an operation id is a UUID in lower case, as 018f3c1e-7a2b-7c4d-8e9f-0a1b2c3d4e5f",
    )


def check_derived_names(submission: Submission) -> Verdict:
    """Refuse from outside an effect on what has such a name and is not there."""
    envelope = submission.envelope
    if submission.submitter == "orchestrator" and envelope.supersedes is None:
        return None
    for index, effect in enumerate(envelope.primitive_effects):
        name = derived_name_in(effect.target_ref or "")
        if name is not None and not _is_there(submission.transaction, name):
            field = f"primitive_effects.{index}.target_ref"
            message = f"{name} is not there, and the runtime alone gives such a name"
            return Refusal("envelope_actor_unauthorized", field, message)
    return None


def _is_there(view: LedgerView, name: str) -> bool:
    steps = {"extraction_run_id": name}
    return view.node(name) is not None or bool(
        view.tables.scan(TableQuery(schema.extraction_attempts, steps, limit=1))
    )


_TIME_CHARS_MAX = 32


def check_recorded_at(submission: Submission) -> Verdict:
    """Refuse what is not ISO 8601 in UTC; what takes a lite envelope's place repeats its time."""
    envelope = submission.envelope
    if envelope.supersedes is not None or is_utc(envelope.recorded_at):
        return None
    return Refusal("envelope_schema_invalid", "recorded_at", "recorded_at is ISO 8601 in UTC")


def is_utc(text: str) -> bool:
    """Tell whether a text is an ISO 8601 time in UTC, from 1970 on."""
    if len(text) > _TIME_CHARS_MAX or not text.endswith(("Z", "+00:00")) or "T" not in text:
        return False
    try:
        return parse_time_us(text) >= 0
    except ValueError:
        return False


def check_model_outputs(submission: Submission) -> Verdict:
    """Refuse an answer without a payload, and answers that the orchestrator did not capture."""
    outputs = submission.envelope.recorded_model_outputs
    if outputs and submission.submitter != "orchestrator":
        message = "what a model answered is captured by the orchestrator"
        return Refusal("envelope_actor_unauthorized", "recorded_model_outputs", message)
    for index, output in enumerate(outputs):
        if (
            submission.transaction.tables.get(schema.blobs, output.output_payload_blob_ref)
            is not None
        ):
            continue
        field = f"recorded_model_outputs.{index}.output_payload_blob_ref"
        return Refusal("envelope_schema_invalid", field, "no payload has this commitment")
    return None
