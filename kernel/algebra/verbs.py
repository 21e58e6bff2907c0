"""Semantic verbs, what each decomposes into, and the operation kinds that speak them (§3.3, K29).

A verb requires effect kinds, may carry more, and forbids those that contradict it: a receipt-only
verb admits receipts and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernel.algebra.effects import EFFECT_KINDS


@dataclass(frozen=True, slots=True)
class SemanticVerb:
    """One verb: the kinds it must have, and whether it may change state at all."""

    name: str
    requires: tuple[str, ...]
    receipts_only: bool = False

    def satisfied_by(self, required: str, declared: frozenset[str]) -> bool:
        """Tell whether a required kind is declared by its own or by its canonical name (K1)."""
        return required in declared or EFFECT_KINDS[required].canonical in declared

    @property
    def forbids(self) -> frozenset[str]:
        """The kinds that an envelope of this verb may not name."""
        if not self.receipts_only:
            return frozenset()
        return frozenset(kind for kind in EFFECT_KINDS if kind != "receipt_only")


_VERBS = (
    SemanticVerb("create", ("node_write", "membership_write")),
    SemanticVerb("annotate", ("node_write",)),
    SemanticVerb("field_adapt", ("node_write",)),
    SemanticVerb("recalculate_authority", ("node_write", "index_update")),
    SemanticVerb("corpus_membership_add", ("membership_write",)),
    SemanticVerb("corpus_membership_confirm", ("membership_write",)),
    SemanticVerb("corpus_membership_reject", ("membership_write",)),
    SemanticVerb("document_relationship_create", ("edge_create",)),
    SemanticVerb("document_relationship_update", ("edge_reclassify",)),
    SemanticVerb("search_run_record", ("receipt_only",), receipts_only=True),
)

SEMANTIC_VERBS: Mapping[str, SemanticVerb] = MappingProxyType({verb.name: verb for verb in _VERBS})

OPERATION_KINDS: Mapping[str, str] = MappingProxyType(
    {verb.name: verb.name for verb in _VERBS} | {"synthesize_consolidated_understanding": "create"}
)
"""Every operation kind and the verb it speaks."""
