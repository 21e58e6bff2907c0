"""Sends a worker's reports to its gateway: batches, outcomes, what an absent gateway means.

A worker writes nothing itself: its ledger handle can only read (K18), and it proves itself with a
token that `rotulus up` makes for each run. Any gateway takes a report; it goes to the actor of its
session, through the shard's mailbox if another gateway owns it.

A gateway that is away, full, starting or failing, a shard that changes hands, a wrong token or a
capacity that names a time is no item's fault: such an item is put off without counting as an
attempt, and the worker claims nothing until its gateway takes something again, with a longer pause
each time, up to five seconds. A session that is full holds up no other session. One whose actor
fails costs its own items an attempt, or a single item would be tried for ever.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from actors.error_codes import ERRORS
from actors.errors import ProtocolDiffers
from kernel.values.priorities import capacity_priority_of
from queues.queue.items import Claim
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.telemetry.trace_context import traceparents_of
from workers.worker.absence import Absence
from workers.worker.batch_progress import note_progress

REPORTS_PATH = "/internal/work"
BUSY_FIRST_S = 0.1
BUSY_MAX_S = 5.0
AWAY_FIRST_S = 0.5
AWAY_MAX_S = 2.0
"""Pauses between looks whether a gateway that cannot be reached is back."""

ABSENCES = frozenset(
    code
    for code, meaning in ERRORS.items()
    if meaning.fault == "caller" or (meaning.is_retryable and meaning.fault != "request")
)
"""Codes of a refused report that are about the gateway or this worker, and about no item."""

NO_ROOM = frozenset(
    code for code in ABSENCES if ERRORS[code].fault == "service" and ERRORS[code].status is not None
)
"""The same codes as the outcome of one item; an item itself may cause an `actor_failed`."""

_log = structlog.get_logger(__name__)

_UNREACHABLE = "gateway_unreachable"
_BATCH_REFUSED = frozenset({413, 422})
"""Statuses of a whole batch for which one item may be to blame: its halves are tried."""

Outcome = dict[str, Any]


class GatewayReporter:
    """Reports of one worker to its gateway, shared by all of its slots."""

    def __init__(
        self, gateway: GatewayClient, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._gateway = gateway
        self._clock_s = clock_s
        self._away = False
        self._absence = Absence("worker_waits_for_gateway", AWAY_FIRST_S, AWAY_MAX_S)
        self._busy_until_s = float("-inf")
        self._busy_s = BUSY_FIRST_S

    async def ready(self) -> bool:
        """Tell whether the gateway takes reports now."""
        if self._away and self._clock_s() >= self._absence.try_at_s:
            if await self._gateway.answers("/healthz"):
                self._away = False
                self._absence.note_end()
            else:
                self._absence.note_failure(self._clock_s(), "it does not answer /healthz")
        return not self._away and self._clock_s() >= self._busy_until_s

    async def post(self, path: str, body: Any) -> Any:
        """Post and return the answer; remember a failure that is the gateway's.

        Raises:
            GatewayError: with the gateway's own code, or `gateway_unreachable`.
        """
        try:
            answer = await self._gateway.post(path, body)
        except GatewayError as error:
            self._note(error.code, error.message)
            raise
        note_progress()
        return answer

    async def batch(
        self,
        path: str,
        name: str,
        items: Sequence[Any],
        shared: dict[str, Any] | None = None,
        claims: Sequence[Claim] = (),
    ) -> list[Outcome]:
        """Report items under a name and return an outcome for each, in order; never raises.

        `claims` holds the claim of each item, for its traces and its urgency.
        """
        if not items:
            return []
        body = {name: list(items), **(shared or {}), **claim_fields(claims)}
        try:
            answer = await self.post(path, body)
        except GatewayError as error:
            if error.status in _BATCH_REFUSED and len(items) > 1:
                half = len(items) // 2
                first = await self.batch(path, name, items[:half], shared, claims[:half])
                return first + await self.batch(path, name, items[half:], shared, claims[half:])
            outcome_name = "absent" if error.code in ABSENCES else "failed"
            return [{"outcome": outcome_name, "code": error.code}] * len(items)
        outcomes: list[Outcome] = answer["outcomes"]
        codes = {str(outcome.get("code")) for outcome in outcomes}
        if codes <= NO_ROOM:
            self._note(min(codes), "it has no room")
        else:
            # One session that is full holds up nobody else's.
            self._busy_s = BUSY_FIRST_S
        return outcomes

    def _note(self, code: str, message: str) -> None:
        if code == _UNREACHABLE:
            self._away = True
            self._absence.note_failure(self._clock_s(), message)
        elif code in ABSENCES:
            if code == ProtocolDiffers.code:
                _log.error("protocol_differs", gateway="another version than this worker's")
            self._busy_until_s = self._clock_s() + self._busy_s
            self._busy_s = min(BUSY_MAX_S, 2 * self._busy_s)


def claim_fields(claims: Sequence[Claim]) -> dict[str, Any]:
    """Return the fields of a report about its claims: traces, and whether any is critical."""
    fields: dict[str, Any] = {}
    if traceparents := traceparents_of(claims):
        fields["traceparents"] = traceparents
    if any(capacity_priority_of(claim.priority) == "critical" for claim in claims):
        fields["urgent"] = True
    return fields
