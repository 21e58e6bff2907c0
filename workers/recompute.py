"""What a drain slot does with a batch of authority items (§8.2).

A worker reads the ledger at one snapshot, computes, and hands in the values with the sequence it
read; the gateway decides whether they are still due. The worker's ledger handle cannot write
(K18). An item leaves the queue when the record no longer asks for it, not before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import orjson
import structlog

from kernel.authority.graph import authority_of
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import AuthorityStrategy
from kernel.canonical import digest
from kernel.ledger.ledger import Document, Ledger, LedgerView
from queues.backoff import MAX_ATTEMPTS, backoff_ms
from queues.items import Claim
from queues.queue import WorkQueue
from workers.gateway_client import GatewayClient, GatewayError

INPUT_PENDING_DELAY_MS = 20

_UNREACHABLE = "gateway_unreachable"
_BATCH_REFUSED = frozenset({413, 422})
"""Statuses that speak of a batch as a whole, though one result may be to blame."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Tally:
    """What a worker has done since it started."""

    completed: int = 0
    failed: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Computed:
    """A claim, and what to hand in for it; None when the record asks for nothing any more."""

    claim: Claim
    result: Document | None
    error: str | None = None
    """Why it could not be computed."""


class AuthorityDrainer:
    """Turns claims into recorded authorities."""

    def __init__(
        self,
        ledger: Ledger,
        queue: WorkQueue,
        gateway: GatewayClient,
        strategy: AuthorityStrategy,
        random_unit: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._queue = queue
        self._gateway = gateway
        self._strategy = strategy
        self._random_unit = random_unit
        self.tally = Tally()
        self._gateway_away = False

    async def ready(self) -> bool:
        """Tell whether there is a gateway to hand in to; without one, claiming wears items out."""
        if self._gateway_away:
            self._gateway_away = not await self._gateway.answers("/healthz")
        return not self._gateway_away

    async def drain(self, claims: Sequence[Claim]) -> None:
        """Serve a batch of claims; each is acknowledged, given back or buried before returning."""
        self.tally.in_flight += len(claims)
        try:
            # What was delivered so often without an end may be what ends its workers.
            exhausted = [claim for claim in claims if claim.attempt > MAX_ATTEMPTS]
            fresh = [claim for claim in claims if claim.attempt <= MAX_ATTEMPTS]
            computed = await anyio.to_thread.run_sync(self._compute, fresh)
            asked = [one for one in computed if one.result is not None]
            done = [one.claim for one in computed if one.result is None and one.error is None]
            outcomes = await self._hand_in([one.result for one in asked if one.result])
            failed = [(claim, "attempts_exhausted") for claim in exhausted]
            failed += [(one.claim, one.error) for one in computed if one.error is not None]
            early: list[Claim] = []
            for one, outcome in zip(asked, outcomes, strict=True):
                if outcome["outcome"] in ("completed", "closed"):
                    done.append(one.claim)
                elif outcome["outcome"] == "input_pending":
                    early.append(one.claim)
                else:
                    failed.append((one.claim, str(outcome.get("code", "internal"))))
            await self._settle(done, early, failed)
        finally:
            self.tally.in_flight -= len(claims)

    def _compute(self, claims: Sequence[Claim]) -> list[Computed]:
        with self._ledger.view() as view:
            sequence = view.head().ec_sequence_number
            return [self._compute_alone(view, claim, sequence) for claim in claims]

    def _compute_alone(self, view: LedgerView, claim: Claim, sequence: int) -> Computed:
        try:
            return Computed(claim, self._compute_one(view, _target(claim), sequence))
        except Exception as error:  # noqa: BLE001 - one item's failure is not its batch's
            _log.error("authority_not_computed", item_key=claim.key, error=repr(error))
            return Computed(claim, None, "computation_failed")

    def _compute_one(self, view: LedgerView, target: str, sequence: int) -> Document | None:
        requests = view.open_requests_of(AUTHORITY_QUEUE, target)
        node = view.node(target)
        if not requests or node is None:
            return None
        value, inputs = authority_of(view, self._strategy, node)
        created = view.log_row_of(node["created_by_operation_id"])
        result: Document = {
            "intent": {
                "intent_kind": "recalculate_authority",
                "intent_key": digest([requests[0].request_id, sequence]),
                "target_cu_id": target,
                "as_of_sequence": sequence,
                "cu_authority": value,
                "input_versions": [one.document() for one in inputs],
            }
        }
        if created is not None and created["session_id"]:
            result["session_id"] = created["session_id"]
        return result

    async def _hand_in(self, results: list[Document]) -> list[dict[str, Any]]:
        if not results:
            return []
        try:
            answer = await self._gateway.post("/internal/recomputed", {"results": results})
        except GatewayError as error:
            self._gateway_away = error.code == _UNREACHABLE
            if error.status in _BATCH_REFUSED and len(results) > 1:
                return [outcome for one in results for outcome in await self._hand_in([one])]
            return [{"outcome": "failed", "code": error.code}] * len(results)
        outcomes: list[dict[str, Any]] = answer["outcomes"]
        return outcomes

    async def _settle(
        self, done: list[Claim], early: list[Claim], failed: list[tuple[Claim, str]]
    ) -> None:
        if done:
            await self._queue.acknowledge(done)
            self.tally.completed += len(done)
        if early:
            await self._queue.retry(early, [INPUT_PENDING_DELAY_MS] * len(early), "input_pending")
        # That the gateway is away is no fault of the item.
        given_up = [
            (claim, code)
            for claim, code in failed
            if claim.attempt >= MAX_ATTEMPTS and code != _UNREACHABLE
        ]
        again = [one for one in failed if one not in given_up]
        for code in {code for _, code in again}:
            claims = [claim for claim, found in again if found == code]
            delays = [backoff_ms(claim.attempt, self._random_unit()) for claim in claims]
            await self._queue.retry(claims, delays, code)
        for claim, code in given_up:
            await self._bury(claim, code)
        self.tally.failed += len(failed)

    async def _bury(self, claim: Claim, code: str) -> None:
        """First on the record, then out of the queue: what is lost in between comes back."""
        if not await self._record_dead_letter(_target(claim), code):
            await self._queue.retry([claim], [backoff_ms(claim.attempt, 1.0)], code)
            return
        _log.error("item_dead_lettered", item_key=claim.key, error_signature=code)
        await self._queue.bury([claim], [code])

    async def _record_dead_letter(self, item_key: str, code: str) -> bool:
        if not await self.ready():
            return False
        body = {"item_key": item_key, "error_signature": code}
        try:
            await self._gateway.post("/internal/dead-letters", body)
        except GatewayError as error:
            self._gateway_away = error.code == _UNREACHABLE
            _log.warning("dead_letter_not_recorded", item_key=item_key, code=error.code)
            return False
        return True


def _target(claim: Claim) -> str:
    """The node that an item is about; the item's key may only be a digest of it."""
    try:
        return str(orjson.loads(claim.payload)["target_cu_id"])
    except (ValueError, KeyError, TypeError):
        return claim.key
