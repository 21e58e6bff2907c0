"""Speaks the belief protocol for programs: one session on a gateway, with typed answers.

A declaration, an elimination and a succession are known to the gateway by what they say and are
sent again after any failure; the other verbs only where they cannot have happened. After
`gateway_unreachable` the audit says whether one did.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import anyio
from pydantic import BaseModel

from kernel.belief.limits import AUDIT_PAGE_MAX, decode_json
from workers.client.gateway_http import NO_HEADERS
from workers.client.log_proofs import PREFER_PROOF
from workers.client.typed.elimination_proof import EliminationProof
from workers.client.typed.gateway import GatewayClient
from workers.views.belief_sessions import (
    Acceptance,
    Approval,
    AuditEntry,
    AuditPage,
    Declared,
    Eliminated,
    Entered,
    Observation,
    Ontology,
    Snapshot,
    Succeeded,
)

WATCH_PAUSE_S = 0.5

D = TypeVar("D", bound=BaseModel)


class SessionClient:
    """One belief session on a gateway.

    `survivors` bounds the survivors that answers list: 0 for none, None for all. Every method
    raises `GatewayError` with the server's code and details for what the server refuses.
    """

    def __init__(
        self, gateway: GatewayClient, session_id: str, *, survivors: int | None = None
    ) -> None:
        self.session_id = session_id
        self._gateway = gateway
        self._query = {} if survivors is None else {"survivors": survivors}
        self._path = f"/v1/sessions/{session_id}"

    async def declare(
        self, ontology: Ontology, hypotheses: Iterable[str], **fields: Any
    ) -> Snapshot:
        """Declare the session; `fields` is `metadata` and the fields of its policy.

        The same declaration again is answered with the session as it stands.
        """
        body = {
            "session_id": self.session_id,
            "ontology": ontology.model_dump(),
            "hypotheses": list(hypotheses),
            **fields,
        }
        response = await self._gateway.ask("POST", "/v1/sessions", json=body, params=self._query)
        return _read(Declared, response).snapshot

    async def snapshot(self) -> Snapshot:
        """Return the state of the session."""
        return _read(Snapshot, await self._gateway.ask("GET", self._path, params=self._query))

    async def eliminate(
        self,
        source_id: str,
        observation_id: str,
        eliminated: Iterable[str],
        justification: dict[str, Any] | None = None,
        *,
        expected_head: str | None = None,
        prove: bool = False,
    ) -> Eliminated:
        """Strike hypotheses; an observation that comes again is answered as the first time.

        With `prove` the answer has the proof that the tombstone is in the log, verified.

        Raises:
            LogProofInvalid: the answer does not prove it; the tombstone may be on the record.
        """
        body = {
            "source_id": source_id,
            "observation_id": observation_id,
            "eliminated": list(eliminated),
            "justification": justification,
        }
        preference = PREFER_PROOF if prove else NO_HEADERS
        struck = await self._post(
            Eliminated, "eliminate", body, expected_head, self._gateway.ask, preference
        )
        if prove:
            EliminationProof.verified(struck.elimination_proof or {}, struck.audit_event_id)
        return struck

    async def enter_obligation(
        self, obligation_id: str, min_total_eliminations: int, *, expected_head: str | None = None
    ) -> Entered:
        """Open an obligation."""
        body = {
            "obligation_id": obligation_id,
            "min_total_eliminations": min_total_eliminations,
        }
        return await self._post(Entered, "obligations", body, expected_head)

    async def request_exit(
        self,
        obligation_id: str,
        context: dict[str, Any] | None = None,
        *,
        expected_head: str | None = None,
    ) -> Approval:
        """Ask to close the obligation."""
        path = f"obligations/{quote(obligation_id, safe='')}/exit"
        return await self._post(Approval, path, {"context": context}, expected_head)

    async def declare_conclusion(
        self,
        conclusion_id: str,
        context: dict[str, Any] | None = None,
        *,
        expected_head: str | None = None,
    ) -> Acceptance:
        """Declare a conclusion, which is refused while an obligation is open."""
        body = {"conclusion_id": conclusion_id, "context": context}
        return await self._post(Acceptance, "conclusions", body, expected_head)

    async def request_termination(
        self, context: dict[str, Any] | None = None, *, expected_head: str | None = None
    ) -> Approval:
        """Ask to end the session."""
        return await self._post(Approval, "terminate", {"context": context}, expected_head)

    async def succeed(
        self,
        reason: str,
        *,
        undone: Iterable[tuple[str, str]] | None = None,
        carried: Iterable[tuple[str, str]] | None = None,
        cause: dict[str, Any] | None = None,
        successor_id: str | None = None,
        expected_head: str | None = None,
    ) -> Succeeded:
        """Close the session, because the ground of eliminations was undone, and name what goes on.

        The successor holds those that are `carried`, or all but those that are `undone`, each a
        pair of source and observation. The same again is answered as the first time.
        """
        stated = {"undone": undone, "carried": carried}
        body = {
            "reason": reason,
            "cause": cause,
            "successor_id": successor_id,
            **{
                name: None if pairs is None else _observation_documents(pairs)
                for name, pairs in stated.items()
            },
        }
        return await self._post(Succeeded, "succeed", body, expected_head, self._gateway.ask)

    def successor(self, successor_id: str) -> "SessionClient":
        """Return the client of the session that goes on from this one."""
        return SessionClient(self._gateway, successor_id, **self._query)

    async def audit(
        self, since_event_id: str | None = None, *, page_max: int = AUDIT_PAGE_MAX
    ) -> AsyncIterator[AuditEntry]:
        """Yield the entries after one, or all, a page to a request."""
        query: dict[str, int | str] = {"limit": page_max}
        while True:
            if since_event_id is not None:
                query["since_event_id"] = since_event_id
            response = await self._gateway.ask("GET", f"{self._path}/audit", params=query)
            page = _read(AuditPage, response)
            for entry in page.events:
                yield entry
            since_event_id = page.next_since_event_id
            if since_event_id is None:
                return

    async def watch(
        self,
        since_event_id: str | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> AsyncIterator[AuditEntry]:
        """Yield the entries after one, or all, and then each new one, until the session ends.

        One that is succeeded ends with the entry that names its successor.

        It asks twice a second.
        """
        state = SessionClient(self._gateway, self.session_id, survivors=0)
        while True:
            # Asked first: what is on the trail afterwards is all that there will be.
            snapshot = await state.snapshot()
            ended = snapshot.terminated or snapshot.successor_id is not None
            async for entry in self.audit(since_event_id):
                yield entry
                since_event_id = entry.event_id
            if ended:
                return
            await sleep(WATCH_PAUSE_S)

    async def _post(
        self,
        kind: type[D],
        path: str,
        body: dict[str, Any],
        expected_head: str | None,
        ask: Callable[..., Awaitable[Any]] | None = None,
        preference: Mapping[str, str] = NO_HEADERS,
    ) -> D:
        headers = {} if expected_head is None else {"If-Match": f'"{expected_head}"'}
        headers |= preference
        response = await (ask or self._gateway.ask_once)(
            "POST", f"{self._path}/{path}", json=body, params=self._query, headers=headers
        )
        return _read(kind, response)


def _observation_documents(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    names = Observation.model_fields
    return [dict(zip(names, pair, strict=True)) for pair in pairs]


def _read(kind: type[D], response: Any) -> D:
    # As the record is read: writing a number again gives the same bytes, so hashes can be checked.
    return kind.model_validate(decode_json(response.content))
