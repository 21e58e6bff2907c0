"""Detectors that a test gives to the process that runs detectors."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actors.implications.detector import CommittedOperation
from actors.orchestrator.intents import AdaptFields, Implication
from kernel.ledger.ledger import LedgerView


def change(operation: CommittedOperation, node_id: str, **fields: object) -> Implication:
    intent = AdaptFields(
        intent_key=f"{operation.operation_id}:{node_id}", node_id=node_id, fields=fields
    )
    return Implication(intent=intent, implied_by_operation_ids=(operation.operation_id,))


@dataclass(frozen=True)
class _Changing:
    """Changes the target of each operation, so that it says what came before."""

    name: str
    semantic_intents: frozenset[str]
    field: str
    says: str
    """The attribute of the operation that is said."""

    def detect(
        self, operations: Sequence[CommittedOperation], view: LedgerView
    ) -> Iterable[Implication]:
        del view
        for operation in operations:
            [node_id] = operation.envelope["target_refs"]
            yield change(operation, node_id, **{self.field: getattr(operation, self.says)})


TAGGING = _Changing("tagging", frozenset({"create"}), "tagged_by", "operation_id")
"""Tags every node that is created, once."""

ENDLESS = _Changing("endless", frozenset({"field_adapt"}), "changed_after", "ec_sequence_number")
"""Changes what was changed, by itself or by anybody."""


@dataclass(frozen=True)
class Repeating:
    """Says much of each operation."""

    name: str = "repeating"
    semantic_intents: frozenset[str] = frozenset({"create"})
    times: int = 3

    def detect(
        self, operations: Sequence[CommittedOperation], view: LedgerView
    ) -> Iterable[Implication]:
        del view
        for operation in operations:
            [node_id] = operation.envelope["target_refs"]
            for number in range(self.times):
                said = change(operation, node_id, **{f"said_{number}": number})
                key = f"{said.intent.intent_key}:{number}"
                intent = said.intent.model_copy(update={"intent_key": key})
                yield said.model_copy(update={"intent": intent})


@dataclass(frozen=True)
class SlowToLoad(_Changing):
    """Takes its time in the process that is given it, before that has begun."""

    load_s: float = 0.0

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        time.sleep(self.load_s)


@dataclass(frozen=True)
class Failing:
    """Answers nothing of use, in the way of its name."""

    name: str
    semantic_intents: frozenset[str] = frozenset({"create"})

    def detect(
        self, operations: Sequence[CommittedOperation], view: LedgerView
    ) -> Iterable[Implication]:
        del view
        if self.name == "raises":
            raise RuntimeError("a defect")
        if self.name == "hangs":
            while True:
                time.sleep(0)
        if self.name == "ends":
            raise SystemExit(1)
        if self.name == "answers-envelopes":
            return [{"operation_id": "an envelope"}]  # type: ignore[list-item]
        if self.name == "names-others":
            return [
                Implication(intent=each.intent, implied_by_operation_ids=("unseen",))
                for each in (change(operations[0], "n", title="t"),)
            ]
        if self.name == "names-nothing-there":
            return [change(operations[0], "not-there", title="t")]
        return self._without_end(operations[0])

    def _without_end(self, operation: CommittedOperation) -> Iterable[Implication]:
        while True:
            yield change(operation, "n", title="t")
