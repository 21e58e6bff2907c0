"""Asks a gateway for what a person reviews, and tells it what was decided (§13.6, §14.4)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from kernel.records.reviews.batch import BatchReview, ReviewItem
from kernel.values.canonical import digest
from workers.client.typed.gateway import GatewayClient

DIGEST_CHARS_IN_ID = 32

NOTHING: Mapping[str, Any] = MappingProxyType({})


def batch_of(
    items: list[Any],
    source_batch_id: str,
    *,
    batch_review_id: str | None = None,
    prior_batch_review_ref: str | None = None,
) -> BatchReview:
    """Return a batch; where no id is named, the same items of the same source are one batch.

    Raises:
        ValidationError: an item is none, or there are none, or too many.
        CanonicalizationError: a text is no Unicode.
    """
    named = batch_review_id or digest([source_batch_id, prior_batch_review_ref, items])
    return BatchReview.model_validate(
        {
            "batch_review_id": batch_review_id or named[:DIGEST_CHARS_IN_ID],
            "source_batch_id": source_batch_id,
            "prior_batch_review_ref": prior_batch_review_ref,
            "item_operations": items,
        }
    )


class ReviewClient:
    """Reviews on a gateway.

    Every method raises `GatewayError` with the server's code and details for what it refuses. A
    batch is known to the gateway by its id and is sent again after any failure.
    """

    def __init__(self, gateway: GatewayClient) -> None:
        self._gateway = gateway

    async def review_batch(self, batch: BatchReview) -> dict[str, Any]:
        """Dispose of every item of a batch; the answer says which failed, and why."""
        body = batch.model_dump(mode="json", exclude_none=True)
        answer: dict[str, Any] = await self._gateway.post("/v1/reviews/batches", body)
        return answer

    async def batch(self, batch_review_id: str) -> dict[str, Any]:
        """Return a batch with the state of every item as it is now."""
        path = f"/v1/reviews/batches/{quote(batch_review_id, safe='')}"
        answer: dict[str, Any] = await self._gateway.get(path)
        return answer

    async def retry(
        self, batch_review_id: str, *, remediated: bool = False
    ) -> dict[str, Any] | None:
        """Review again, as before, the items of a batch that failed and may succeed now.

        `remediated` says that a person has put right what kept the others from succeeding, so
        those are reviewed again too. None where nothing is to be reviewed again.
        """
        prior = await self.batch(batch_review_id)
        items = [
            {name: item[name] for name in ReviewItem.model_fields if name in item}
            for item in prior["item_operations"]
            if item["result"] == "failed" and (item["retryable"] or remediated)
        ]
        if not items:
            return None
        retry = batch_of(items, prior["source_batch_id"], prior_batch_review_ref=batch_review_id)
        return await self.review_batch(retry)

    async def decide(self, decision_key: str, **stated: Any) -> dict[str, Any]:
        """Confirm or reject evidence; under the same key the same decision is taken once."""
        body = {"decision_key": decision_key, **stated}
        answer: dict[str, Any] = await self._gateway.post("/v1/reviews/decisions", body)
        return answer

    async def dismiss(self, receipt_id: str, reason: str) -> dict[str, Any]:
        """Settle an outcome that a person has looked at."""
        body = {"receipt_id": receipt_id, "reason": reason}
        answer: dict[str, Any] = await self._gateway.post("/v1/reviews/dismissals", body)
        return answer

    async def take(
        self, receipt_id: str, decided_by: str, grounds: str, supplied: Mapping[str, Any] = NOTHING
    ) -> dict[str, Any]:
        """Take what an item holds back; `supplied` states what migration lacks of it."""
        said = {"receipt_id": receipt_id, "decided_by": decided_by, "grounds": grounds}
        body = {**said, "supplied": dict(supplied)}
        answer: dict[str, Any] = await self._gateway.post("/v1/reviews/takings", body)
        return answer
