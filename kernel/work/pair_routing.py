"""Pairs bindings with artifacts, and asks for their evaluation (§13.3, §13.4).

An operation that brings an artifact, completes one of its phases, or changes a binding, writes what
follows from it in its own transaction (K19): `follow_operation`. The result is computed, never
stated: for each active binding whose intake selectors the artifact matches, the newest pair of the
generation in force and the event that brought the artifact has to be as `_bring_up_to_date` says.
So it does not matter in which order bindings, artifacts and phases came, and nothing happens twice.

At most `PAIRS_AT_ONCE` pairs or `ARTIFACTS_AT_ONCE` artifacts are looked at in one step. The rest
is left under a mark, from which `route_page` goes on (decision kernel/0283). Both numbers are
rules: verification computes the same pages.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.outbox import add_request, end_request
from kernel.ledger.record_keys import routing_mark_key
from kernel.model.bindings.artifacts import ActiveArtifact, read_artifact
from kernel.model.bindings.selectors import PHASES, SELECTOR_KINDS
from kernel.model.node_kinds import SOURCE_ARTIFACT, SOURCE_BINDING
from kernel.records.active_bindings import (
    ActiveBinding,
    active_generation,
    binding_with_selectors,
    match_at_head,
)
from kernel.records.binding_pairs import (
    OWN_STATES,
    UNFINISHED,
    Pair,
    begin_pair,
    make_ready,
    newest_pair,
    pair_state,
    pairs_awaiting,
    remove_pair,
    some_pairs_of_event,
)
from kernel.records.operation_steps import AppliedOperation
from kernel.values.canonical import canonicalize_plain
from kernel.values.host import iso_time
from kernel.work.contents import BINDING_QUEUE

PAIRS_AT_ONCE: Final = 256
ARTIFACTS_AT_ONCE: Final = 64

BINDING, ARTIFACT, _EVENT = "binding", "artifact", "event"
"""The sorts of marks: a binding, an artifact, or an event is routed."""

_EVERY_PAIR, _UNFINISHED = "every", "unfinished"

_NODES, _SNAPSHOTS = schema.nodes.name, schema.binding_generation_snapshots.name
_ROUTED = (SOURCE_ARTIFACT, SOURCE_BINDING)


def follow_operation(operation: AppliedOperation) -> None:
    """Write what an operation means for bindings and artifacts, once all of it was applied."""
    place = operation.transaction, operation.sequence, operation.operation_id
    changed_bindings, artifacts = _bindings_and_artifacts(operation)
    if changed_bindings:
        operation.transaction.wrote_bindings = True
    for before, node in artifacts:
        _Routing(*place).follow_artifact(
            read_artifact(before), read_artifact(node), undoes=bool(operation.undone)
        )
    for binding_id in changed_bindings:
        _Routing(*place).page_of_binding(binding_id, "")


def _bindings_and_artifacts(
    operation: AppliedOperation,
) -> tuple[Iterable[str], list[tuple[Document | None, Document | None]]]:
    """Return the bindings that an operation wrote, and the artifacts before and after it."""
    transaction = operation.transaction
    changed_bindings = dict[str, None]()
    befores = dict[str, str | None]()
    for write in operation.writes:
        if write.store == _SNAPSHOTS:
            changed_bindings[write.record_key.rpartition("|")[0]] = None
        elif write.store == _NODES:
            befores.setdefault(write.record_key, write.pre_image_hash)
    artifacts: list[tuple[Document | None, Document | None]] = []
    for node_id, before_hash in befores.items():
        node = transaction.node(node_id)
        if node is not None and node["node_kind"] not in _ROUTED:
            continue
        content = transaction.pre_image(before_hash) if before_hash else None
        before = None if content is None else orjson.loads(content)
        kind = (node or before or {}).get("node_kind")
        if kind == SOURCE_BINDING:
            changed_bindings[node_id] = None
        elif kind == SOURCE_ARTIFACT:
            artifacts.append((before, node))
    return changed_bindings, artifacts


def route_page(transaction: LedgerTransaction, mark_id: str) -> None:
    """Go on from a mark, at the head's place and clock, and move it or take it away."""
    row = transaction.tables.get(schema.routing_marks, mark_id)
    if row is not None:
        routing = _Routing(transaction, transaction.head_now.ec_sequence_number, None)
        sort, _, name = mark_id.partition("|")
        routing.go_on(sort, name, row["routed_to"])


class _Routing:
    """One step of routing, by an operation or by a page."""

    def __init__(
        self, transaction: LedgerTransaction, sequence: int, operation_id: str | None
    ) -> None:
        self._transaction = transaction
        self._sequence = sequence
        self._operation_id = operation_id

    def follow_artifact(
        self, before: ActiveArtifact | None, after: ActiveArtifact | None, *, undoes: bool
    ) -> None:
        """Write what follows from an artifact's node being another than before."""
        is_same_event = (
            before is not None
            and after is not None
            and before.source_event_id == after.source_event_id
        )
        if before is not None and not is_same_event:
            scope = _EVERY_PAIR if undoes else _UNFINISHED
            self._page_of_event(before.source_event_id, scope)
        if after is None or (before is not None and is_same_event and before == after):
            return
        if before is not None and is_same_event and _only_finds_more(before, after):
            self._release(before, after)
        else:
            self._page_of_artifact(after, "")

    def go_on(self, sort: str, name: str, routed_to: str) -> None:
        """Write the next page of a mark."""
        if sort == BINDING:
            self.page_of_binding(name, routed_to)
        elif sort == _EVENT:
            self._page_of_event(name, routed_to)
        else:
            artifact = read_artifact(self._transaction.node(name))
            if artifact is None:
                self._mark(ARTIFACT, name, None)
            else:
                self._page_of_artifact(artifact, routed_to)

    def page_of_binding(self, binding_id: str, after: str) -> None:
        """Route the artifacts that are there to a binding that is active since."""
        routed = binding_with_selectors(self._transaction, binding_id)
        page = []
        if routed is not None:
            binding, selectors = routed
            intake = selectors.until("intake_time")
            page = self._transaction.nodes_of_kind(
                SOURCE_ARTIFACT, after=after or None, limit=ARTIFACTS_AT_ONCE
            )
            for node in page:
                artifact = read_artifact(node)
                if artifact is not None and intake.matches(artifact.fields):
                    self._bring_up_to_date(binding, artifact)
        is_full = len(page) == ARTIFACTS_AT_ONCE
        self._mark(BINDING, binding_id, page[-1]["node_id"] if is_full else None)

    def _page_of_artifact(self, artifact: ActiveArtifact, after: str) -> None:
        """Route an artifact to the bindings that its intake fields match."""
        bindings = match_at_head(self._transaction, artifact.fields)
        begin = next(
            (place for place, each in enumerate(bindings) if _place(each) > after), len(bindings)
        )
        page = bindings[begin : begin + PAIRS_AT_ONCE]
        for binding in page:
            self._bring_up_to_date(binding, artifact)
        has_more = begin + len(page) < len(bindings)
        self._mark(ARTIFACT, artifact.artifact_ref, _place(page[-1]) if has_more else None)

    def _page_of_event(self, source_event_id: str, scope: str) -> None:
        """Take back the pairs of an event whose artifact does not stand any more."""
        states = OWN_STATES if scope == _EVERY_PAIR else UNFINISHED
        pairs = some_pairs_of_event(
            self._transaction, source_event_id, states, limit=PAIRS_AT_ONCE + 1
        )
        for pair in pairs[:PAIRS_AT_ONCE]:
            self._take_back(pair)
        self._mark(_EVENT, source_event_id, scope if len(pairs) > PAIRS_AT_ONCE else None)

    def _release(self, before: ActiveArtifact, after: ActiveArtifact) -> None:
        """Ask for the evaluations that waited for what has been completed, and for nothing else."""
        passed = PHASES[PHASES.index(before.phase) + 1 : PHASES.index(after.phase) + 1]
        room = PAIRS_AT_ONCE
        for phase in passed:
            waiting = pairs_awaiting(self._transaction, after.artifact_ref, phase, limit=room + 1)
            for pair in waiting[:room]:
                binding = active_generation(
                    self._transaction, pair.binding_id, pair.binding_generation_id
                )
                # Of a binding that is disabled or changed the page of the binding looks after it.
                stands = pair_state(self._transaction, pair) == pair.state
                if binding is not None and stands:
                    self._ask(pair, binding, after)
            room -= len(waiting)
            if room < 0:
                # The whole artifact is looked at again, which finds those that still wait.
                self._mark(ARTIFACT, after.artifact_ref, "")
                return

    def _bring_up_to_date(self, binding: ActiveBinding, artifact: ActiveArtifact) -> None:
        """Bring the newest pair of a generation and an event to where the artifact is now.

        1. Where there is none, it begins.
        2. Where it was not evaluated and the artifact is not as it was when that was asked for, it
           begins anew. Where it was, a further evaluation begins.
        3. It waits while the artifact has not passed the phase that its selectors need. Once it
           has, its evaluation is asked for.
        """
        pair = newest_pair(
            self._transaction,
            artifact.source_event_id,
            binding.binding_id,
            binding.binding_generation_id,
        )
        has_passed = artifact.has_passed(binding.required_phase)
        inputs = artifact.inputs_digest(binding.kinds) if has_passed else None
        if pair is None:
            pair = self._begin(binding, artifact, 1)
        elif not pair.is_waiting and pair.inputs_digest != inputs:
            number = pair.evaluation_number
            if pair.is_unfinished:
                self._take_back(pair)
            else:
                number += 1
            pair = self._begin(binding, artifact, number)
        if pair.is_waiting and has_passed:
            self._ask(pair, binding, artifact)

    def _begin(self, binding: ActiveBinding, artifact: ActiveArtifact, number: int) -> Pair:
        return begin_pair(
            self._transaction,
            (binding.binding_id, binding.binding_generation_id),
            artifact.artifact_ref,
            artifact.source_event_id,
            evaluation_number=number,
            awaited_phase=binding.required_phase,
        )

    def _ask(self, pair: Pair, binding: ActiveBinding, artifact: ActiveArtifact) -> None:
        """Ask for the evaluation of a pair (§13.4 stage 2)."""
        content = {
            "binding_id": pair.binding_id,
            "binding_generation_id": pair.binding_generation_id,
            "source_event_id": pair.source_event_id,
            "artifact_ref": pair.artifact_ref,
            "target_kind": binding.target_kind,
            "capacity_priority": binding.capacity_priority,
            "schema_version": 1,
        }
        request_id = self._open_request(pair, binding.capacity_priority, content)
        make_ready(self._transaction, pair, request_id, artifact.inputs_digest(binding.kinds))

    def _open_request(self, pair: Pair, priority: str, content: dict[str, Any]) -> str:
        head = self._transaction.head_now
        head.request_sequence += 1
        request_id = f"request:{head.request_sequence}:{pair.pair_id}"
        document = {
            "request_id": request_id,
            "queue": BINDING_QUEUE,
            "item_key": pair.source_event_id,
            "priority": priority,
            "request_key": request_id,
            "content": content,
            "enqueued_at": iso_time(head.committed_at_us),
        }
        add_request(
            self._transaction.tables,
            {
                "request_id": request_id,
                "request_sequence": head.request_sequence,
                "queue": BINDING_QUEUE,
                "item_key": pair.source_event_id,
                "priority": priority,
                "cause_sequence": self._sequence,
                "enqueued_at_us": head.committed_at_us,
                "request_bytes": canonicalize_plain(document),
            },
        )
        return request_id

    def _take_back(self, pair: Pair) -> None:
        """Remove a pair, and cancel its request where that is open."""
        request_id = pair.request_id
        if request_id is not None and self._transaction.open_request(request_id) is not None:
            end_request(
                self._transaction.tables,
                request_id,
                outcome="cancelled",
                operation_id=self._operation_id,
                closed_sequence=self._sequence,
                closed_at_us=self._transaction.head_now.committed_at_us,
            )
        remove_pair(self._transaction, pair)

    def _mark(self, sort: str, name: str, routed_to: str | None) -> None:
        """Leave a mark where there is more to route, and take it away where there is not."""
        table, mark_id = routing_mark_key(sort, name)
        tables = self._transaction.tables
        if routed_to is not None:
            tables.put(table, {"mark_id": mark_id, "routed_to": routed_to})
        elif tables.get(table, mark_id) is not None:
            tables.delete(table, mark_id)


def _place(binding: ActiveBinding) -> str:
    """Return a binding's rank as a text that sorts like it."""
    return f"{_RANK_BASE - binding.priority:06}|{binding.binding_id}"


_RANK_BASE: Final = 100_000


def _only_finds_more(before: ActiveArtifact, after: ActiveArtifact) -> bool:
    """Tell whether what was known before is known still, and is the same."""
    return after.has_passed(before.phase) and all(
        before.fields.get(kind) == after.fields.get(kind)
        for kind, phase in SELECTOR_KINDS.items()
        if before.has_passed(phase)
    )
