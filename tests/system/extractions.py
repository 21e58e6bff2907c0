"""Extractions as producers ask for them."""

from itertools import pairwise
from typing import Any

from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.requests import WorkRequest
from tests.kernel.extractions import completeness

STATES = ("pending", "running", "degraded", "running", "blocked", "running", "succeeded")


def steps(run: str) -> list[WorkRequest]:
    """Return a whole extraction with two reentries, asked for backwards and without parents."""
    requests = []
    for number, (prior, current) in enumerate(pairwise(STATES), start=1):
        content: dict[str, Any] = {
            "extraction_run_id": run,
            "attempt_number": number,
            "prior_state": prior,
            "current_state": current,
            "state_change_reason": "because",
        }
        content |= completeness(prior, current)
        if current == "blocked":
            content["block_reason"] = "rate_limit"
        requests.append(WorkRequest(EXTRACTION_QUEUE, f"{run}:{number}", content))
    return requests[::-1]
