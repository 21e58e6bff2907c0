"""Confirms evidence by the safe path, once it is on record (§13.6, INV-K-OUTCOME-1).

Whoever writes evidence confirms none of it. After each commit the evidence that was written since
is looked at: what the safe path admits is confirmed by an operation of its own, and the rest stays
in the queue of reviews. A process that starts looks once at what is open, because another may have
ended between the evidence and its confirmation (decision workers/0140). That look reads pages of an
index of what is open, so it costs what waits and nothing of what was decided (decision
workers/0146).
"""

from typing import Final

import anyio
import anyio.to_thread
import structlog

from actors.commit.review_units import AutoConfirmUnit
from actors.errors import ActorError
from actors.supervision import WakeSignal
from kernel.audit.open_reviews import NOT_CONFIRMED_YET, ReviewPage, open_reviews
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.records.reviews.evidence import (
    STORES,
    EvidenceKind,
    evidence_after,
    evidence_of,
    open_evidence,
    why_a_person_decides,
)
from kernel.values.errors import KernelError, LedgerUnavailable
from workers.use_cases.authority_sweeps import FencedWrite

PAGE: Final = 256
"""Writes of evidence that are looked at in one reading."""

Admitted = list[tuple[EvidenceKind, str]]

_log = structlog.get_logger(__name__)


class EvidenceConfirmation:
    """Confirms what the safe path admits; run `run` in a task group.

    Where gateways share a ledger, each may: what another has confirmed is open no more.
    """

    def __init__(self, ledger: Ledger, write: FencedWrite) -> None:
        self._ledger = ledger
        self._write = write
        self._wake = WakeSignal()
        self._looked_until: int | None = None
        """The place in the log up to which evidence was looked at; None before the first look."""

    def notify(self) -> None:
        """Wake it after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Confirm until cancelled."""
        while True:
            try:
                await self.confirm()
            except (ActorError, KernelError, LedgerUnavailable) as error:
                _log.warning("confirmation_waits", code=getattr(error, "code", "internal"))
            await self._wake.next_look()

    async def confirm(self) -> int:
        """Confirm what the safe path admits of what was not looked at yet; return how many."""
        count = 0
        if self._looked_until is None:
            begun_at = await anyio.to_thread.run_sync(self._ledger.read, _head)
            for kind in STORES:
                count += await self._confirm_open(kind)
            self._looked_until = begun_at
        while True:
            admitted, until = await anyio.to_thread.run_sync(
                self._evidence_after, self._looked_until
            )
            count += await self._confirm(admitted)
            if until == self._looked_until:
                return count
            self._looked_until = until

    async def _confirm_open(self, kind: EvidenceKind) -> int:
        count, after = 0, ""
        while True:
            page = await anyio.to_thread.run_sync(self._open, kind, after)
            count += await self._confirm(
                [
                    (kind, item["record_id"])
                    for item in page.items
                    if item["reason"] == NOT_CONFIRMED_YET
                ]
            )
            if page.next_after is None:
                return count
            after = page.next_after

    async def _confirm(self, admitted: Admitted) -> int:
        """Ask for each; the unit judges again on what is on record then."""
        results = [await self._write(AutoConfirmUnit(kind, name)) for kind, name in admitted]
        return sum(not isinstance(result, str) for result in results)

    def _open(self, kind: EvidenceKind, after: str) -> ReviewPage:
        with self._ledger.view() as view:
            return open_reviews(view, kind, after=after)

    def _evidence_after(self, after: int) -> tuple[Admitted, int]:
        with self._ledger.view() as view:
            written, until = evidence_after(view, after, PAGE)
            return [(kind, name) for kind, name in written if _is_safe(view, kind, name)], until


def _head(view: LedgerView) -> int:
    return view.head().ec_sequence_number


def _is_safe(view: LedgerView, kind: EvidenceKind, record_id: str) -> bool:
    record = open_evidence(view, kind, record_id)
    if record is None:
        return False
    return why_a_person_decides(evidence_of(view, kind, record_id, record)) is None
