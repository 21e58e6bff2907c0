"""V4, the causes: every causal parent is on the record already, and none is itself (§2.7).

So no operations cause each other, and whoever reads or replays the log in its order meets every
cause before what it caused (decision kernel/0225).
"""

from kernel.transaction.checks.check import Refusal, Submission, Verdict

_FIELD = "causal_parent_operation_ids"
_READ_MAX = 256
"""Declared references of which the records are asked who wrote them."""


def check(submission: Submission) -> Verdict:
    """Refuse an operation that names as its cause what is not on the record before it.

    What takes a lite operation's place names the parents that the lite operation named (K24),
    which a log of version 1.5 may lack.
    """
    envelope = submission.envelope
    parents = envelope.causal_parent_operation_ids
    if not parents or envelope.supersedes is not None:
        return None
    if envelope.operation_id in parents:
        return Refusal(
            "envelope_causal_parent_itself",
            f"{_FIELD}.{parents.index(envelope.operation_id)}",
            "an operation is not its own cause",
        )
    unknown = set(parents) - _writers(submission)
    if unknown:
        unknown -= submission.transaction.operations_on_record(unknown)
    for index, parent in enumerate(parents):
        if parent in unknown:
            message = f"{parent} is on no row of the log, so it caused nothing"
            return Refusal("envelope_causal_parent_unknown", f"{_FIELD}.{index}", message)
    return None


def _writers(submission: Submission) -> set[str]:
    """Return who wrote the nodes that the envelope declares: whoever wrote one is on the record.

    These were read ahead for the batch, and hardly an envelope has other parents.
    """
    envelope, view = submission.envelope, submission.transaction
    refs = (*envelope.read_set_refs, *envelope.write_set_refs)[:_READ_MAX]
    nodes = (view.node(ref) for ref in dict.fromkeys(refs))
    return {node["updated_by_operation_id"] for node in nodes if node is not None}
