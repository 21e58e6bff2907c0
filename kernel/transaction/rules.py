"""Lists the rules by version, by which everything on the record is done again (K30).

Checks run once, when an envelope is submitted, and may change freely. Verification, replay, reading
as of a sequence and tier 3 compute from a row by the version that the row or the receipt seals:
names, the reading of the envelope, appliers, what a receipt writes. Receipts state a version of
their own, because one without an operation has no row. Columns beside a record are not in it: each
program derives them anew. A refusal of a store is part of its applier, so a stricter refusal is an
applier of the next version, or a check.

Once a version was released its entry, and every function that it names, stays as it is: a changed
rule is a further entry, made of the one before by replacing what changed. `tests/ledgers/` keeps a
ledger of each version, with the tables of its program; every later program migrates, verifies,
replays, rebuilds and exports it. `make ledger` writes that of the newest version while nothing was
released, and afterwards never again.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import (
    ACCESS_VERBS,
    LEDGER_HEAD_ACCEPT,
    OPERATION_KINDS,
    QUARANTINE_LIFT,
    RECEIPTS_SEAL,
    SEMANTIC_VERBS,
)
from kernel.authority.value import authority_of
from kernel.ledger.ledger import Document
from kernel.ledger.store.tables import Row
from kernel.model.envelope import Envelope
from kernel.model.lite import LITE_INTENT, LITE_VERSION
from kernel.model.receipt import RECEIPT_KINDS, RECEIPT_KINDS_1, ReceiptRules
from kernel.model.rules_version import RULES_VERSION
from kernel.records.access.records import ACCESS_WRITES
from kernel.records.appliers import APPLIERS, EffectRules
from kernel.records.inverse import apply_inverse_1
from kernel.records.nodes import apply_node_write_1
from kernel.records.rollback_marks import mark_undone_1
from kernel.retention.log_archival import SEGMENT_WRITES
from kernel.retention.thought_records import THOUGHT_SEGMENT_WRITES
from kernel.transaction.apply import Rules
from kernel.transaction.steps import STEPS
from kernel.values.errors import RulesVersionUnknown
from kernel.work.receipts import WRITES

_SINCE_2 = frozenset({QUARANTINE_LIFT, RECEIPTS_SEAL, LEDGER_HEAD_ACCEPT, *ACCESS_VERBS})
"""Verbs of version 2, each with an operation kind of its name."""

_FROM_ENVELOPE = (
    "operation_id",
    "semantic_intent",
    "operation_kind",
    "actor",
    "idempotency_key",
    "causal_parent_operation_ids",
    "recorded_at",
)


def row_of_envelope(envelope: Document) -> Document:
    """Return the fields of a row that follow from its envelope.

    A lite envelope may lack fields that its row has, and does nothing (§2.8).
    """
    if envelope.get("envelope_version") == LITE_VERSION:
        parents = envelope.get("causal_parent_operation_ids") or []
        does_nothing = {"semantic_intent": LITE_INTENT, "causal_parent_operation_ids": parents}
        absent_fields = ("affected_subgraph_descriptor", "epoch_id", "supersedes")
        envelope = envelope | does_nothing | dict.fromkeys(absent_fields)
    scope = envelope.get("affected_subgraph_descriptor") or {}
    fields: Document = {name: envelope.get(name) for name in _FROM_ENVELOPE}
    fields["schema_version"] = 1
    fields["affected_subgraph_descriptor_summary"] = {
        "scope_kind": scope.get("scope_kind", ""),
        "affected_node_count": len(scope.get("affected_node_refs", ())),
    }
    if envelope.get("session_id") is not None:
        fields["session_id"] = envelope["session_id"]
    if envelope.get("epoch_id") is not None:
        fields["commit_epoch_id"] = envelope["epoch_id"]
    if envelope.get("supersedes") is not None:
        fields["supersedes"] = envelope["supersedes"]
    return fields


def row_of_envelope_with_principal(envelope: Document) -> Document:
    """Return the same, with whose key brought it; a lite envelope was brought by nobody's."""
    fields = row_of_envelope(envelope)
    if envelope.get("principal") is not None and envelope.get("envelope_version") != LITE_VERSION:
        fields["principal"] = envelope["principal"]
    return fields


_VERSION_1 = Rules(
    version=1,
    verbs=frozenset({*SEMANTIC_VERBS, LITE_INTENT}) - _SINCE_2,
    operation_kinds=frozenset(OPERATION_KINDS) - _SINCE_2,
    receipts=ReceiptRules(1, RECEIPT_KINDS_1),
    effects=EffectRules(
        1,
        EFFECT_KINDS,
        MappingProxyType({**APPLIERS, "node_write": apply_node_write_1}),
        apply_inverse_1,
        mark_undone_1,
    ),
    steps=STEPS,
    envelope=Envelope,
    row_of_envelope=row_of_envelope,
    receipt_writes=MappingProxyType(
        {**WRITES, **SEGMENT_WRITES, **THOUGHT_SEGMENT_WRITES, **ACCESS_WRITES}
    ),
    authority_of=authority_of,
)

_VERSION_2 = replace(
    _VERSION_1,
    version=2,
    verbs=_VERSION_1.verbs | _SINCE_2,
    operation_kinds=_VERSION_1.operation_kinds | _SINCE_2,
    receipts=ReceiptRules(2, RECEIPT_KINDS),
    effects=EffectRules(2, EFFECT_KINDS, APPLIERS),
)

_VERSION_3 = replace(
    _VERSION_2,
    version=3,
    receipts=ReceiptRules(3, RECEIPT_KINDS),
    effects=EffectRules(3, EFFECT_KINDS, APPLIERS),
    row_of_envelope=row_of_envelope_with_principal,
)

RULES: Mapping[int, Rules] = MappingProxyType({1: _VERSION_1, 2: _VERSION_2, 3: _VERSION_3})

CURRENT_RULES = RULES[RULES_VERSION]
"""What new rows are recorded under."""


def rules_of(version: object) -> Rules | None:
    """Return the rules that a row or a receipt states; None of a version that is not known."""
    return RULES.get(version) if type(version) is int else None


def effect_rules_of(row: Row) -> EffectRules:
    """Return the rules by which the effects of a row of the log were applied.

    Raises:
        RulesVersionUnknown: the row states a version that this program does not know.
    """
    place = f"row {row['ec_sequence_number']} of the log"
    return rules_or_raise(row["rules_version"], place).effects


def rules_or_raise(version: object, place: str) -> Rules:
    """Return the rules that a row states.

    Raises:
        RulesVersionUnknown: naming the place, and the versions that this program knows.
    """
    rules = rules_of(version)
    if rules is None:
        raise RulesVersionUnknown(unknown_version(version, place))
    return rules


def unknown_version(version: object, place: str) -> str:
    """Return the message for a version that is not known."""
    known = ", ".join(str(number) for number in sorted(RULES))
    stated = "no version" if version is None else f"version {ascii(version)[:40]}"
    return f"{place} states {stated} of the rules, this program knows {known}: use a newer program"
