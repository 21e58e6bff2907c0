"""Asks witnesses on behalf of whoever publishes a log, and deals with what each answers."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.signed_note import NoteSignature

WitnessOutcome = Literal["cosigned", "behind", "diverged", "refused", "unreachable"]

Prove = Callable[[int], Awaitable[Sequence[bytes]]]
"""Returns the path from the tree of an older size to that of the checkpoint."""

ProveHandovers = Callable[[], Awaitable[Sequence[bytes]]]
"""Returns the proof files of the hand-overs of the log's keys, all under the checkpoint."""


@dataclass(frozen=True, slots=True)
class WitnessReply:
    """What came of asking one witness."""

    url: str
    outcome: WitnessOutcome
    message: str = ""
    signatures: tuple[NoteSignature, ...] = ()
    status: int | None = None
    """The status with which it refused, in the terms of HTTP."""

    size: int | None = None
    """How many rows it has seen, where it said so."""


class Witnesses(Protocol):
    """The witnesses of a policy; none of them raises, whatever it answers."""

    async def ask(
        self, checkpoint: SignedCheckpoint, prove: Prove, prove_handovers: ProveHandovers
    ) -> Sequence[WitnessReply]:
        """Ask every witness to cosign a checkpoint; return what came of each."""

    async def look(self, signed: SignedCheckpoint) -> Sequence[WitnessReply]:
        """Ask every witness whether it has seen more than a checkpoint that is public already."""

    async def aclose(self) -> None:
        """Close the connections."""
