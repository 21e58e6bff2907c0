"""Previews what undoing an operation would take, without doing it (§3.7 Q5, §4.5).

The record answers three questions: what each effect left behind and how it could be undone, which
tier could undo the whole, and which later operations wrote the same records and so stand in the
way. Whether a rollback would be admitted is its own plan's to say (`rollback/plan.py`).

Tier 1 writes the inverses, and takes only what is wholly reversible. Tier 2 compensates, and says
what persists outside. Tier 3 rebuilds; it always needs an architect's word.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from kernel.algebra.effects import IRREVERSIBLE, RECEIPT, REVERSIBLE
from kernel.audit.operations import (
    AuditError,
    OperationEntry,
    envelope_of,
)
from kernel.authority.recompute_pages import ordinals_of, resolve_operation
from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of, sequences_that_wrote
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.ledger.supersession import is_lite
from kernel.values.errors import LedgerCorrupt

LATER_WRITES_MAX = 20
"""Later operations that are named for one record."""


@dataclass(frozen=True, slots=True)
class EffectPreview:
    """One effect, and what it would take to undo it."""

    effect_id: str
    effect_kind: str
    canonical_kind: str
    reversibility: str
    undone_by: str | None
    """The inverse or compensating operation; None where there is none or nothing to undo."""

    persists: str | None
    """What stays outside whatever is done here."""

    store: str
    record_key: str
    restores: str | None
    """Hash of the state that was replaced; None where there was no record before."""

    superseded_by: tuple[str, ...]
    """Later operations that wrote the record, in sequence, LATER_WRITES_MAX at most."""


@dataclass(frozen=True, slots=True)
class RollbackPreview:
    """What each tier would do, and what undoing each effect would take."""

    operation: OperationEntry
    effects: tuple[EffectPreview, ...]
    """The effects in the order of undoing: the last that was applied is the first."""

    lowest_tier: int
    """1 where every effect is reversible or a receipt, else 2."""

    needs_user_confirmation: bool
    """Whether a user has to confirm tier 2, because an external effect would persist."""

    counts: dict[str, int]
    """How many effects have each reversibility."""

    @property
    def not_automatic(self) -> tuple[EffectPreview, ...]:
        """The effects that no inverse undoes."""
        automatic = (REVERSIBLE, RECEIPT)
        return tuple(effect for effect in self.effects if effect.reversibility not in automatic)

    @property
    def superseded(self) -> bool:
        """Whether a later operation wrote a record that this one wrote."""
        return any(effect.superseded_by for effect in self.effects)


def preview_rollback(view: LedgerView, operation_id: str) -> RollbackPreview | None:
    """Say what undoing an operation, or a recompute by its request, would take.

    None is returned for one that is not on the log.

    Raises:
        AuditError: `operation_not_migrated`; `envelope_erased`, when what would be undone is no
            longer known.
        LedgerCorrupt: when the effects on record are not those of the envelope.
        RangeQuarantined: when its row is quarantined.
    """
    named = resolve_operation(view, operation_id)
    if named is None:
        return None
    row = named.row
    view.quarantines().expect_none_over(row["ec_sequence_number"])
    if is_lite(row):
        raise AuditError(
            "a lite envelope did nothing here that could be undone", code="operation_not_migrated"
        )
    envelope = envelope_of(view, row)
    if envelope is None:
        raise AuditError(
            "the envelope was erased, and with it what its effects were", code="envelope_erased"
        )
    entry = OperationEntry.of_row(view, row)
    sequence = row["ec_sequence_number"]
    where = {"ec_sequence_number": sequence}
    applied = view.tables.scan(TableQuery(schema.applied_effects, where, order_by="ordinal"))
    declared = envelope["primitive_effects"]
    if len(applied) != len(declared):
        raise LedgerCorrupt(f"{len(applied)} effects on record, {len(declared)} in the envelope")
    ordinals = [*range(len(declared))]
    if named.recompute_of is not None:
        ordinals = ordinals_of(envelope, named.recompute_of)
    effects = tuple(
        _effect(view, sequence, declared[ordinal], effect_of(applied[ordinal]))
        for ordinal in reversed(ordinals)
    )
    counts = Counter(effect.reversibility for effect in effects)
    wholly_reversible = not counts.keys() - {REVERSIBLE, RECEIPT}
    return RollbackPreview(
        entry,
        effects,
        lowest_tier=1 if wholly_reversible else 2,
        needs_user_confirmation=IRREVERSIBLE in counts,
        counts=dict(sorted(counts.items())),
    )


def _effect(
    view: LedgerView, applied_at: int, declared: Document, applied: Document
) -> EffectPreview:
    store, key = applied["store"], applied["record_key"]
    later = sequences_that_wrote(view, store, key, applied_at)
    rows = (
        view.tables.get(schema.kernel_event_log, sequence)
        for sequence in islice(later, LATER_WRITES_MAX)
    )
    return EffectPreview(
        declared["effect_id"],
        declared["effect_kind"],
        applied["canonical_kind"],
        declared["reversibility"],
        declared.get("inverse_operation_kind") or declared.get("compensating_operation_kind"),
        declared.get("external_effect_descriptor"),
        store,
        key,
        applied["pre_image_hash"] or None,
        tuple(row["operation_id"] for row in rows if row is not None),
    )
