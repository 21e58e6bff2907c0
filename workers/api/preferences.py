"""Reads what a request prefers of its answer (RFC 7240); what is unknown is passed over."""

from dataclasses import dataclass

from fastapi import Request

WAIT_S = 10


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a request prefers, of what is said about rows of the log."""

    proof: bool = False
    """Whether the answer is to prove that its rows are in the log."""

    witnessed_within_s: int | None = None
    """For how long the answer may wait until its rows are witnessed; None: not at all."""


NONE = Preferences()


def preferences_of(request: Request) -> Preferences:
    """Read `Prefer: proof, durability=witnessed, wait=10`."""
    lines = request.headers.getlist("prefer")
    if not lines:
        return NONE
    stated: dict[str, str] = {}
    for preference in ",".join(lines).split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        stated.setdefault(name.strip().lower(), value.strip().strip('"').lower())
    wait = stated.get("wait", "")
    wait_s = int(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else WAIT_S
    is_witnessed = stated.get("durability") == "witnessed"
    return Preferences("proof" in stated, wait_s if is_witnessed else None)
