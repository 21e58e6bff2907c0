"""Computes authorities from a snapshot (§8.2).

A worker reads the ledger at one snapshot, computes, and reports the values with the sequence that
it read; the gateway decides whether they are still due. The worker's ledger handle cannot write
(K18).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread
import orjson
import structlog

from kernel.authority.read_ahead import Around, read_ahead
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.value import authority_of
from kernel.ledger.ledger import Document, Ledger, LedgerView
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.values.canonical import digest
from queues.queue.items import Claim, cause_id
from workers.worker.attempts import ErrorTexts, log_fields
from workers.worker.batches import (
    ClaimResult,
    Handler,
    attempt_fields,
    failed_claim,
    now_us,
    settlement_of,
)
from workers.worker.gateway_reports import GatewayReporter

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Computed:
    """A claim, and the value to report for it; None when the record asks for nothing any more."""

    claim: Claim
    result: Document | None
    error: Exception | None = None
    """Why it could not be computed."""


class AuthorityHandler(Handler):
    """Turns claims into recorded authorities."""

    claim_items = 256
    """As many as one commit takes: computing one costs much less than a commit."""

    def __init__(
        self,
        ledger: Ledger,
        reporter: GatewayReporter,
        strategy: AuthorityStrategy,
        texts: ErrorTexts,
    ) -> None:
        self._texts = texts
        self._ledger = ledger
        self._reporter = reporter
        self._strategy = strategy

    async def handle(self, claims: Sequence[Claim]) -> list[ClaimResult]:
        """Compute, report, and return how each claim ends."""
        settled, handed_in = [], []
        for computed in await anyio.to_thread.run_sync(self._compute, claims):
            if computed.error is not None:
                settled.append(await self._fail(computed.claim, computed.error))
            elif computed.result is None:
                settled.append(ClaimResult(computed.claim, "done"))
            else:
                handed_in.append(computed)
        results = [computed.result for computed in handed_in]
        claims_handed_in = [computed.claim for computed in handed_in]
        shared = {}
        if claims_handed_in:
            # They were claimed together.
            attempt = attempt_fields(claims_handed_in[0], self._texts.worker_id, now_us())
            shared["attempt"] = attempt
        outcomes = await self._reporter.batch(
            "/internal/recomputed", "results", results, shared, claims_handed_in
        )
        settled += [
            settlement_of(computed.claim, outcome, rejection_is_final=False)
            for computed, outcome in zip(handed_in, outcomes, strict=True)
        ]
        return settled

    async def _fail(self, claim: Claim, error: Exception) -> ClaimResult:
        described = await self._texts.of(error, "computation_failed")
        _log.error(
            "authority_not_computed",
            item_key=claim.key,
            attempt=claim.attempt,
            worker=self._texts.worker_id,
            **log_fields(described),
        )
        return failed_claim(claim, described)

    async def requests_of(self, claim: Claim) -> Sequence[str]:
        """Return the requests that the claim was for, and no later one."""
        return await anyio.to_thread.run_sync(self._requests_of_claim, claim)

    def _requests_of_claim(self, claim: Claim) -> list[str]:
        """Return the open requests that the queue had joined to the item when it was claimed.

        One that came later waits behind the claim as a successor, and is tried.
        """
        causes = set(claim.causes)
        with self._ledger.view() as view:
            requests = view.open_requests_of(AUTHORITY_QUEUE, _target(claim))
        return [
            request.request_id
            for request in requests
            if cause_id(request.request_id, request.priority) in causes
        ]

    def _compute(self, claims: Sequence[Claim]) -> list[Computed]:
        with self._ledger.view() as snapshot:
            view = snapshot.batch()
            sequence = view.head().ec_sequence_number
            read_ahead(view, [(Around.INPUTS, _target(claim)) for claim in claims])
            return [self._compute_alone(view, claim, sequence) for claim in claims]

    def _compute_alone(self, view: LedgerView, claim: Claim, sequence: int) -> Computed:
        try:
            return Computed(claim, self._compute_one(view, _target(claim), sequence))
        except Exception as error:  # noqa: BLE001 - one item's failure is not its batch's
            return Computed(claim, None, error)

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
                "inputs": inputs.document(),
            }
        }
        if created is not None and created["session_id"]:
            result["session_id"] = created["session_id"]
        return result


def _target(claim: Claim) -> str:
    """The node that an item is about; the item's key may only be a digest of it."""
    try:
        return str(orjson.loads(claim.payload)["target_cu_id"])
    except (ValueError, KeyError, TypeError):
        return claim.key
