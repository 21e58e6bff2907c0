"""Creates, changes, disables, enables and looks at source bindings at a gateway (§13.1).

A binding is changed by an intent. Each has a key, the caller's own or one that is made for the
call; under its key it takes effect once.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from .answers import reading
from .errors import GatewayError
from .gateway_http import GatewayHttp
from .log_proofs import PREFER_PROOF, proof_of_result

_PATH: Final = "/v1/bindings"


class SourceBindings:
    """The bindings at a gateway; every method raises `GatewayError` with the gateway's own code.

    With `prove` a change returns only with the verified proof that its row is in the log, as
    `inclusion_proof`, and raises `LogProofInvalid` otherwise.
    """

    def __init__(
        self,
        gateway: GatewayHttp,
        new_key: Callable[[], str] = lambda: secrets.token_hex(16),
        *,
        prove: bool = False,
    ) -> None:
        self._gateway = gateway
        self._new_key = new_key
        self._prove = prove

    async def create(
        self, binding_id: str, meaning: Mapping[str, Any], intent_key: str | None = None
    ) -> Mapping[str, Any]:
        """Create a binding; `meaning` has its `selector_list`, `target_kind`, `corpus_id`, …."""
        return await self._change("create", binding_id, meaning, intent_key)

    async def update(
        self, binding_id: str, changes: Mapping[str, Any], intent_key: str | None = None
    ) -> Mapping[str, Any]:
        """Change what a binding means, as a further generation, or its title."""
        return await self._change("update", binding_id, changes, intent_key)

    async def disable(self, binding_id: str, intent_key: str | None = None) -> Mapping[str, Any]:
        """Let a binding be evaluated no more."""
        return await self._change("disable", binding_id, {}, intent_key)

    async def enable(
        self,
        binding_id: str,
        critical_approval: Mapping[str, Any] | None = None,
        intent_key: str | None = None,
    ) -> Mapping[str, Any]:
        """Let a disabled binding be evaluated again, as a further generation."""
        stated = {} if critical_approval is None else {"critical_approval": critical_approval}
        return await self._change("enable", binding_id, stated, intent_key)

    async def show(self, binding_id: str, generation: str | None = None) -> Mapping[str, Any]:
        """Return a binding in a generation, by default the one in force, and how its pairs stand.

        `superseded_by` names the generation that took its place.
        """
        path = f"{_PATH}/{quote(binding_id, safe='')}"
        query = {} if generation is None else {"generation": generation}
        document: Mapping[str, Any] = await self._gateway.ask_document("GET", path, params=query)
        return document

    async def page(self, after: str | None = None, limit: int = 20) -> Mapping[str, Any]:
        """Return `bindings` in the order of their ids; `next_after` where there are more."""
        query = {"limit": limit} if after is None else {"limit": limit, "after": after}
        document: Mapping[str, Any] = await self._gateway.ask_document("GET", _PATH, params=query)
        return document

    async def _change(
        self, verb: str, binding_id: str, stated: Mapping[str, Any], intent_key: str | None
    ) -> Mapping[str, Any]:
        intent = {
            **stated,
            "intent_kind": f"source_binding_{verb}",
            "intent_key": intent_key or self._new_key(),
            "binding_id": binding_id,
        }
        headers = PREFER_PROOF if self._prove else {}
        body = {"intents": [intent]}
        answer = await self._gateway.ask_document("POST", _PATH, json=body, headers=headers)
        with reading():
            [result] = answer["results"]
            if result["validation_result"] != "accepted":
                raise GatewayError(
                    result["reason_code"], f"{result.get('field', '')}: {result['message']}"
                )
        if self._prove:
            proof_of_result(result)
        document: Mapping[str, Any] = result
        return document
