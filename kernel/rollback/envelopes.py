"""Makes the envelopes of undoing; every one goes through all checks like any other."""

from collections.abc import Mapping
from types import MappingProxyType

from kernel.algebra.effects import REVERSIBLE
from kernel.algebra.verbs import ROLLBACK
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.model.envelope import MAX_CAUSAL_PARENTS, MAX_REFS
from kernel.model.receipt import receipt_effect
from kernel.records.operation_steps import Place
from kernel.records.record_history import RecordHistory
from kernel.records.rollback_marks import mark_of
from kernel.records.sources import state_taint
from kernel.rollback.restoration import without
from kernel.rollback.steps import RollbackStep
from kernel.transaction.rules import effect_rules_of
from kernel.values.canonical import sha256_hex
from kernel.values.host import iso_time
from kernel.values.idempotency_keys import runtime_key
from kernel.values.pressure import COST_MAX

NOTHING_SAID: Mapping[str, str] = MappingProxyType({})


def inverse_envelope(
    transaction: LedgerTransaction,
    step: RollbackStep,
    tier: int,
    said: Mapping[str, str] = NOTHING_SAID,
) -> Document:
    """Return the operation that undoes an operation's reversible effects, the last one first.

    The receipt of tier 1 has what was `said` of who undoes it, and why.
    """
    key = _key(transaction, step, f"tier_{tier}_inverse")
    fields = _of_original(transaction, step) | {
        "target_refs": step.envelope["target_refs"],
        "affected_subgraph_descriptor": _submittable_scope(
            step.envelope["affected_subgraph_descriptor"]
        ),
    }
    document = envelope(transaction, ROLLBACK, key, _inverses(transaction, step, tier), fields)
    if tier == 1:
        body = {
            "original_operation_id": step.operation_id,
            "inverse_operation_id": document["operation_id"],
        }
        if step.request_id is not None:
            body["request_id"] = step.request_id
        body |= said
        document["primitive_effects"].append(receipt_effect("tier_1_rollback", body))
    return document


def compensating_envelope(
    transaction: LedgerTransaction, step: RollbackStep, effects: list[Document], ordinal: int
) -> Document:
    """Return the operation that compensates one effect of an operation."""
    targets = [effects[0]["target_ref"]]
    fields = _of_original(transaction, step) | {
        "target_refs": targets,
        "affected_subgraph_descriptor": scope_of(targets),
        "compensates_operation_id": step.operation_id,
    }
    key = _key(transaction, step, "compensation", ordinal)
    return envelope(transaction, effects[0]["effect_kind"], key, effects, fields)


def envelope(
    transaction: LedgerTransaction, verb: str, key: str, effects: list[Document], fields: Document
) -> Document:
    """Return an envelope with these fields, which reads nothing but what it writes."""
    targets = fields.get("target_refs", [])
    document = {
        "operation_id": transaction.host.new_id(),
        "envelope_version": "1.6",
        "operation_kind": verb,
        "semantic_intent": verb,
        "primitive_effects": effects,
        "idempotency_key": key,
        "actor": "system",
        "source_refs": [],
        "target_refs": targets,
        "policy_generation_id": transaction.policy_generation_id(),
        "read_set_refs": targets,
        "write_set_refs": targets,
        "recorded_at": iso_time(transaction.host.now_us()),
        "schema_version": 1,
        **fields,
    }
    if verb != ROLLBACK:
        state_taint(transaction, document)
    return document


def scope_of(node_refs: list[str]) -> Document:
    """Return the scope of an operation on these nodes and no others."""
    return {
        "scope_kind": "single_node" if len(node_refs) == 1 else "cross_corpus_subset",
        "affected_node_refs": node_refs[:MAX_REFS],
        "affected_edge_refs": [],
        "visibility_class_envelope": [],
        "estimated_cascade_depth": 0,
        "schema_version": 1,
    }


def _submittable_scope(scope: Document) -> Document:
    """Return a recorded scope as one that may be submitted, whose cost is one of a lease.

    Earlier releases recorded any cost, and what they recorded can be undone.
    """
    stated = scope.get("estimated_capacity_cost", 0)
    return scope | {"estimated_capacity_cost": COST_MAX} if stated > COST_MAX else scope


def _key(transaction: LedgerTransaction, step: RollbackStep, purpose: str, *part: int) -> str:
    """Return the key of an undoing: the same undoing is one operation until it is itself undone."""
    mark = mark_of(transaction, step.operation_id)
    of_page = () if step.recompute_of is None else (step.recompute_of,)
    return runtime_key(purpose, step.operation_id, mark["brought_back_by"], *part, *of_page)


def _of_original(transaction: LedgerTransaction, step: RollbackStep) -> Document:
    parents = dict.fromkeys([step.operation_id, *_writers(transaction, step)])
    fields = {
        "actor": step.envelope["actor"],
        "causal_parent_operation_ids": list(parents)[:MAX_CAUSAL_PARENTS],
    }
    if step.envelope.get("session_id") is not None:
        fields["session_id"] = step.envelope["session_id"]
    return fields


def _inverses(transaction: LedgerTransaction, step: RollbackStep, tier: int) -> list[Document]:
    stands: dict[Place, str] = {}
    effects = []
    for ordinal, effect in enumerate(step.of(REVERSIBLE)):
        place, state = effect.place, effect.restores
        if effect.state is not None and tier > 1:
            # What the plan has undone and made up for until now is on the record.
            history = RecordHistory(transaction, place, effect_rules_of)
            state = without(history, [step.operation_id], step.ec_sequence_number)
        if place not in stands:
            row = transaction.tables.get(schema.STORES[place[0]], place[1])
            stands[place] = "" if row is None else sha256_hex(bytes(row["record"]))
        undone = {
            "operation_id": step.operation_id,
            "effect_id": effect.declared["effect_id"],
            "store": place[0],
            "record_key": place[1],
            "restores_hash": state.content_hash,
            "replaces_hash": stands[place],
        }
        if state.record is not None:
            undone["restored_record"] = state.record
        stands[place] = state.content_hash
        effects.append(
            {
                "effect_id": f"undo:{ordinal}",
                "effect_kind": effect.declared["inverse_operation_kind"],
                "reversibility": REVERSIBLE,
                "inverse_operation_kind": effect.declared["effect_kind"],
                "undoes": undone,
                "schema_version": 1,
            }
        )
        if effect.declared.get("target_ref") is not None:
            effects[-1]["target_ref"] = effect.declared["target_ref"]
    return effects


def _writers(transaction: LedgerTransaction, step: RollbackStep) -> list[str]:
    """Return the last writers of what is undone, as parents: their writes have been seen."""
    writers = []
    for effect in step.effects:
        table = schema.STORES.get(effect.place[0])
        record = None if table is None else transaction.record(table, effect.place[1])
        if record is not None and record.get("updated_by_operation_id"):
            writers.append(record["updated_by_operation_id"])
    return writers
