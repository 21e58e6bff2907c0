"""Reads retries as an operator writes them: `*=14/5/3600,resize=3/1/60`."""

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from kernel.work.queue_kinds import NAME
from kernel.work.retry_policy import RetryPolicy

ANY_QUEUE: Final = "*"


def check_retries(text: str) -> str:
    """Return a text that gives queues, or all that state no retries of their own, a policy each."""
    if _policies(text) is None:
        problem = (
            "must be queues, or *, with attempts, the first pause and the longest one in seconds, "
            "such as *=14/5/3600,resize=3/1/60"
        )
        raise PydanticCustomError("retries_invalid", problem)
    return text


def policies_of(text: str | None) -> Mapping[str, RetryPolicy]:
    """Return the policies by queue, and by `*`, from a checked text."""
    return _policies(text or "") or {}


def _policies(text: str) -> dict[str, RetryPolicy] | None:
    """Return what a text says; None where it says nothing of the kind, or a name twice."""
    policies: dict[str, RetryPolicy] = {}
    for entry in filter(None, text.split(",")):
        name, _, numbers = (part.strip() for part in entry.partition("="))
        policy = _policy(numbers.split("/"))
        is_name = name == ANY_QUEUE or NAME.fullmatch(name) is not None
        if policy is None or not is_name or name in policies:
            return None
        policies[name] = policy
    return policies


def _policy(numbers: list[str]) -> RetryPolicy | None:
    try:
        attempts, pause_s, pause_s_max = numbers
        return RetryPolicy(
            attempts=int(attempts),
            first_pause_ms=round(1000 * float(pause_s)),
            pause_ms_max=round(1000 * float(pause_s_max)),
        )
    except (ValueError, OverflowError, ValidationError):
        return None
