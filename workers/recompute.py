"""What a drain slot does with a batch of authority items (§8.2).

A worker reads the ledger at one snapshot, computes, and hands in the values with the sequence it
read; the gateway decides whether they are still due. The worker's ledger handle cannot write
(K18). An item leaves the queue when the record no longer asks for it, not before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import structlog

from kernel.authority.graph import authority_of
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import AuthorityStrategy
from kernel.ledger.ledger import Document, Ledger, LedgerView
from queues.backoff import MAX_ATTEMPTS, backoff_ms
from queues.items import Claim
from queues.queue import WorkQueue
from workers.gateway_client import GatewayClient, GatewayError

INPUT_PENDING_DELAY_MS = 20

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

    async def drain(self, claims: Sequence[Claim]) -> None:
        """Serve a batch of claims; each is acknowledged, given back or buried before returning."""
        self.tally.in_flight += len(claims)
        try:
            # What was delivered so often without an end may be what ends its workers.
            exhausted = [claim for claim in claims if claim.attempt > MAX_ATTEMPTS]
            fresh = [claim for claim in claims if claim.attempt <= MAX_ATTEMPTS]
            computed = await anyio.to_thread.run_sync(self._compute, fresh)
            asked = [one for one in computed if one.result is not None]
            done = [one.claim for one in computed if one.result is None]
            outcomes = await self._hand_in([one.result for one in asked if one.result])
            failed = [(claim, "attempts_exhausted") for claim in exhausted]
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
            return [self._compute_one(view, claim, sequence) for claim in claims]

    def _compute_one(self, view: LedgerView, claim: Claim, sequence: int) -> Computed:
        requests = view.open_requests_of(AUTHORITY_QUEUE, claim.key)
        node = view.node(claim.key)
        if not requests or node is None:
            return Computed(claim, None)
        value, inputs = authority_of(view, self._strategy, node)
        created = view.log_row_of(node["created_by_operation_id"])
        result: Document = {
            "intent": {
                "intent_kind": "recalculate_authority",
                "intent_key": f"{requests[0].request_id}@{sequence}",
                "target_cu_id": claim.key,
                "as_of_sequence": sequence,
                "cu_authority": value,
                "input_versions": [one.document() for one in inputs],
            }
        }
        if created is not None and created["session_id"]:
            result["session_id"] = created["session_id"]
        return Computed(claim, result)

    async def _hand_in(self, results: list[Document]) -> list[dict[str, Any]]:
        if not results:
            return []
        try:
            answer = await self._gateway.post("/internal/recomputed", {"results": results})
        except GatewayError as error:
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
        again = [one for one in failed if one[0].attempt < MAX_ATTEMPTS]
        given_up = [one for one in failed if one[0].attempt >= MAX_ATTEMPTS]
        for code in {code for _, code in again}:
            claims = [claim for claim, found in again if found == code]
            delays = [backoff_ms(claim.attempt, self._random_unit()) for claim in claims]
            await self._queue.retry(claims, delays, code)
        for claim, code in given_up:
            await self._bury(claim, code)
        self.tally.failed += len(failed)

    async def _bury(self, claim: Claim, code: str) -> None:
        """First on the record, then out of the queue: what is lost in between comes back."""
        body = {"item_key": claim.key, "error_signature": code}
        try:
            await self._gateway.post("/internal/dead-letters", body)
        except GatewayError as error:
            _log.warning("dead_letter_not_recorded", item_key=claim.key, code=error.code)
            await self._queue.retry([claim], [backoff_ms(claim.attempt, 1.0)], code)
            return
        _log.error("item_dead_lettered", item_key=claim.key, error_signature=code)
        await self._queue.bury([claim], [code])
