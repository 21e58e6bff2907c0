"""V5: the operation was decided under the policy that is in force (§2.2)."""

from kernel.transaction.checks.check import Refusal, Submission, Verdict, said


def check(submission: Submission) -> Verdict:
    """Refuse a missing or superseded policy generation; the caller refreshes and resubmits."""
    stated, current = (
        submission.envelope.policy_generation_id,
        submission.transaction.policy_generation_id(),
    )
    if stated == current:
        return None
    return Refusal(
        "envelope_policy_generation_stale",
        "policy_generation_id",
        f"in force is {current}, given was {said(stated)}",
    )
