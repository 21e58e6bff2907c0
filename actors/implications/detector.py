"""Declares the port of whatever detects what committed operations imply (§19.1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from actors.orchestrator.intents import Implication
from kernel.ledger.ledger import Document, LedgerView


@dataclass(frozen=True, slots=True)
class CommittedOperation:
    """An operation of the log, as a detector is shown it."""

    ec_sequence_number: int
    operation_id: str
    committed_at: str
    envelope: Document
    """The envelope as it is recorded; an operation whose envelope was erased is not shown."""

    @property
    def effects(self) -> list[dict[str, Any]]:
        """The effects of the operation, as they are stated."""
        effects: list[dict[str, Any]] = self.envelope["primitive_effects"]
        return effects


class ImplicationDetector(Protocol):
    """Says what operations imply; writes nothing, and may be asked again for the same ones.

    A detector is asked in a process of its own that only reads, one page after the other, in the
    order of the log. It sees what other detectors and it itself have emitted, in a later run than
    the one that emitted it. One that raises, takes too long or answers too much is asked again a
    few times, and then halted with nothing of the page recorded.
    """

    @property
    def name(self) -> str:
        """The name under which the record knows it; another name begins at the first row."""

    @property
    def semantic_intents(self) -> frozenset[str]:
        """The verbs of the operations that it is shown."""

    def detect(
        self, operations: Sequence[CommittedOperation], view: LedgerView
    ) -> Iterable[Implication]:
        """Return what the operations imply; the view has them and what followed.

        The same operations and the same state give the same intents under the same keys. An
        implication names the operations of the page that imply it.
        """
