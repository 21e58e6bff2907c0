"""Sends operations of one session, as many as there are, as lines with their own outcomes.

They are sent in their order, in requests that a gateway reads to the end whether its answers are
read or not. An operation without an answer is sent again under its key, so an operation takes
effect once.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from .errors import GatewayError
from .gateway_http import GatewayHttp
from .log_proofs import PREFER_PROOF, InclusionProof, proof_of_result

LINES_MAX: Final = 512
BODY_BYTES_MAX: Final = 2 << 20
"""Lines and bytes of one request: what a gateway reads ahead of its answers."""


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """What came of one intent; either a result or an error."""

    result: Mapping[str, Any] | None
    """The gateway's result, on the record where it was accepted or rejected."""

    error: GatewayError | None
    """Why the gateway could not read the intent."""

    proof: InclusionProof | None = None
    """The verified proof of an accepted result's row, where proofs were asked for."""


class SessionOperations:
    """The operations of one session at a gateway."""

    def __init__(self, gateway: GatewayHttp, session_id: str) -> None:
        self._gateway = gateway
        self._path = f"/v1/sessions/{session_id}/operations:bulk"

    async def submit(
        self, intents: Iterable[Mapping[str, Any]], *, prove: bool = False
    ) -> AsyncIterator[OperationOutcome]:
        """Yield the outcome of each intent, in order; what is yielded is durable.

        Intents are read as they are sent. One that has no outcome yet when this ends or is
        cancelled may be sent again under its key. With `prove` every accepted result comes with
        the proof that its row is in the log, verified.

        Raises:
            GatewayError: the session does not take them, or nobody answered for too long.
            LogProofInvalid: an answer does not prove what it says; it may be on the record.
            ValueError: an intent is no JSON; those before it may have been sent.
        """
        for window in _windows(json.dumps(intent, allow_nan=False).encode() for intent in intents):
            patience, unanswered = self._gateway.patience(), window
            while unanswered:
                answers, refusal = await self._gateway.send_lines(
                    self._path, unanswered, PREFER_PROOF if prove else {}
                )
                unanswered = unanswered[len(answers) :]
                for answer in answers:
                    yield _outcome(answer, prove=prove)
                if answers:
                    patience = self._gateway.patience()
                if unanswered:
                    await patience.wait(refusal or httpx.RemoteProtocolError("cut off"))


def _outcome(answer: Mapping[str, Any], *, prove: bool) -> OperationOutcome:
    error = answer.get("error")
    if error is None:
        result = answer["result"]
        is_proved = prove and result["validation_result"] == "accepted"
        return OperationOutcome(result, None, proof_of_result(result) if is_proved else None)
    refusal = GatewayError(error["code"], error["message"], details=error.get("details"))
    return OperationOutcome(None, refusal)


def _windows(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    window: list[bytes] = []
    size = 0
    for line in lines:
        if window and (len(window) == LINES_MAX or size + len(line) > BODY_BYTES_MAX):
            yield window
            window, size = [], 0
        window.append(line)
        size += len(line)
    if window:
        yield window
