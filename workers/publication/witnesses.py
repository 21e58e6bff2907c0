"""Asks witnesses (C2SP tlog-witness): bounded, all at once, none of them believed.

1. A cosignature counts where it holds under a key of the policy; every other line is dropped.
2. A witness has `ASKED_S_MAX` for everything that is asked of it, and an answer so many bytes.
3. Nothing is unpacked and nowhere is followed: an answer that is encoded, or that leads elsewhere,
   is a refusal.
4. A witness that is at another size is asked once more, from there. One that has seen more of the
   log than the log has, or another history, is `diverged`: the log has to stop signing.
5. One that does not know the log's keys (403) is sent the proofs of their hand-overs, once; a
   witness that has no words for that refuses (decision workers/0263).
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import httpx

from kernel.proof.add_checkpoint import SIZE_TYPE, AddCheckpoint
from kernel.proof.add_handover import AddHandover
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.signed_note import signatures_of
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.verification import ProofInvalid
from kernel.proof.witness_policy import WitnessPolicy
from workers.publication.witnessing import Prove, ProveHandovers, WitnessOutcome, WitnessReply

ASKED_S_MAX = 5.0
ANSWER_BYTES_MAX = 32 << 10
WITNESSES_MAX = 32
"""Witnesses that are asked; a policy may name further ones whose URL it does not state."""

_SIZE = re.compile(r"(0|[1-9][0-9]{0,18})\n")
_HEADERS = {"Accept-Encoding": "identity", "Content-Type": "text/plain; charset=utf-8"}
_TRANSPORT_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    media_type: str
    body: str


async def _nothing_to_prove(_: int) -> Sequence[bytes]:
    return ()


async def _no_handovers() -> Sequence[bytes]:
    return ()


class WitnessClient:
    """The witnesses of a policy that have a URL, each known by it."""

    def __init__(
        self, policy: WitnessPolicy, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._transport = transport
        self._http: httpx.AsyncClient | None = None
        self._keys: dict[str, list[NoteVerifier]] = {}
        for witness in policy.witnesses:
            if witness.url is not None:
                self._keys.setdefault(witness.url, []).append(witness.verifier)
        self._sizes: dict[str, int] = {}
        """The size at which each witness is, as far as it said."""

    async def ask(
        self,
        checkpoint: SignedCheckpoint,
        prove: Prove,
        prove_handovers: ProveHandovers = _no_handovers,
    ) -> list[WitnessReply]:
        """Ask every witness to cosign a checkpoint; return what came of each."""
        replies: list[WitnessReply] = []
        if not self._keys:
            return replies
        if self._http is None:
            self._http = httpx.AsyncClient(transport=self._transport, trust_env=False)
        async with anyio.create_task_group() as tasks:
            for url in [*self._keys][:WITNESSES_MAX]:
                ask = partial(self._ask_witness, self._http, url, checkpoint, prove)
                tasks.start_soon(
                    _within, url, partial(_ask_or_hand_over, ask, prove_handovers), replies
                )
        return replies

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    async def look(self, signed: SignedCheckpoint) -> list[WitnessReply]:
        """Ask every witness whether it has seen more than a checkpoint that is public already."""
        return await self.ask(signed, _nothing_to_prove)

    async def _ask_witness(
        self,
        http: httpx.AsyncClient,
        url: str,
        checkpoint: SignedCheckpoint,
        prove: Prove,
        handovers: Sequence[bytes] = (),
    ) -> WitnessReply:
        size, looks = checkpoint.stated.size, prove is _nothing_to_prove
        old_size = size if looks else min(self._sizes.get(url, size), size)
        for _ in range(2):
            path = await prove(old_size) if 0 < old_size < size else ()
            request = AddCheckpoint(old_size, tuple(path), checkpoint)
            answer = await _post(http, url, request, handovers)
            if answer.status == httpx.codes.OK:
                return self._cosigned_reply(url, checkpoint, answer.body)
            stated = _size_in(answer)
            if stated is None:
                break
            self._sizes[url] = stated
            if stated > size:
                message = f"it has seen {stated} rows, the checkpoint has {size}"
                return WitnessReply(url, "diverged", message, size=stated)
            if stated == old_size:
                message = f"it has seen another root of {size} rows"
                return WitnessReply(url, "diverged", message, size=stated)
            if looks:
                return WitnessReply(url, "behind", f"it has seen {stated} rows", size=stated)
            old_size = stated
        else:
            return WitnessReply(url, "refused", "it states another size each time")
        outcome: WitnessOutcome = "refused"
        if answer.status == httpx.codes.UNPROCESSABLE_ENTITY:
            outcome = "diverged"
        return WitnessReply(url, outcome, f"status {answer.status}", status=answer.status)

    def _cosigned_reply(self, url: str, checkpoint: SignedCheckpoint, body: str) -> WitnessReply:
        keys = self._keys[url]
        known = {(key.name, key.key_id) for key in keys}
        try:
            lines = tuple(line for line in signatures_of(body) if (line.name, line.key_id) in known)
            checkpoint.with_signatures(lines).holding(keys)
        except ProofInvalid as error:
            return WitnessReply(url, "refused", str(error))
        if not lines:
            return WitnessReply(url, "refused", "it has signed under none of its keys")
        self._sizes[url] = size = checkpoint.stated.size
        return WitnessReply(url, "cosigned", signatures=lines, size=size)


async def _within(
    url: str, ask: Callable[[], Awaitable[WitnessReply]], replies: list[WitnessReply]
) -> None:
    reply = WitnessReply(url, "unreachable", f"no answer within {ASKED_S_MAX:g} s")
    with anyio.move_on_after(ASKED_S_MAX):
        try:
            reply = await ask()
        except _TRANSPORT_ERRORS as error:
            reply = WitnessReply(url, "unreachable", type(error).__name__)
    replies.append(reply)


async def _ask_or_hand_over(
    ask: Callable[..., Awaitable[WitnessReply]], prove_handovers: ProveHandovers
) -> WitnessReply:
    """Ask a witness, and one that does not know the log's keys to follow their hand-over."""
    reply = await ask()
    if reply.status == httpx.codes.FORBIDDEN and (handovers := await prove_handovers()):
        return await ask(handovers)
    return reply


async def _post(
    http: httpx.AsyncClient, url: str, request: AddCheckpoint, handovers: Sequence[bytes]
) -> _Answer:
    what, content = "add-checkpoint", request.to_bytes()
    if handovers:
        what, content = "add-handover", AddHandover(request, tuple(handovers)).to_bytes()
    target = f"{url.rstrip('/')}/{what}"
    async with http.stream("POST", target, content=content, headers=_HEADERS) as answer:
        body = b""
        # As it came over the wire: what is encoded is not unpacked.
        async for part in answer.aiter_raw():
            body += part
            if len(body) > ANSWER_BYTES_MAX:
                raise ValueError("the answer is too long")
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return _Answer(answer.status_code, media_type, body.decode())


def _size_in(answer: _Answer) -> int | None:
    """Return the size at which a witness says that it is."""
    stated = _SIZE.fullmatch(answer.body)
    is_size = answer.status == httpx.codes.CONFLICT and answer.media_type == SIZE_TYPE
    return int(stated[1]) if is_size and stated is not None else None
