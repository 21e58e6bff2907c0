"""Lists semantic verbs, what each decomposes into, and the kinds that speak them (§3.3, K29).

A verb requires effect kinds, may carry more, and forbids those that contradict it:

1. A verb that records an observation admits kinds that only observe.
2. An artifact, a file or a token leaves the process, and the policy moves, only under a verb that
   asks for it.
3. A verb that adds does not take away what it adds, and the other way round.
4. A node is disposed of, and a membership moves, only under a verb that says so.

`algebra/arguments.py` has what the effects may state beside their kinds.

A kind that no verb of §3.3 reaches has a verb of its own name, which asks for exactly that kind
(K28).

The inverse of every verb is `rollback`, which is also its own (decision kernel/0030): it admits
effects that undo others, each of which names the other, and nothing else. The results of a rollback
of an epoch and of a rebuild, and the ends of an epoch, are observations with verbs of their own
(§5, K21, K22).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kernel.algebra.arguments import VerbArguments, arguments_of
from kernel.algebra.effects import EFFECT_KINDS, RECEIPT, REVERSIBLE
from kernel.algebra.simulation_support import simulation_support_level

ROLLBACK = "rollback"
EPOCH_ROLLBACK = "epoch_rollback"
REBUILD = "rebuild"
EPOCH_OPEN = "epoch_open"
EPOCH_CLOSE = "epoch_close"

BOUNDARIES = frozenset({EPOCH_OPEN, EPOCH_CLOSE, EPOCH_ROLLBACK, REBUILD})
"""Verbs that only observe what is undone, or when; there is nothing to undo in them."""

REVIEW_DISCARD = "review_discard"
"""An item of a review queue is settled, and nothing is done about it."""

BATCH_REVIEW = "batch_review"
"""What became of the items of a batch that a person reviewed; spoken by the runtime alone (§14.4).

Each item has an operation of its own."""

MEMBERSHIP_DEFER = "corpus_membership_defer"
"""A review puts a membership off, which stays a candidate (§14.4)."""

REPORT_VERB = "external_effect_report"
"""What became of an effect outside; spoken by the runtime alone (K19)."""
ENQUEUE = "enqueue_recalculate_authority"
"""Recomputes that are asked for, not set off; spoken by the runtime alone (§8.2)."""

BELIEF_ANCHOR = "belief_anchor"
FIRE_RECORD = "binding_fire_record"
"""How far the chains of belief sessions go; spoken by the runtime alone (B6)."""

IMPLICATION_RUN = "implication_run"
"""How far a detector of implications has read, and under which epoch (§19.1, K31)."""

IMPLICATION_HALT = "implication_halt"
"""A loop of implications, or a detector, goes no further (INV-A-BRIDGE-1)."""

IMPLICATION_RESUME = "implication_resume"
"""A person lets what was halted go on."""

AUDIT_SESSION_START = "audit_session_start"
"""A session of thoughts begins (seed 002)."""

THOUGHT_RECORD = "thought_record"
"""Thoughts of one session, in order, each a link of its chain and a leaf of its tree."""

AUDIT_VERIFY_CHAIN = "audit_verify_chain"
"""How far the chain of a session was read again and holds."""

MERKLE_FINALIZE = "merkle_finalize"
"""The seal of a session, behind which no thought follows."""

AUDIT_SESSION_END = "audit_session_end"
"""A session that was finalized is over."""

ROUND_OPEN = "round_open"
"""The genesis of a round, which embeds the roots of the round before."""

ROUND_SEAL = "round_seal"
"""The seal of a round, which holds the root of every session that was finalized in it."""

KEY_HANDOVER = "checkpoint_key_handover"
"""The keys that sign the log hand it over to others; spoken by the runtime alone."""

LANDSCAPE_SEAL = "landscape_run_seal"
"""The digests of the records of a run that has ended (ruling L4)."""

RECEIPTS_SEAL = "receipts_seal"
"""The root of the tree over a range of receipts; spoken by the runtime alone (§17.5)."""

QUEUE_PAUSE = "queue_pause"
"""An operator lets a queue, or one of its priorities, hand out nothing."""

QUEUE_RESUME = "queue_resume"
"""An operator ends a pause."""

REQUEST_REQUEUE = "request_requeue"
"""Somebody asks anew for what was given up."""

REQUEST_DISMISS = "request_dismiss"
"""Somebody settles what was given up without asking for it anew."""

REQUEST_CANCEL = "request_cancel"
"""Somebody takes a request back."""

REQUEST_PRIORITIZE = "request_prioritize"
"""Somebody gives requests that wait another priority."""

PAYLOAD_ERASE = "payload_erase"
"""The tombstone of a payload, with the reason and the authority (P6)."""

HOLD_SET = "hold_set"
"""Somebody with authority says that something may not be erased (P6)."""

HOLD_LIFT = "hold_lift"
"""The end of a legal hold."""

QUARANTINE_LIFT = "quarantine_lift"
"""The end of a quarantine of rows of the log, with the reason (§17.5)."""

LEDGER_HEAD_ACCEPT = "ledger_head_accept"
"""Going on from a ledger that went back, with the reason."""

ACCESS_GRANT = "access_grant"
"""Somebody gives a principal a role."""

ACCESS_WITHDRAW = "access_withdraw"
"""The end of such a grant."""

ACCESS_KEY_CREATE = "access_key_create"
"""A new key by which a principal proves who it is."""

ACCESS_KEY_REVOKE = "access_key_revoke"
"""The end of a key before its time."""

ACCESS_VERBS = (ACCESS_GRANT, ACCESS_WITHDRAW, ACCESS_KEY_CREATE, ACCESS_KEY_REVOKE)

OPERATOR_VERBS = (
    *(QUEUE_PAUSE, QUEUE_RESUME, REQUEST_REQUEUE, REQUEST_DISMISS, REQUEST_CANCEL),
    REQUEST_PRIORITIZE,
    *(PAYLOAD_ERASE, HOLD_SET, HOLD_LIFT, QUARANTINE_LIFT, LEDGER_HEAD_ACCEPT),
    *ACCESS_VERBS,
)
"""What people decide about the runtime; spoken by it alone."""

THOUGHT_VERBS = (
    AUDIT_SESSION_START,
    THOUGHT_RECORD,
    AUDIT_VERIFY_CHAIN,
    MERKLE_FINALIZE,
    AUDIT_SESSION_END,
    ROUND_OPEN,
    ROUND_SEAL,
)
"""What is said of sessions of thoughts and of rounds; spoken by the runtime alone (seed 002)."""

_RESERVED = frozenset(
    {
        "document_artifact_write",
        "materialization_emit",
        "share_link_grant",
        "share_link_revoke",
        "policy_snapshot_advance",
    }
)
"""Canonical kinds that no verb carries unless it requires them (rule 2)."""

_DISPOSITIONS = frozenset(
    {
        *("quarantine", "unquarantine", "authorize_access", "revoke_access"),
        *("rescope", "visibility_change", "review_disposition"),
    }
)
"""Kinds that a verb of their own asks for, and no other may carry (rule 4)."""

_ADMITTING: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (
        frozenset({"node_retract"}),
        frozenset({"collapse", "retract", "soft_delete", "merge", "split", "supersede"}),
    ),
    (
        frozenset(
            name
            for name, kind in EFFECT_KINDS.items()
            if kind.canonical in ("membership_write", "membership_state_transition")
        ),
        frozenset(
            {
                *("create", "merge", "split", "collapse", "retract", "soft_delete", "restore"),
                *("corpus_membership_add", "corpus_membership_confirm"),
                *("corpus_membership_reject", "topic_assign", "topic_unassign"),
            }
        ),
    ),
    (_DISPOSITIONS, frozenset()),
)
"""Kinds that only these verbs carry beside the kinds that they require (rule 4)."""

_OBSERVING = frozenset(name for name, kind in EFFECT_KINDS.items() if kind.reversibility == RECEIPT)


@dataclass(frozen=True, slots=True)
class SemanticVerb:
    """One verb: the kinds it must have and the kinds it may not."""

    name: str
    requires: tuple[str, ...]
    forbids: frozenset[str] = frozenset()
    exact: bool = False
    """Whether a required kind has to be named by its own name, and not by its canonical one."""

    arguments: VerbArguments = field(init=False)
    """What its effects may state."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", arguments_of(self.name))

    def is_satisfied_by(self, required: str, declared: frozenset[str]) -> bool:
        """Tell whether a required kind is declared by its own or by its canonical name (K1)."""
        return required in declared or (
            not self.exact and EFFECT_KINDS[required].canonical in declared
        )


@dataclass(frozen=True, slots=True)
class OperationKind:
    """One operation kind: the verb it speaks, and how far it can be simulated (§11.4)."""

    name: str
    verb: str

    @property
    def simulation_support_level(self) -> str:
        """How far it can be simulated; a kind without a line cannot be."""
        return simulation_support_level(self.name)


_DECOMPOSITIONS: dict[str, tuple[str, ...]] = {
    "create": ("node_write", "membership_write"),
    "merge": ("node_write", "edge_create", "materialized_view_invalidation"),
    "split": ("node_write", "edge_remove", "materialize"),
    "supersede": ("node_write", "edge_create"),
    "mark_contested": ("node_write", "edge_create"),
    "collapse": ("node_retract",),
    "retract": ("node_write",),
    "restore": ("node_write",),
    "field_lock": ("node_write",),
    "field_adapt": ("node_write",),
    "annotate": ("node_write",),
    "recalculate_authority": ("node_write", "index_update"),
    "soft_delete": ("node_write",),
    "mark_chain_complete": ("edge_create", "node_write"),
    "corpus_membership_add": ("membership_write",),
    "corpus_membership_confirm": ("membership_write",),
    "corpus_membership_reject": ("membership_write",),
    "source_binding_create": ("node_write", "edge_create"),
    "source_binding_update": ("node_write",),
    "source_binding_disable": ("node_write",),
    FIRE_RECORD: ("receipt_only",),
    "profile_assign": ("node_write", "receipt_only"),
    "metadata_field_set": ("node_write",),
    "metadata_field_override": ("node_write", "receipt_only"),
    "document_relationship_create": ("edge_create",),
    "document_relationship_update": ("edge_reclassify",),
    "topic_assign": ("membership_write", "index_update"),
    "document_materialize": ("materialize", "index_update"),
    "search_run_record": ("receipt_only",),
    "simulate": ("receipt_only",),
    "extraction_state_change": ("extraction_state_transition",),
}
"""The verbs of §3.3."""

_BOUNDARIES: dict[str, tuple[str, ...]] = {
    ROLLBACK: (),
    EPOCH_ROLLBACK: ("receipt_only",),
    REBUILD: ("receipt_only",),
    EPOCH_OPEN: ("receipt_only",),
    EPOCH_CLOSE: ("receipt_only",),
    REPORT_VERB: ("receipt_only",),
    REVIEW_DISCARD: ("receipt_only",),
    BATCH_REVIEW: ("receipt_only",),
    MEMBERSHIP_DEFER: ("membership_write",),
    ENQUEUE: ("receipt_only",),
    BELIEF_ANCHOR: ("receipt_only",),
    IMPLICATION_RUN: ("receipt_only",),
    IMPLICATION_HALT: ("receipt_only",),
    IMPLICATION_RESUME: ("receipt_only",),
    KEY_HANDOVER: ("receipt_only",),
    LANDSCAPE_SEAL: ("receipt_only",),
    RECEIPTS_SEAL: ("receipt_only",),
    **dict.fromkeys((*THOUGHT_VERBS, *OPERATOR_VERBS), ("receipt_only",)),
}
"""The verbs of undoing, epochs, reviews, of what became of effects outside, asking, anchors, of the
detection of implications, of runs, of receipts, of thoughts, of operators, and of the keys of the
log."""

_OBSERVERS: Mapping[str, frozenset[str]] = {
    "search_run_record": frozenset({"receipt_only"}),
    FIRE_RECORD: frozenset({"receipt_only"}),
    "simulate": frozenset({"receipt_only"}),
    REPORT_VERB: frozenset({"receipt_only"}),
    ENQUEUE: frozenset({"receipt_only"}),
    BELIEF_ANCHOR: frozenset({"receipt_only"}),
    IMPLICATION_RUN: frozenset({"receipt_only"}),
    IMPLICATION_HALT: frozenset({"receipt_only"}),
    IMPLICATION_RESUME: frozenset({"receipt_only"}),
    KEY_HANDOVER: frozenset({"receipt_only"}),
    LANDSCAPE_SEAL: frozenset({"receipt_only"}),
    RECEIPTS_SEAL: frozenset({"receipt_only"}),
    **dict.fromkeys((*THOUGHT_VERBS, *OPERATOR_VERBS), frozenset({"receipt_only"})),
    "extraction_state_change": _OBSERVING,
    ROLLBACK: frozenset(
        name for name, kind in EFFECT_KINDS.items() if kind.reversibility in (REVERSIBLE, RECEIPT)
    )
    - {"extraction_state_transition"},
    EPOCH_ROLLBACK: frozenset({"receipt_only"}),
    REBUILD: frozenset({"receipt_only"}),
    EPOCH_OPEN: frozenset({"receipt_only"}),
    EPOCH_CLOSE: frozenset({"receipt_only"}),
    REVIEW_DISCARD: frozenset({"receipt_only"}),
    BATCH_REVIEW: frozenset({"receipt_only"}),
}
"""What a verb that only observes admits, and what one that undoes does (rule 1)."""

_CONTRADICTIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("create", "restore", "corpus_membership_add", "corpus_membership_confirm"),
        frozenset({"membership_revoke"}),
    ),
    "source_binding_create": frozenset({"binding_generation_revert", "detach_source_binding"}),
    # A binding that is disabled keeps its generation (§15.3).
    "source_binding_disable": frozenset(
        {"binding_generation_advance", "binding_generation_revert", "attach_source_binding"}
    ),
    "topic_assign": frozenset({"topic_unassign", "membership_revoke"}),
    "document_relationship_create": frozenset({"edge_remove", "detach_source_binding"}),
    # Applying a recompute refuses whatever else it writes into the graph.
    "recalculate_authority": frozenset(
        name
        for name, kind in EFFECT_KINDS.items()
        if kind.canonical
        not in {
            "node_write",
            "edge_write",
            "index_update",
            "materialized_view_invalidation",
            "receipt_only",
        }
    ),
}
"""What a verb forbids beside the rules (rule 3)."""


def _forbidden(name: str, requires: tuple[str, ...]) -> frozenset[str]:
    if name in _OBSERVERS:
        return frozenset(EFFECT_KINDS) - _OBSERVERS[name]
    asked_for = {EFFECT_KINDS[name].canonical for name in requires}
    reserved = _RESERVED - asked_for
    passing = frozenset(kind for kind, row in EFFECT_KINDS.items() if row.canonical in reserved)
    of_other_verbs = frozenset(
        kind
        for kinds, verbs in _ADMITTING
        if name not in verbs
        for kind in kinds - frozenset(requires)
    )
    return passing | of_other_verbs | _CONTRADICTIONS.get(name, frozenset())


def _own_verbs() -> Iterable[SemanticVerb]:
    reached = {kind for kinds in _DECOMPOSITIONS.values() for kind in kinds}
    for name, kind in EFFECT_KINDS.items():
        if name not in reached:
            companion = (kind.companion,) if kind.companion else ()
            requires = (name, *companion)
            yield SemanticVerb(name, requires, _forbidden(name, requires), exact=True)


_VERBS = (
    *(
        SemanticVerb(name, requires, _forbidden(name, requires))
        for name, requires in (_DECOMPOSITIONS | _BOUNDARIES).items()
    ),
    *_own_verbs(),
)

SEMANTIC_VERBS: Mapping[str, SemanticVerb] = MappingProxyType({verb.name: verb for verb in _VERBS})

_KINDS = (
    OperationKind("synthesize_consolidated_understanding", "create"),
    OperationKind("binding_evaluation_manifest_emit", FIRE_RECORD),
)
"""Operation kinds that are not the verb's own."""

OPERATION_KINDS: Mapping[str, OperationKind] = MappingProxyType(
    {verb.name: OperationKind(verb.name, verb.name) for verb in _VERBS}
    | {kind.name: kind for kind in _KINDS}
)
"""Every operation kind."""
