"""Repeats a request to a gateway while nobody answers, or its status allows asking again.

The pause grows from 50 ms to 2 s, is never shorter than what `Retry-After` names (30 s at most),
and is longer by up to a half, so that many who were refused together do not come back as one.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final

import httpx

PAUSE_FIRST_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
RETRY_AFTER_S_MAX: Final = 30.0

TRY_AGAIN: Final = frozenset({408, 429, 503})
"""Statuses after which the same request may be sent again."""

Refused = httpx.Response | httpx.TransportError
"""What came instead of a success: a refusal, or an error of transport where nobody answered."""


async def patiently(
    ask: Callable[[], Awaitable[httpx.Response]],
    error_of: Callable[[Refused], Exception],
    sleep: Callable[[float], Awaitable[None]],
    *,
    give_up_after_s: float,
    may_repeat: Callable[[Refused], bool] = lambda _: True,
) -> httpx.Response:
    """Ask until there is a success and return it, or raise what `error_of` makes of the last.

    `give_up_after_s` counts the pauses alone. `may_repeat` says where asking again is safe.
    """
    pause_s, waited_s = PAUSE_FIRST_S, 0.0
    while True:
        found: Refused
        try:
            found = await ask()
        except httpx.TransportError as error:
            found = error
        if isinstance(found, httpx.Response) and found.is_success:
            return found
        helps = isinstance(found, httpx.TransportError) or found.status_code in TRY_AGAIN
        if not helps or not may_repeat(found) or waited_s >= give_up_after_s:
            raise error_of(found) from (found if isinstance(found, Exception) else None)
        at_least_s = max(pause_s, _retry_after_s(found))
        jittered_s = at_least_s * random.uniform(1.0, 1.5)  # noqa: S311 - jitter
        await sleep(jittered_s)
        waited_s += jittered_s
        pause_s = min(PAUSE_MAX_S, pause_s * 2)


def _retry_after_s(found: Refused) -> float:
    if isinstance(found, httpx.TransportError):
        return 0.0
    try:
        return min(RETRY_AFTER_S_MAX, max(0.0, float(found.headers.get("Retry-After", 0))))
    except ValueError:
        return 0.0
