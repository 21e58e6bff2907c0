"""Shows what a log's published checkpoint is worth here: the one verdict, for every door."""

from dataclasses import replace

from typing_extensions import TypedDict

from kernel.landscape.record_anchors import count_unanchored_groups
from kernel.ledger.log_tree import LogTree
from kernel.proof.checkpoint import Checkpoint
from kernel.proof.checkpoint_verdict import (
    CheckpointVerdict,
    CheckpointVerdictDocument,
    JudgedCheckpoint,
    judge_checkpoint,
)
from kernel.proof.witness_policy import WitnessPolicy
from kernel.records.access.readable_view import ReadableView
from kernel.records.receipt_seals import count_behind_the_log


class PublicationProblemDocument(TypedDict):
    """Why nothing is published: a code, and what to do."""

    code: str
    message: str


class NotUnderTheTreeDocument(TypedDict):
    """How much is on the record to which no tree head commits yet."""

    receipts_not_under_the_tree: int
    """How many receipts stand behind the last row of the log, so that no tree head commits to
    them yet."""

    run_groups_not_under_the_tree: int
    """How many groups of records of runs, each of one transaction, no receipt states yet."""


class CheckpointStatusDocument(NotUnderTheTreeDocument):
    """The published checkpoint with its verdict, and whether this gateway goes on publishing."""

    publishes: bool
    problem: PublicationProblemDocument | None
    checkpoint: CheckpointVerdictDocument | None
    policy: str | None
    """Whose signatures count here, as a file of C2SP tlog-policy; whoever verifies a checkpoint
    compares it with a policy from elsewhere, or with the one that was read here before."""


def checkpoint_status(
    view: ReadableView,
    note: bytes | None,
    policy: WitnessPolicy,
    *,
    publishes: bool,
    problem: tuple[str, str] | None,
) -> CheckpointStatusDocument:
    """Judge the note of a published checkpoint beside the log; without a note nothing is judged.

    `problem` is why nothing is published, a code and its reason. A log that is not the one that was
    last signed is diverged, also where the folder has gone back together with it.
    """
    tree, verdict = view.log_tree(), None
    if note is not None:
        verdict = judge_checkpoint(note, policy, lambda stated: difference(tree, stated))
        if problem is not None and problem[0] == "checkpoint_diverged":
            verdict = _diverged_verdict(verdict, problem[1])
    return {
        "publishes": publishes,
        "problem": None if problem is None else {"code": problem[0], "message": problem[1]},
        "checkpoint": None if verdict is None else verdict.document(),
        "policy": policy.to_bytes().decode(errors="replace"),
        **what_waits(view),
    }


def what_waits(view: ReadableView) -> NotUnderTheTreeDocument:
    """Return how much of the record no tree head commits to yet."""
    return {
        "receipts_not_under_the_tree": count_behind_the_log(view),
        "run_groups_not_under_the_tree": count_unanchored_groups(view),
    }


def difference(tree: LogTree, stated: Checkpoint) -> str | None:
    """Return why a log does not begin with that of a checkpoint, None where it does."""
    if stated.size > tree.size:
        return f"{stated.size} rows are published and the log has {tree.size}"
    if tree.root(stated.size) != stated.root:
        return f"the first {stated.size} rows are not those that are published"
    return None


def _diverged_verdict(verdict: JudgedCheckpoint, message: str) -> JudgedCheckpoint:
    if verdict.verdict is CheckpointVerdict.INVALID:
        return verdict
    return replace(
        verdict,
        verdict=CheckpointVerdict.DIVERGED,
        message=f"diverged: {message}",
        quorum_met=False,
    )
