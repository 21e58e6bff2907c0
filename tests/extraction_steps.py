"""Steps of an extraction, as a producer asks for them and as an envelope carries them (§16.4)."""

from typing import Any


def state_change(
    number: int = 1, prior: str = "pending", current: str = "running", **fields: Any
) -> dict[str, Any]:
    """One change of state, without the run that it belongs to."""
    return {
        "attempt_number": number,
        "prior_state": prior,
        "current_state": current,
        "state_change_reason": "because",
        **fields,
    }


def extraction_step(
    run: str, number: int = 1, prior: str = "pending", current: str = "running", **fields: Any
) -> dict[str, Any]:
    """The content of a request for one change of state."""
    return {"extraction_run_id": run, **state_change(number, prior, current, **fields)}
