"""V1: the envelope has its shape, its versions, and an actor who may write (§2.2, §20.1)."""

from collections.abc import Callable
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
from kernel.ledger.ledger import Document
from kernel.model.envelope import ACTORS, MAX_DEPTH, Envelope, SubmittedEnvelope
from kernel.model.node_kinds import RUNTIME_KINDS, RUNTIME_PREFIXES
from kernel.model.problems import first_problem
from kernel.transaction.checks.check import Refusal, Submission, Verdict, said
from kernel.transaction.checks.v01_sizes import (
    TOO_LARGE,
    Oversize,
    too_many_bytes,
    too_many_entries,
)
from kernel.values.canonical import CanonicalizationError, canonicalize_readable
from kernel.values.json_text import depth_exceeds

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
        message = f"a {submitter} may not act as {said(envelope.actor)}"
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
