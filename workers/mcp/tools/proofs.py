"""Tools of the log's Merkle tree: its head, that a row is in it, that it only grew."""

from collections.abc import Callable
from typing import Annotated, ClassVar, TypeVar

from pydantic import Field

from kernel.ledger.ledger import LedgerView
from kernel.model.numbers import SEQUENCE_MAX
from workers.mcp.fields import Sequence, TreeSize
from workers.mcp.tool import Document, Tool, ToolContext, ToolRefused
from workers.views.log_proofs import consistency, inclusions, tree_head

T = TypeVar("T")


class GetTreeHead(Tool):
    """Return the size and the root of the RFC 6962 tree over the log, or over its first rows."""

    is_exact: ClassVar[bool] = True
    tree_size: TreeSize = None

    async def answer(self, context: ToolContext) -> Document:
        """Return the head."""
        head = await _asked(context, lambda view: tree_head(view.log_tree(), self.tree_size))
        return {"summary": f"{head['tree_size']} rows", **head}


class ProveInclusion(Tool):
    """Prove that a row is in the log: its stored bytes, and the path to the root of a tree."""

    is_exact: ClassVar[bool] = True
    ec_sequence_number: Sequence
    tree_size: TreeSize = None

    async def answer(self, context: ToolContext) -> Document:
        """Return the proof."""
        [proof] = await _asked(
            context, lambda view: inclusions(view, [self.ec_sequence_number], self.tree_size)
        )
        size = proof["tree_head"]["tree_size"]
        return {"summary": f"row {self.ec_sequence_number} is in the first {size}", **proof}


class ProveConsistency(Tool):
    """Prove that the log only grew since a tree of an older size: the path between the heads."""

    is_exact: ClassVar[bool] = True
    old_tree_size: Annotated[int, Field(ge=0, le=SEQUENCE_MAX)]
    tree_size: TreeSize = None

    async def answer(self, context: ToolContext) -> Document:
        """Return the proof."""
        proof = await _asked(
            context, lambda view: consistency(view, self.old_tree_size, self.tree_size)
        )
        size = proof["tree_head"]["tree_size"]
        return {"summary": f"the first {self.old_tree_size} rows begin the first {size}", **proof}


async def _asked(context: ToolContext, question: Callable[[LedgerView], T]) -> T:
    try:
        return await context.read(question)
    except ValueError as error:
        raise ToolRefused(str(error), code="tree_size_invalid") from error
