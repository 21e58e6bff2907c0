"""Reads the record: single things by their names, and lists that are read page by page."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Final

from .answers import reading
from .gateway_http import GatewayHttp
from .job_calls import quote_name

Document = dict[str, Any]

PAGE: Final = 100
"""Entries that a page is asked for."""


class Records:
    """The record at a gateway; every method raises `GatewayError` with the gateway's own code.

    Documents are as the gateway answers them. A list reads on as it is iterated.
    """

    def __init__(self, gateway: GatewayHttp) -> None:
        self._gateway = gateway

    async def queues(self) -> Document:
        """Return what each queue holds, what is paused, and who works."""
        return await self._get("/v1/queues")

    async def node(self, node_id: str) -> Document:
        """Return a node: a source, a claim, an understanding with its authority."""
        return await self._get(f"/v1/nodes/{quote_name(node_id)}")

    async def operation(self, operation_id: str) -> Document:
        """Return an operation: its row of the log, its envelope, effects and receipts."""
        return await self._get(f"/v1/operations/{quote_name(operation_id)}")

    async def extraction(self, run_id: str) -> Document:
        """Return a run: its steps, what it read, which fields failed and why."""
        return await self._get(f"/v1/extractions/{quote_name(run_id)}")

    def operations(self, **criteria: Any) -> AsyncIterator[Document]:
        """Iterate over the operations that every criterion fits, oldest first.

        Criteria are `entity`, `declared`, `semantic_intent`, `effect_kind`, `reversibility`,
        `actor`, `session_id`, `since`, `until`, `from_sequence` and `to_sequence`. With
        `order="newest"` the newest come first.
        """
        return self._list("/v1/audit/operations", "operations", criteria)

    def bindings(self) -> AsyncIterator[Document]:
        """Iterate over the source bindings by their ids."""
        return self._list("/v1/bindings", "bindings", {})

    def extractions(self, state: str = "blocked") -> AsyncIterator[Document]:
        """Iterate over the extractions that are in a state now."""
        return self._list("/v1/extractions", "runs", {"state": state})

    def requests(self, queue: str | None = None, **criteria: Any) -> AsyncIterator[Document]:
        """Iterate over the requests that every criterion fits, of a queue or of all, newest first.

        Criteria are `request_id`, `item_key`, `request_key`, `session_id` (of the operation that a
        recompute follows from), `tag` (as `customer=acme`), `error_signature` (why it was given up,
        or that of its newest attempt that failed), `state`, `priority`, `words` (of the reason for
        which it was given up or cancelled), `content_words` (a part of the content as JSON),
        `numbers` (as `3,17`), `since` and `until`.
        """
        path = "/v1/requests" if queue is None else f"/v1/queues/{quote_name(queue)}/requests"
        return self._list(path, "requests", criteria)

    def sessions(self, words: str | None = None) -> AsyncIterator[Document]:
        """Iterate over the belief sessions with these words in id or title, last changed first."""
        return self._list("/v1/sessions", "sessions", {"words": words})

    def dead_letters(
        self, queue: str | None = None, error_signature: str | None = None
    ) -> AsyncIterator[Document]:
        """Iterate over what was given up and not settled, of a queue or of all."""
        path = (
            "/v1/dead-letters" if queue is None else f"/v1/queues/{quote_name(queue)}/dead-letters"
        )
        return self._list(path, "dead_letters", {"error_signature": error_signature})

    def reviews(self, kind: str) -> AsyncIterator[Document]:
        """Iterate over what of a kind waits for a person."""
        return self._list("/v1/reviews/open", "items", {"kind": kind})

    async def _list(
        self, path: str, name: str, criteria: Mapping[str, Any]
    ) -> AsyncIterator[Document]:
        query = {"limit": PAGE} | {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in criteria.items()
            if value is not None
        }
        while True:
            page = await self._get(path, **query)
            with reading():
                documents, next_after = list(page[name]), page["next_after"]
            for document in documents:
                yield document
            if next_after is None:
                return
            query["after"] = next_after

    async def _get(self, path: str, **query: Any) -> Document:
        document: Document = await self._gateway.ask_document("GET", path, params=query)
        return document
