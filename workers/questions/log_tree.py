"""Asks for the Merkle tree over the log: its head, that a row is in it, that it only grew."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.model.numbers import SEQUENCE_MAX
from kernel.proof.verification import ProofInvalid
from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import Limit, Name, TreeSize
from workers.questions.question import Question, QuestionRefused
from workers.questions.sessions import EVENTS_MAX
from workers.views.log_proofs import (
    ConsistencyDocument,
    InclusionDocument,
    OperationProofDocument,
    TrailProofDocument,
    TreeHeadDocument,
    consistency,
    inclusions,
    operation_proof,
    trail_proof,
    tree_head,
)


@contextmanager
def tree_sizes() -> Iterator[None]:
    """Refuse the tree of a size that the log has not.

    Raises:
        QuestionRefused: `tree_size_invalid`.
    """
    try:
        yield
    except ValueError as error:
        raise QuestionRefused(str(error), code="tree_size_invalid") from error


class GetTreeHead(Question):
    """Return the size and the root of the RFC 6962 tree over the log, or over its first rows."""

    paths: ClassVar = ("/v1/tree",)
    subject: ClassVar = "proofs"
    is_exact: ClassVar = True

    tree_size: TreeSize = None

    def answer(self, view: ReadableView) -> TreeHeadDocument:
        """Return the head."""
        with tree_sizes():
            return tree_head(view.log_tree(), self.tree_size)

    def summary(self, document: Any) -> str:
        """Return the size."""
        return f"{document['tree_size']} rows"


class ProveInclusion(Question):
    """Prove that a row is in the log: its stored bytes, and the path to the root of a tree."""

    subject: ClassVar = "proofs"
    is_exact: ClassVar = True

    ec_sequence_number: Annotated[int, Field(ge=1, le=SEQUENCE_MAX)]
    tree_size: TreeSize = None

    def answer(self, view: ReadableView) -> InclusionDocument:
        """Return the proof."""
        with tree_sizes():
            return inclusions(view, [self.ec_sequence_number], self.tree_size)[0]

    def summary(self, document: Any) -> str:
        """Return which row is in which tree."""
        size = document["tree_head"]["tree_size"]
        return f"row {self.ec_sequence_number} is in the first {size}"


class ProveConsistency(Question):
    """Prove that the log only grew since a tree of an older size: the path between the heads."""

    paths: ClassVar = ("/v1/tree/consistency/{old_tree_size}",)
    subject: ClassVar = "proofs"
    is_exact: ClassVar = True

    old_tree_size: Annotated[int, Field(ge=0, le=SEQUENCE_MAX)]
    tree_size: TreeSize = None

    def answer(self, view: ReadableView) -> ConsistencyDocument:
        """Return the proof."""
        with tree_sizes():
            return consistency(view, self.old_tree_size, self.tree_size)

    def summary(self, document: Any) -> str:
        """Return which tree begins which."""
        size = document["tree_head"]["tree_size"]
        return f"the first {self.old_tree_size} rows begin the first {size}"


class ProveOperation(Question):
    """Prove that an operation is in the log: its row, the path to a root, and its envelope."""

    paths: ClassVar = ("/v1/tree/operations/{operation_id:path}",)
    subject: ClassVar = "proofs"
    is_exact: ClassVar = True

    operation_id: Name
    tree_size: TreeSize = None

    def answer(self, view: ReadableView) -> OperationProofDocument:
        """Return the proof."""
        with tree_sizes():
            return operation_proof(view, self.operation_id, self.tree_size)

    def summary(self, document: Any) -> str:
        """Return which row it is in which tree."""
        inclusion = document["inclusion"]
        size = inclusion["tree_head"]["tree_size"]
        return f"it is row {inclusion['ec_sequence_number']} in the first {size}"


class ProveTrail(Question):
    """Prove that entries of a belief session's trail are in the log, by the row that anchors them.

    The answer ends with the last entry that the row anchors, which may be behind those asked for.
    """

    paths: ClassVar = ("/v1/tree/sessions/{session_id:path}",)
    subject: ClassVar = "proofs"
    is_exact: ClassVar = True

    session_id: Name
    first_event: Annotated[
        int, Field(ge=0, le=EVENTS_MAX, description="How many entries come before the first.")
    ] = 0
    limit: Limit = 50
    tree_size: TreeSize = None

    def answer(self, view: ReadableView) -> TrailProofDocument:
        """Return the proof."""
        shown = (self.session_id, self.first_event, self.limit, self.tree_size)
        try:
            with tree_sizes():
                return trail_proof(view, *shown)
        except ProofInvalid as error:
            raise QuestionRefused(str(error), code="envelope_erased") from error

    def summary(self, document: Any) -> str:
        """Return how many entries are in which row."""
        row = document["inclusion"]["ec_sequence_number"]
        return f"{len(document['events'])} entries are anchored by row {row}"
