"""Reads what principals may use of a gateway, as an operator writes it: `streams=2,waits=100`."""

from dataclasses import asdict, dataclass, fields
from typing import Final

from pydantic_core import PydanticCustomError

LIMIT_MAX = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PrincipalLimits:
    """What one principal may use of a gateway at most."""

    requests_per_s: int = 500
    requests_in_flight: int = 256
    """Requests that are not answered yet; who waits for outcomes counts among the waits instead."""

    bytes_per_s: int = 32 << 20
    """Bytes of the bodies of its requests."""

    requests_open: int = 20_000
    """Requests for work that it asked for here, and that have no outcome."""

    streams: int = 16
    """Streams of operations, and of the dashboard."""

    waits: int = 5_000
    """Requests of which it waits for the outcomes."""

    model_calls_per_min: int = 60
    refusals_per_min: int = 600
    """Answers that say that the request was not its to make, or no request."""


DEFAULT_LIMITS: Final = ",".join(
    f"{name}={most}" for name, most in asdict(PrincipalLimits()).items()
)


def check_limits(text: str) -> str:
    """Return a text that gives limits a whole number each."""
    if _limits(text) is None:
        names = ", ".join(field.name for field in fields(PrincipalLimits))
        problem = f"must be of {names} with a whole number each, such as streams=2,waits=100"
        raise PydanticCustomError("principal_limits_invalid", problem)
    return text


def limits_of_principals(text: str | None) -> PrincipalLimits:
    """Return the limits that a checked text gives; what it does not name is as without it."""
    return _limits(text or "") or PrincipalLimits()


def _limits(text: str) -> PrincipalLimits | None:
    """Return what a text says; None where it says nothing of the kind, or a name twice."""
    known = {field.name for field in fields(PrincipalLimits)}
    stated: dict[str, int] = {}
    for entry in filter(None, text.split(",")):
        name, _, number = (part.strip() for part in entry.partition("="))
        is_number = number.isdecimal() and number.isascii() and len(number) <= len(str(LIMIT_MAX))
        if name not in known or name in stated or not is_number:
            return None
        stated[name] = int(number)
    if not all(1 <= number <= LIMIT_MAX for number in stated.values()):
        return None
    return PrincipalLimits(**stated)
