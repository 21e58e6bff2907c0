"""Answers those who wait until rows of the log are witnessed (D9).

A row is durable before anybody waits here. A wait is for a published checkpoint over the row that
carries the cosignatures of the policy's quorum; where that does not come in time the row stands all
the same, and the answer says which of the reasons below it was. A wait ends with the first
publication that settles it, so however many wait, the witnesses are asked once for all.
"""

from dataclasses import dataclass, field

import anyio

from actors.supervision import WakeSignal
from kernel.proof.checkpoint_verdict import CheckpointVerdict, JudgedCheckpoint

WAIT_S_MAX = 30
WAITS_MAX = 1024
"""Waits at once; whoever asks beyond them is answered without waiting."""


@dataclass(frozen=True, slots=True)
class Durability:
    """What is known of a row beyond that it is on the record."""

    note: bytes | None = None
    """The published checkpoint over the row with its cosignatures; None: it is not witnessed."""

    size: int = 0
    """How many rows that checkpoint has."""

    reason_code: str | None = None
    """Why it is not witnessed: `witnesses_not_set`, `witnesses_not_in_time`,
    `waits_full`, `gateway_stopping`, or the code for which nothing is published."""

    message: str = ""
    """The verdict, or the reason as a sentence."""


@dataclass(slots=True, eq=False)
class _Wait:
    size: int
    over: anyio.Event = field(default_factory=anyio.Event)
    answer: Durability | None = None


class WitnessedWaits:
    """The waits of a process; whoever publishes settles them."""

    def __init__(self) -> None:
        self.begun = WakeSignal()
        """Set when a wait begins."""

        self._waits: set[_Wait] = set()
        self._stopped = False
        self._newest: Durability | None = None
        self._last_message = "no checkpoint over the row was published"

    @property
    def wanted(self) -> int:
        """How many rows have to be witnessed before nobody waits; 0 where nobody does."""
        return max((wait.size for wait in self._waits), default=0)

    async def wait(self, size: int, within_s: float) -> Durability:
        """Return what is known of the first `size` rows once they are witnessed, or in time."""
        if self._newest is not None and self._newest.size >= size:
            return self._newest
        if self._stopped:
            return self._stopping()
        if len(self._waits) >= WAITS_MAX:
            message = f"{WAITS_MAX} wait for witnesses already"
            return Durability(reason_code="waits_full", message=message)
        wait = _Wait(size)
        self._waits.add(wait)
        self.begun.set()
        try:
            with anyio.move_on_after(min(max(within_s, 0.0), WAIT_S_MAX)):
                await wait.over.wait()
        finally:
            self._waits.discard(wait)
        if wait.answer is not None:
            return wait.answer
        return Durability(reason_code="witnesses_not_in_time", message=self._last_message)

    def settle(self, note: bytes, judgement: JudgedCheckpoint) -> None:
        """Settle whoever waits for rows that a published checkpoint shows to be witnessed."""
        self._last_message = f"the newest checkpoint is {judgement.message}"
        if judgement.verdict is not CheckpointVerdict.WITNESSED or judgement.stated is None:
            return
        self._newest = Durability(note, judgement.stated.size, message=judgement.message)
        self._end(self._newest, judgement.stated.size)

    def fail(self, code: str, message: str) -> None:
        """Tell whoever waits why nothing is published."""
        self._end(Durability(reason_code=code, message=message))

    def stop(self) -> None:
        """End every wait, and let none begin: the process is to end."""
        self._stopped = True
        self._end(self._stopping())

    def _end(self, answer: Durability, size: int | None = None) -> None:
        for wait in self._waits:
            if size is None or wait.size <= size:
                wait.answer = answer
                wait.over.set()

    @staticmethod
    def _stopping() -> Durability:
        return Durability(reason_code="gateway_stopping", message="the gateway stops")
