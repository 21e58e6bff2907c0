"""Envelopes and ledgers for tests: valid unless a test says otherwise."""

import copy
import itertools
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from unittest.mock import patch
from uuid import NAMESPACE_OID, uuid5

import orjson

from kernel.algebra.effects import EFFECT_KINDS, expected_compensations
from kernel.authority.requests import AUTHORITY_QUEUE, ready_items
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger.ledger import GENESIS_POLICY, Ledger, LedgerTransaction, LedgerView
from kernel.ledger.schema import edges, ephemeral_receipts, metadata, nodes, receipts
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import Store, TableQuery
from kernel.model.envelope import Envelope
from kernel.model.model_output import fingerprint
from kernel.model.node_kinds import UNDERSTANDING
from kernel.records.conflicts.writes import writes_of_effects
from kernel.transaction.checks import schema as envelope_schema
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import digest
from kernel.values.host import Host, iso_time
from kernel.verify import verify
from kernel.verify.reading import Finding

START_US = 1_700_000_000_000_000
HOUR_US = 3600 * 1_000_000

ABSENT: Any = object()
"""In `changed`: the field is taken out."""


class FakeHost:
    """A clock that a test moves and randomness that repeats."""

    def __init__(self) -> None:
        self.time_us = START_US
        self.counter = itertools.count(1)
        self.host = Host(lambda: self.time_us, self._random)

    def _random(self, count: int) -> bytes:
        return next(self.counter).to_bytes(count, "big")


def memory_ledger(fake: FakeHost | None = None) -> Ledger:
    return Ledger.create(MemoryStore(), (fake or FakeHost()).host)


def ledger_on(store: Store) -> tuple[Ledger, FakeHost]:
    """A ledger and the host whose clock it reads."""
    fake = FakeHost()
    return Ledger.create(store, fake.host), fake


def twin(ledger: Ledger, fake: FakeHost) -> tuple[Ledger, FakeHost]:
    """A ledger in memory with the same rows, and a host that goes on where the other one stands."""
    other = FakeHost()
    other.time_us, other.counter = fake.time_us, copy.copy(fake.counter)
    store = MemoryStore()
    with ledger.view() as view, store.transaction() as tables:
        for table in metadata.tables.values():
            tables.insert_many(table, view.tables.scan(TableQuery(table)))
    return Ledger(store, other.host), other


def effect(kind: str, target: str | None = None, /, **payload: Any) -> dict[str, Any]:
    row = EFFECT_KINDS[kind]
    document: dict[str, Any] = {
        "effect_id": f"{kind}:{target}",
        "effect_kind": kind,
        "reversibility": row.reversibility,
        "payload": payload,
        "schema_version": 1,
    }
    if target is not None:
        document["target_ref"] = target
    if row.reversibility == "fully_reversible":
        document["inverse_operation_kind"] = row.inverses[0]
    elif row.reversibility == "compensating_operation_only":
        document["compensating_operation_kind"] = expected_compensations(kind, payload)[0]
    elif row.reversibility == "irreversible_external_effect":
        document["external_effect_descriptor"] = f"{kind} at {target}"
    return document


OPERATION_NUMBERS = itertools.count(1)


def op_id(name: str) -> str:
    """The id of the operation that a test calls by a name."""
    return str(uuid5(NAMESPACE_OID, name))


def envelope(intent: str, effects: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    number = next(OPERATION_NUMBERS)
    targets = [stated["target_ref"] for stated in effects if "target_ref" in stated]
    document: dict[str, Any] = {
        "operation_id": op_id(f"op-{number}"),
        "envelope_version": "1.6",
        "operation_kind": intent,
        "semantic_intent": intent,
        "primitive_effects": effects,
        "causal_parent_operation_ids": [],
        "idempotency_key": digest([intent, number]),
        "actor": "user",
        "source_refs": [],
        "target_refs": targets[:1],
        "policy_generation_id": GENESIS_POLICY,
        "affected_subgraph_descriptor": scope_of(effects, changes.get("write_set_refs", ())),
        "read_set_refs": [],
        "write_set_refs": targets[:1],
        "recorded_at": iso_time(START_US),
        "schema_version": 1,
    }
    document.update(changes)
    return {name: value for name, value in document.items() if value is not None}


def scope_of(effects: list[dict[str, Any]], declared: Iterable[str] = ()) -> dict[str, Any]:
    """The scope that names the targets of effects, edges as edges, and what is declared written."""
    kinds = (
        (EFFECT_KINDS.get(stated["effect_kind"]), stated.get("target_ref")) for stated in effects
    )
    targets = [(kind is not None and kind.store == edges.name, ref) for kind, ref in kinds if ref]
    edge_refs = dict.fromkeys(ref for is_edge, ref in targets if is_edge)
    written = (ref for is_edge, ref in targets if not is_edge)
    node_refs = dict.fromkeys((*written, *(ref for ref in declared if ref not in edge_refs)))
    return {
        "scope_kind": "single_node" if len(node_refs) < 2 else "node_with_neighbors",
        "affected_node_refs": [*node_refs] or ["none"],
        "affected_edge_refs": [*edge_refs],
        "visibility_class_envelope": [],
        "estimated_cascade_depth": 0,
    }


def create(node_id: str, node_kind: str, *further: dict[str, Any], **fields: Any) -> dict[str, Any]:
    changes = fields.pop("envelope", {})
    if node_kind == "ConsolidatedUnderstanding" and fields.keys().isdisjoint(
        {"source_spans", "display_kind"}
    ):
        fields |= {"source_spans": [], "display_kind": "synthesis_summary_no_spans"}
        further = (*further, unavailable(node_id))
    return envelope(
        "create",
        [
            effect("node_write", node_id, node_kind=node_kind, **fields),
            effect("membership_write", node_id, corpus_id="corpus:test", to_state="candidate"),
            *further,
        ],
        **changes,
    )


def taking(
    verb: str, node_id: str, *edges: str, corpora: tuple[str, ...] = ("corpus:test",)
) -> dict[str, Any]:
    """Takes a node with everything that hangs on it (§3.3)."""
    state = "soft_deleted" if verb == "soft_delete" else "retracted"
    node = effect("node_write", node_id, state=state)
    effects = [effect("node_retract", node_id) if verb == "collapse" else node]
    effects += [effect("edge_remove", edge) for edge in edges]
    for corpus_id in corpora:
        revocation = effect("membership_revoke", node_id, corpus_id=corpus_id)
        effects.append(revocation | {"effect_id": f"revoke:{corpus_id}"})
    return envelope(verb, effects)


def unavailable(node_id: str, **fields: Any) -> dict[str, Any]:
    """The receipt of why an understanding has no spans."""
    stated: dict[str, Any] = {
        "cu_node_ref": node_id,
        "reason": "user_marked_synthesis_no_spans",
        "source_doc_refs": [],
    }
    return effect("receipt_only", **stated | fields) | {
        "receipt_subkind": "source_span_unavailable",
        "effect_id": f"unavailable:{node_id}",
    }


def spans(*refs: str) -> dict[str, Any]:
    """What an understanding states that points at the first character of each source."""
    pointed = [{"source_ref": ref, "offset": 0, "length": 1} for ref in refs]
    return {"source_spans": pointed, "display_kind": "synthesis_with_spans"}


def drawn_from(document: dict[str, Any], *classes: str) -> dict[str, Any]:
    """The envelope that says how restricted its sources are, the most restricted last."""
    return document | {
        "source_visibility_taint": list(classes),
        "resolved_output_visibility_class": classes[-1],
    }


def belief_anchor(session_id: str, **changes: Any) -> dict[str, Any]:
    """The anchor of a session's one event; what is changed of its entry has its own name there."""
    stated = {
        "session_id": session_id,
        "prior_head_event_hash": "0" * 64,
        "first_event_index": 0,
        "last_event_index": 0,
        "head_event_hash": "ab" * 32,
    }
    stated |= {name: changes.pop(name) for name in stated.keys() & changes.keys()}
    return envelope_of_anchor([stated], **changes)


def envelope_of_anchor(sessions: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    emitted = effect("receipt_only", sessions=sessions)
    emitted |= {"receipt_subkind": "belief_sessions_anchored"}
    targets = [session["session_id"] for session in sessions]
    fields = {"actor": "system", "target_refs": targets, **changes}
    return envelope("belief_anchor", [emitted], **fields)


UNPUT = "ef" * 32
"""The place of an answer that is still to be put on the ledger."""


def model_output(operation_id: str, **changes: Any) -> dict[str, Any]:
    """What a model answered inside an operation, asked locally and with wrapped content."""
    version, prompt, parameters = "m-1", "ab" * 32, "cd" * 32
    return {
        "recorded_output_id": f"out:{operation_id}",
        "model_version": version,
        "model_provider": "local",
        "prompt_hash": prompt,
        "parameter_hash": parameters,
        "fingerprint_combined": fingerprint(version, prompt, parameters),
        "output_payload_blob_ref": UNPUT,
        "recorded_at": iso_time(START_US),
        "recorded_by_operation_id": operation_id,
        "prompt_hash_includes_wrapped_content": True,
        **changes,
    }


def answered(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The envelope with one output of a model."""
    outputs = [model_output(document["operation_id"], **changes)]
    return document | {"recorded_model_outputs": outputs}


def artifact(node_id: str, *, content: bool = True, metadata: bool = True) -> dict[str, Any]:
    """The envelope that takes something in from outside, wrapped unless a test says otherwise."""
    return create(
        node_id,
        "SourceArtifact",
        content="text",
        acquisition_shape="ingested",
        prompt_injection_isolation_wrapper_applied=content,
        metadata_wrapper_applied=metadata,
    )


def overlay(
    node_id: str, restriction: str, target_kind: str, target_ref: str, **fields: Any
) -> dict[str, Any]:
    """The envelope that lays an overlay over something, or over a stretch of it."""
    target = {"target_kind": target_kind, "target_ref": target_ref}
    target |= {name: fields.pop(name) for name in ("offset", "length") if name in fields}
    changes = fields.pop("envelope", {})
    return create(
        node_id,
        "AccessOverlay",
        target=target,
        access_restriction=restriction,
        envelope=changes,
        **fields,
    )


def link(edge_id: str, source: str, target: str, essentiality: str = "core") -> dict[str, Any]:
    return envelope(
        "document_relationship_create",
        [
            effect(
                "edge_create",
                edge_id,
                source_node_id=source,
                target_node_id=target,
                edge_type="informs",
                edge_metadata={"essentiality": essentiality},
            )
        ],
    )


def submit(
    ledger: Ledger,
    *documents: Any,
    kernel: Kernel | None = None,
    submitter: str = "caller",
    unseen: bool = False,
    principal: str | None = None,
):
    """Submit envelopes whose author knows the record as it stands, or has seen nothing of it.

    Of a principal each is brought by its key, and says so.
    """
    if principal is not None:
        documents = tuple({"principal": principal, **document} for document in documents)
    with ledger.transaction() as transaction:
        results = [
            (kernel or Kernel()).submit(
                transaction,
                with_answers(transaction, document if unseen else informed(transaction, document)),
                submitter,  # type: ignore[arg-type]
                principal=principal,
            )
            for document in documents
        ]
    return results[0] if len(results) == 1 else results


def unmeasured() -> AbstractContextManager[Any]:
    """V1 as earlier releases had it: they recorded costs and durations of any size."""
    return patch.object(envelope_schema, "VALIDATE", Envelope.__pydantic_validator__.validate_json)


def with_answers(transaction: LedgerTransaction, document: Any) -> Any:
    """Put what the models said where the envelope only says that they said something."""
    stated = document.get("recorded_model_outputs") if isinstance(document, dict) else None
    if not isinstance(stated, list) or not any(
        output.get("output_payload_blob_ref") == UNPUT for output in stated
    ):
        return document
    document = copy.deepcopy(document)
    for output in document["recorded_model_outputs"]:
        output["output_payload_blob_ref"] = transaction.put_blob(b"what a model said")
    return document


def informed(view: LedgerView, document: Any) -> Any:
    """Name who wrote the envelope's records last, where it names no causal parents of its own."""
    try:
        if document["causal_parent_operation_ids"]:
            return document
        if view.live_idempotency_record(document["idempotency_key"]) is not None:
            return document
        effects = [stated for stated in document["primitive_effects"] if "target_ref" in stated]
        keys = {(table, stated["target_ref"]) for stated in effects for table in (nodes, edges)}
        keys |= {(write.table, write.record_key) for write in writes_of_effects(effects)}
        records = [view.record(table, key) for table, key in keys]
    except (AttributeError, KeyError, TypeError):
        return document
    written = {record["updated_by_operation_id"] for record in records if record is not None}
    parents = {
        operation_id for operation_id in written if operation_id != document.get("operation_id")
    }
    # In place: whoever submits it again submits the same.
    document["causal_parent_operation_ids"] = sorted(parents)
    return document


def output(operation_id: str, blob_ref: str, name: str = "output", **stated: Any) -> dict[str, Any]:
    """What an envelope states of a model's answer; its fingerprint fits its parts."""
    parts = {
        "model_version": "claude-opus-4-7",
        "prompt_hash": digest(["prompt", name]),
        "parameter_hash": digest(["parameters", name]),
    } | {key: stated.pop(key) for key in list(stated) if key in _PARTS}
    return {
        "recorded_output_id": f"{operation_id}:{name}",
        "model_provider": "anthropic",
        **parts,
        "fingerprint_combined": fingerprint(*(parts[key] for key in _PARTS)),
        "output_payload_blob_ref": blob_ref,
        "recorded_at": iso_time(START_US),
        "recorded_by_operation_id": operation_id,
        "prompt_hash_includes_wrapped_content": True,
        **stated,
    }


_PARTS = ("model_version", "prompt_hash", "parameter_hash")


def submit_answered(ledger: Ledger, document: dict[str, Any], *answers: bytes, **stated: Any):
    """Submit an envelope with what models answered, as the orchestrator does."""
    with ledger.transaction() as transaction:
        outputs = [
            output(document["operation_id"], transaction.put_blob(answer), f"{number}", **stated)
            for number, answer in enumerate(answers)
        ]
        document = informed(transaction, {**document, "recorded_model_outputs": outputs})
        return Kernel().submit(transaction, document, "orchestrator")


def adapt(node_id: str, *, envelope_changes: Any = None, **fields: Any) -> dict[str, Any]:
    return envelope(
        "field_adapt", [effect("node_write", node_id, **fields)], **(envelope_changes or {})
    )


def unlink(edge_id: str) -> dict[str, Any]:
    """Remove an edge; no verb of its own does that, so an annotation of its graph does."""
    return relink(effect("edge_remove", edge_id))


def relink(*effects: dict[str, Any]) -> dict[str, Any]:
    """Change edges under the verb that may, whatever the effects; none is a reclassification."""
    idle = effect("edge_reclassify", effects[0]["target_ref"]) | {"effect_id": "idle"}
    return envelope("document_relationship_update", [idle, *effects])


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with the values at dotted paths set, or taken out where they are ABSENT."""
    result = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place: Any = result
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        key: Any = int(last) if isinstance(place, list) else last
        if value is ABSENT:
            del place[key]
        else:
            place[key] = value
    return result


def places(value: Any, path: str = "") -> Iterator[str]:
    """Every dotted path into a document."""
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return
    for name, item in items:
        here = f"{path}{name}"
        yield here
        yield from places(item, f"{here}.")


def accept(ledger: Ledger, *documents: dict[str, Any]) -> str:
    """Submit as the orchestrator what has to be accepted; return the last one's operation."""
    for document in documents:
        result = submit(ledger, document, submitter="orchestrator")
        assert code_of(result) is None, result
    operation_id: str = documents[-1]["operation_id"]
    return operation_id


def advance_policy(ledger: Ledger, name: str = "PG-2", **payload: Any) -> None:
    """Put a policy generation in force; envelopes name it from then on."""
    with ledger.view() as view:
        current = view.policy_generation_id()
    stated = {"prior_policy_generation_id": current, **payload}
    kind = "policy_snapshot_advance"
    document = envelope(kind, [effect(kind, name, **stated)], policy_generation_id=current)
    result = submit(ledger, document, submitter="orchestrator")
    assert code_of(result) is None, result


def recompute(
    view: LedgerView, node_id: str, as_of: int | None = None, read: Any = None, **changes: Any
) -> dict[str, Any]:
    """The envelope of a recompute that read (value, inputs) as of a sequence; by default now."""
    if read is None:
        node = view.node(node_id)
        assert node is not None
        read = authority_of(view, BetaPosteriorMean(), node)
    value, inputs = read
    entry = {"cu_authority": value}
    written = {
        "cu_authority": value,
        "cu_authority_computed_at": iso_time(START_US),
        **inputs.payload(),
    }
    return envelope(
        "recalculate_authority",
        [
            effect("node_write", node_id, **written),
            effect("index_update", node_id, index_name="authority_index", entry=entry),
        ],
        actor="system",
        policy_generation_id=view.policy_generation_id(),
        recompute_as_of_sequence=view.head().ec_sequence_number if as_of is None else as_of,
        **changes,
    )


def work(ledger: Ledger, document: dict[str, Any]):
    """Submit as a worker does, through the orchestrator."""
    return submit(ledger, document, submitter="orchestrator")


def drain(ledger: Ledger, names: str | None = None) -> list[str]:
    """Recompute what is ready until nothing is open; return the order of the understandings.

    With `names` the operations are called so, numbered, and not by the counter of the builders.
    """
    order: list[str] = []
    while True:
        with ledger.view() as view:
            ready = ready_items(view, view.open_requests())
            if not ready:
                waiting = view.open_requests(queue=AUTHORITY_QUEUE)
                assert not waiting, "open requests, and none of them is ready"
                return order
            named = f"{names}:{len(order)}"
            own: dict[str, Any] = {"operation_id": named, "idempotency_key": named} if names else {}
            document = recompute(view, ready[0].item_key, **own)
        result = work(ledger, document)
        assert code_of(result) is None, result
        order.append(ready[0].item_key)


def code_of(result: Any) -> str | None:
    """The reason code of a rejection, None for an accepted operation."""
    rejection = getattr(result, "rejection", None)
    return None if rejection is None else rejection.reason_code


def everything(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in the order of the keys."""
    with ledger.view() as view:
        return {
            table.name: sorted(
                (dict(row) for row in view.tables.scan(TableQuery(table))),
                key=lambda row: [row[column.name] for column in table.primary_key.columns],
            )
            for table in metadata.sorted_tables
        }


def receipts_of_kind(ledger: Ledger, kind: str) -> list[dict[str, Any]]:
    """The receipts of a kind, the durable and the brief ones, in the order of their record."""
    with ledger.view() as view:
        return receipts_in_view(view, kind)


def receipts_in_view(view: LedgerView, kind: str) -> list[dict[str, Any]]:
    """The receipts of a kind that a view shows, the durable and the brief ones, as recorded."""
    return [
        orjson.loads(row["receipt_bytes"])
        for table in (receipts, ephemeral_receipts)
        for row in view.tables.scan(TableQuery(table, {"receipt_kind": kind}))
    ]


def findings(ledger: Ledger) -> tuple[Finding, ...]:
    """What verification finds wrong with the record."""
    with ledger.view() as view:
        return verify(view).findings


def feeding_understandings(view: LedgerView, node_id: str) -> set[str]:
    """Every understanding upstream of one, itself only where it lies on a cycle."""
    feeding: set[str] = set()
    waiting = view.input_sources(node_id, UNDERSTANDING)
    while waiting:
        source = waiting.pop()
        if source not in feeding:
            feeding.add(source)
            waiting.extend(view.input_sources(source, UNDERSTANDING))
    return feeding


def understandings(view: LedgerView) -> list[dict[str, Any]]:
    return view.nodes_of_kind(UNDERSTANDING, after=None, limit=1000)


class Undone(Exception):
    pass


def _leave() -> None:
    raise Undone


@contextmanager
def abandoned(block: AbstractContextManager[Any]) -> Iterator[Any]:
    """A transaction or a savepoint that an exception leaves at its end."""
    with suppress(Undone), block as held:
        yield held
        _leave()
