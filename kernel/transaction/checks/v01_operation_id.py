"""V1: an operation that comes from outside is called by a UUID (§2.1).

The runtime draws its ids, or derives them from what they are of (`merge:`, `contradiction:`); a log
of version 1.5 has the ids that it has. The version of a UUID is its author's: what sorts operations
is their sequence.
"""

import re

from kernel.transaction.checks.check import Refusal, Submission, Verdict

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def check(submission: Submission) -> Verdict:
    """Refuse a caller's operation whose id is no UUID in lower case."""
    operation_id = submission.envelope.operation_id
    if submission.submitter != "caller" or _UUID.fullmatch(operation_id):
        return None
    return Refusal(
        "envelope_operation_id_invalid",
        "operation_id",
        "an operation id is a UUID in lower case, as 018f3c1e-7a2b-7c4d-8e9f-0a1b2c3d4e5f",
    )
