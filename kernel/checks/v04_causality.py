"""V4, the causes: no operation is its own causal parent (§2.7)."""

from kernel.checks.check import Refusal, Submission, Verdict


def check(submission: Submission) -> Verdict:
    """Refuse an operation that names itself among its causes.

    What takes a lite operation's place names the parents that the lite operation named (K24).
    """
    envelope = submission.envelope
    parents = envelope.causal_parent_operation_ids
    if envelope.supersedes is not None or envelope.operation_id not in parents:
        return None
    return Refusal(
        "envelope_causal_parent_itself",
        f"causal_parent_operation_ids.{parents.index(envelope.operation_id)}",
        "an operation is not its own cause",
    )
