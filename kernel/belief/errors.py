"""Defines what a belief session refuses, and that its stored record cannot be believed.

A refusal is the caller's to handle: nothing has changed. A corrupt event is not: whoever reads it
stops serving the session, and neither retries, repairs nor skips.
"""

from typing import Any, Literal

BeliefCode = Literal[
    "SESSION_NOT_FOUND",
    "SESSION_EXISTS",
    "SESSION_TERMINATED",
    "SESSION_SUCCEEDED",
    "INVALID_HYPOTHESIS_ID",
    "OBLIGATION_NOT_FOUND",
    "CONFLICT",
    "INVALID_REQUEST",
    "EVENT_NOT_FOUND",
]


class BeliefError(Exception):
    """A verb was refused and the session is exactly as it was before."""

    def __init__(
        self, code: BeliefCode, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code: BeliefCode = code
        self.message = message
        self.details: dict[str, Any] = {} if details is None else details


InputCode = Literal[
    "action_unknown",
    "kit_invalid",
    "kit_unknown",
    "outcome_not_text",
    "probe_unknown",
    "provider_answer_invalid",
    "provider_hypothesis_unknown",
    "response_unknown",
    "scenario_invalid",
    "secret_unknown",
]


class BeliefInputError(ValueError):
    """A provider, an adapter, an oracle or a kit was called with what it does not take."""

    def __init__(self, code: InputCode, message: str) -> None:
        super().__init__(message)
        self.code: InputCode = code


class CorruptBeliefEvent(Exception):
    """A stored event does not say what its hash, its chain or its replay says."""

    code = "belief_event_corrupt"

    table = "belief_events"
    key = ""
    """The session, where whoever read it knows it."""

    def __init__(self, reason: str, *, index: int | None = None) -> None:
        where = "event" if index is None else f"event {index}"
        super().__init__(f"{where}: {reason}")
        self.reason = reason
        self.index = index
        """Position in the log, from 0; None where one event was read by itself."""
