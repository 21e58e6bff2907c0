"""Proves that rows are in the log, for all requests that wait for it, from one snapshot.

While some are read in a thread, those that are asked for meanwhile wait, and are read together: the
head and the open tile are read once for all of them, and no two threads work on it (decision
kernel/0500).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import anyio

from kernel.ledger.quarantine import RangeQuarantined
from kernel.records.access.readable_view import ReadableView
from kernel.values.errors import KernelError
from workers.views.log_proofs import InclusionDocument, inclusions

Proofs = list[InclusionDocument]
Read = Callable[[Callable[[ReadableView], None]], Awaitable[None]]
"""Runs a question on a snapshot, off the event loop."""


@dataclass(slots=True, eq=False)
class _Wanted:
    """The rows of one request; then their proofs, or why they could not be read."""

    sequences: Sequence[int]
    proofs: Proofs = field(default_factory=list)
    failure: KernelError | None = None
    is_answered: bool = False


def _is_sound(view: ReadableView, wanted: _Wanted) -> bool:
    """Tell whether none of the rows is quarantined; else the request alone fails for it."""
    try:
        for sequence in wanted.sequences:
            view.quarantines().expect_none_over(sequence)
    except RangeQuarantined as error:
        wanted.failure, wanted.is_answered = error, True
    return wanted.failure is None


@dataclass(slots=True)
class GatheredProofs:
    """The proofs that requests of this process wait for."""

    _waiting: list[_Wanted] = field(default_factory=list)
    _reading: anyio.Lock = field(default_factory=anyio.Lock)

    async def of(self, sequences: Sequence[int], read: Read) -> Proofs:
        """Return the proof of each row, in their order, all under one tree head.

        Who is cancelled takes no proof from those that wait beside it.

        Raises:
            LedgerUnavailable: the ledger cannot be read.
        """
        wanted = _Wanted(sequences)
        self._waiting.append(wanted)
        try:
            async with self._reading:
                if not wanted.is_answered:
                    await self._read_all(read)
        finally:
            self._waiting.remove(wanted)
        if wanted.failure is not None:
            raise wanted.failure
        return wanted.proofs

    async def _read_all(self, read: Read) -> None:
        """Read the proofs of all that wait by now."""
        gathered = [each for each in self._waiting if not each.is_answered]

        def answer(view: ReadableView) -> None:
            sound = [each for each in gathered if _is_sound(view, each)]
            every = [sequence for each in sound for sequence in each.sequences]
            proofs = iter(inclusions(view, every))
            for each in sound:
                each.proofs = [*islice(proofs, len(each.sequences))]
                each.is_answered = True

        try:
            await read(answer)
        except KernelError as error:
            for each in gathered:
                each.failure, each.is_answered = error, True
