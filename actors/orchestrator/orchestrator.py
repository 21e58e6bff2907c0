"""Turns an intent into an envelope, which nothing else does (§2.1, §20).

It runs inside the transaction into which the envelope is submitted, so what it reads is what the
kernel checks against: taint, causal parents and policy cannot go stale in between (decision
actors/0001).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from actors.errors import IntentInvalid
from actors.orchestrator.intents import Intent, purpose_of
from actors.orchestrator.model_outputs import recorded_outputs
from actors.orchestrator.resolved_operation import ResolvedOperation
from actors.orchestrator.resolvers import resolve
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import MAX_CAUSAL_PARENTS, Implied
from kernel.model.recomputes import CAUSES, RECALCULATE
from kernel.records.sources import state_taint
from kernel.values.canonical import digest
from kernel.values.host import Host, iso_time
from kernel.values.idempotency_keys import caller_key, runtime_key

DEFAULT_CAUSAL_WINDOW_MINUTES = 24 * 60

_US_PER_MINUTE = 60 * 1_000_000
_KEPT_CHARS_MAX = 1024
"""Characters of the input of an idempotency key, up to which the key stays in memory."""


class Orchestrator:
    """Builds envelopes; decides nothing that the intent and the ledger do not say."""

    def __init__(
        self, host: Host, causal_window_minutes: int = DEFAULT_CAUSAL_WINDOW_MINUTES
    ) -> None:
        self._host = host
        self._causal_window_us = causal_window_minutes * _US_PER_MINUTE

    def construct(
        self,
        intent: Intent,
        view: LedgerView,
        *,
        actor: Literal["user", "system", "migration"],
        session_id: str | None,
        answer_refs: Sequence[str] = (),
        implied: Implied | None = None,
        principal: str | None = None,
    ) -> Document:
        """Return the envelope of an intent, complete as §2.1 asks (R1 to R9 of §20.4).

        `answer_refs` are the payloads of the model's answers that the intent brings, in order.
        `principal` is whose key brought the intent; it is neither in its digest nor in its key.
        `implied` says which detector's run emits it, and by what it is implied (§19.1).

        Raises:
            IntentInvalid: when the intent cannot be resolved.
        """
        started_us = self._host.now_us()
        causes_since = iso_time(started_us - self._causal_window_us)
        operation = resolve(intent, view)
        if implied is not None:
            sources = _commit_times(view, implied.implied_by_operation_ids)
            operation = replace(operation, causes={**operation.causes, **sources})
        policy = view.policy_generation_id()
        touched = {
            ref: node
            for ref in dict.fromkeys((*operation.read_set, *operation.write_set))
            if (node := view.node(ref)) is not None
        }
        document: Document = {
            "operation_id": self._host.new_id(),
            "envelope_version": "1.6",
            "operation_kind": operation.operation_kind or operation.semantic_intent,
            "semantic_intent": operation.semantic_intent,
            "primitive_effects": [
                {**effect, "effect_id": str(number)}
                for number, effect in enumerate(operation.effects)
            ],
            "causal_parent_operation_ids": _causal_parents(touched, operation, causes_since),
            "idempotency_key": idempotency_key(
                intent, actor, operation.semantic_intent, operation.target_refs, policy
            ),
            "intent_digest": intent_digest(intent),
            "actor": actor,
            "source_refs": list(operation.source_refs),
            "target_refs": list(operation.target_refs),
            "policy_generation_id": policy,
            "read_set_refs": list(operation.read_set),
            "write_set_refs": list(operation.write_set),
            "recorded_at": iso_time(started_us),
            "schema_version": 1,
            **operation.extra,
        }
        if session_id is not None:
            document["session_id"] = session_id
        if principal is not None:
            document["principal"] = principal
        if implied is not None:
            document["implication"] = implied.model_dump(mode="json")
        override = intent.as_requested().capacity_override
        if override is not None:
            document["capacity_override"] = override.model_dump()
        for part in operation.parts:
            own = {ref: touched[ref] for ref in part.read_set if ref in touched}
            # The envelope holds the effects that the parts were resolved to.
            part.effects[1]["payload"][CAUSES] = _causal_parents(own, part, causes_since)
        state_taint(view, document, deep=operation.semantic_intent != RECALCULATE)
        if answer_refs:
            document["recorded_model_outputs"] = recorded_outputs(
                intent, answer_refs, document["operation_id"], view
            )
        _stamp_times(document)
        document["affected_subgraph_descriptor"] = _scope(document, operation)
        document["effect_set_refs"] = [str(number) for number in range(len(operation.effects))]
        document["duration_ms"] = max(0, self._host.now_us() - started_us) / 1000
        return document

    def causes_since(self) -> str:
        """Return the time since which whoever wrote what an operation reads is among its causes."""
        return iso_time(self._host.now_us() - self._causal_window_us)


def _causal_parents(
    touched: Mapping[str, Document], operation: ResolvedOperation, since: str
) -> list[str]:
    """Return the newest operations that wrote what this one reads or writes, oldest first (K11).

    Of a node that was read before the transaction it is the operation whose work was seen.
    """
    written = (
        operation.versions_read.get(ref, (node["updated_by_operation_id"], node["updated_at"]))
        for ref, node in touched.items()
    )
    parents = {operation_id: at for operation_id, at in written if at > since}
    parents |= operation.causes
    # Commit times rise with the sequence, so they sort as it does.
    return sorted(parents, key=parents.__getitem__)[-MAX_CAUSAL_PARENTS:]


def _commit_times(view: LedgerView, operation_ids: Sequence[str]) -> dict[str, str]:
    rows = ((operation_id, view.log_row_of(operation_id)) for operation_id in operation_ids)
    return {operation_id: row["committed_at"] for operation_id, row in rows if row is not None}


def intent_digest(intent: Intent) -> str:
    """Return the digest of a request; two requests with the same digest are the same.

    Raises:
        IntentInvalid: when the intent has no canonical form.
    """
    try:
        request = intent.as_requested().model_dump(
            mode="json", exclude_none=True, exclude={"capacity_override"}
        )
        return digest(request)
    except ValueError as error:
        raise IntentInvalid(f"the intent has no canonical form: {error}", "") from None


def _stamp_times(document: Document) -> None:
    for effect in document["primitive_effects"]:
        if "cu_authority" in effect["payload"]:
            effect["payload"]["cu_authority_computed_at"] = document["recorded_at"]
        if effect["effect_kind"] == "binding_generation_advance":
            effect["payload"]["effective_at"] = document["recorded_at"]


def idempotency_key(
    intent: Intent, actor: str, verb: str, targets: tuple[str, ...], policy: str
) -> str:
    """Return the key under which a request takes effect once (§2.5, K6).

    It is in the scope of who asks: a producer, or the runtime, whose keys nobody else can state.
    """
    bucket, purpose = intent.bucket, purpose_of(type(intent), actor)
    length = len(actor) + len(verb) + sum(map(len, targets)) + len(policy) + len(bucket)
    derive = kept_key if length <= _KEPT_CHARS_MAX else _derived_key
    return derive(purpose, actor, verb, targets, policy, bucket)


def _derived_key(
    purpose: str | None, actor: str, verb: str, targets: tuple[str, ...], policy: str, bucket: str
) -> str:
    parts = (actor, verb, sorted(targets), policy, bucket)
    return caller_key(*parts) if purpose is None else runtime_key(purpose, *parts)


kept_key = lru_cache(maxsize=1024)(_derived_key)
"""A batch asks twice: to read ahead, and when the envelope is built."""


def _scope(document: Document, operation: ResolvedOperation) -> Document:
    resolved = document.get("resolved_output_visibility_class")
    return {
        "scope_kind": operation.scope_kind
        or ("node_with_neighbors" if operation.neighbours else "single_node"),
        "affected_node_refs": [*operation.target_refs, *operation.neighbours],
        "affected_edge_refs": list(operation.edge_refs),
        "visibility_class_envelope": [resolved] if resolved else list(operation.visibility),
        "estimated_cascade_depth": 1 if operation.neighbours else 0,
        "schema_version": 1,
    }
