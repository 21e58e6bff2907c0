"""Performs the effects that the record asks for: after the commit, in order, once (K19).

The ledger is the truth. An open request is performed, and its outcome is committed as an operation
that closes it. If the process is killed in between, the next one performs it again, which changes
nothing outside (`handlers.py`), and closes it. Replaying and verifying never come here.

If gateways share a ledger, the owner of the shard of `system` performs them. It reads the record
once more just before it acts, and again under the lock of the file to which events are appended;
its report is committed under the shard's fence.

Effects on one record keep their order. An error that may pass (a full disk) is tried again, ever
later, a bounded number of times in the life of a process; then the request ends as a dead letter
(decision workers/0009).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
import structlog

from actors.commit.units import ExternalReportUnit, Unit
from actors.errors import ActorError, ShardUnowned, StaleEpoch
from actors.orchestrator.intents import ReportExternalEffect
from actors.sharding.assignment import NO_SESSION
from actors.sharding.held_shards import HeldShards
from actors.supervision import WakeSignal
from kernel.algebra.effects import canonical_kind
from kernel.ledger.ledger import Document, Ledger, LedgerView, Request
from kernel.ledger.quarantine import RangeQuarantined
from kernel.ledger.shards import Fence, holds
from kernel.records.external import EXTERNAL_QUEUE
from kernel.values.canonical import sha256_hex
from kernel.values.errors import LedgerUnavailable
from workers.environment.folder_owner import FolderOfAnotherLedgerError
from workers.external_effects.errors import ExternalEffectError, translate_errors
from workers.external_effects.event_file import EventFile
from workers.external_effects.handlers import EVENTS, HANDLERS, Outside, Performed
from workers.external_effects.requests import read_effect
from workers.external_effects.write_once_folder import OutsideFolder

ATTEMPTS_MAX = 10
DELAY_MIN_S = 0.5
DELAY_MAX_S = 60.0
PENDING_MAX = 1000
_WAIT_FOR_SOMEBODY = frozenset({RangeQuarantined.code, FolderOfAnotherLedgerError.code})
LOOK_EVERY_S = 30.0
LOOK_EVERY_SHARED_S = 1.0
"""Pause between looks for the commits of other gateways, which do not wake this performer."""

PAUSE_BETWEEN_LOOKS_S = 0.02
"""Collects what is committed meanwhile; an idle performer begins at once."""

_log = structlog.get_logger(__name__)


class Commits(Protocol):
    """The process's one writer, which takes the reports."""

    async def commit(self, units: Sequence[Unit], fence: Fence | None = None) -> list[Any]:
        """Run units in one transaction and return their results once it is durable."""


@dataclass(slots=True)
class _Pending:
    request: Request
    target_ref: str
    attempts: int = 0
    due_s: float = float("-inf")


class ExternalEffects:
    """The effects outside of one ledger; run `run` in a task group."""

    def __init__(
        self,
        ledger: Ledger,
        commits: Commits,
        root: Path,
        random_bytes: Callable[[int], bytes],
        clock_s: Callable[[], float],
        held_shards: HeldShards | None = None,
        claim: Callable[[LedgerView], None] = lambda _: None,
    ) -> None:
        """Bind to a ledger; `claim` raises where the folder is another ledger's."""
        self._claim, self._is_claimed = claim, False
        self._ledger = ledger
        self._commits = commits
        folder = OutsideFolder(root)
        self._outside = Outside(folder, EventFile(folder, EVENTS), random_bytes, self._expect_owner)
        self._clock_s = clock_s
        self._held_shards = held_shards
        self._fence: Fence | None = None
        self._pending: dict[str, _Pending] = {}
        self._seen_sequence = 0
        self._next_due_s = float("inf")
        self._started = False
        self._wake = WakeSignal()

    def notify(self) -> None:
        """Wake the performer after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    @property
    def idle_s(self) -> float:
        """How long there is nothing to look for, unless something wakes it."""
        look_every_s = LOOK_EVERY_S if self._held_shards is None else LOOK_EVERY_SHARED_S
        return max(0.0, min(look_every_s, self._next_due_s - self._clock_s()))

    async def run(self) -> None:
        """Perform until cancelled; an effect that is being performed is finished first."""
        while True:
            await self.perform_due()
            await anyio.sleep(PAUSE_BETWEEN_LOOKS_S)
            await self._wake.wait(self.idle_s)

    async def perform_due(self) -> int:
        """Perform what is asked for and due, and return how many requests got their outcome."""
        if not self._is_ours():
            return 0
        try:
            await anyio.to_thread.run_sync(self._collect)
        except LedgerUnavailable as error:
            _log.warning("external_effects_wait", code=error.code)
            return 0
        closed, held = 0, set()
        self._next_due_s = float("inf")
        for pending in sorted(
            self._pending.values(), key=lambda pending: pending.request.request_sequence
        ):
            if pending.target_ref in held:
                continue
            if pending.due_s <= self._clock_s():
                closed += await self._attempt(pending)
            if pending.request.request_id in self._pending:
                held.add(pending.target_ref)
                self._next_due_s = min(self._next_due_s, pending.due_s)
        return closed

    def _is_ours(self) -> bool:
        """Whether this process performs; one that begins to looks at everything open again."""
        if self._held_shards is None:
            return True
        try:
            fence = self._held_shards.fence_for(NO_SESSION)
        except ShardUnowned:
            return False
        if fence != self._fence:
            self._fence, self._started, self._seen_sequence = fence, False, 0
            self._pending.clear()
        return True

    def _collect(self) -> None:
        room = PENDING_MAX - len(self._pending)
        if room <= 0:
            return
        if not self._started:
            with self._ledger.view() as view:
                self._outside.events.expect(request.request_id for request in _all_open(view))
            self._started = True
        with self._ledger.view() as view:
            requests = view.open_requests(
                queue=EXTERNAL_QUEUE, after=self._seen_sequence, limit=room
            )
            newest = view.head().request_sequence
        for request in requests:
            target_ref = str(request.document["target_ref"])
            self._pending[request.request_id] = _Pending(request, target_ref)
        # Requests of other queues in between are not looked at again.
        self._seen_sequence = newest if len(requests) < room else requests[-1].request_sequence

    async def _attempt(self, pending: _Pending) -> bool:
        """Perform and record; tell whether the request has its outcome now."""
        pending.attempts += 1
        request, final = pending.request, pending.attempts >= ATTEMPTS_MAX
        outcome = await anyio.to_thread.run_sync(self._perform, request)
        if isinstance(outcome, ExternalEffectError) and outcome.code in _WAIT_FOR_SOMEBODY:
            # It waits for whoever looks at the rows or the folder, however long that takes.
            pending.attempts = 0
            pending.due_s = self._clock_s() + DELAY_MAX_S
            _log.warning("external_effect_waits", request_id=request.request_id, code=outcome.code)
            return False
        if isinstance(outcome, ExternalEffectError) and outcome.transient and not final:
            self._put_off(pending, outcome.code)
            return False
        report = _report(request, pending.attempts, outcome)
        try:
            [answer] = await self._commits.commit([ExternalReportUnit(report)], self._fence)
        except ActorError as error:
            answer = error
            if isinstance(error, StaleEpoch) and self._held_shards and self._fence:
                self._held_shards.lose(self._fence)
        if isinstance(answer, Exception):
            if final:
                # It may have happened, and only the record does not know: that is no dead letter.
                pending.attempts -= 1
            self._put_off(pending, getattr(answer, "code", type(answer).__name__))
            return False
        if answer == "rejected":
            return self._is_refused(pending, final=final)
        if isinstance(outcome, ExternalEffectError):
            _log.error("external_effect_failed", request_id=request.request_id, code=outcome.code)
        self._forget(request.request_id)
        return True

    def _perform(self, request: Request) -> Performed | ExternalEffectError:
        """Run on a worker thread; nothing that a handler does wrong ends the process."""
        try:
            self._expect_owner()
            with self._ledger.view() as view:
                if not self._is_claimed:
                    with translate_errors():
                        self._claim(view)
                    self._is_claimed = True
                effect_request = read_effect(view, request)
            return HANDLERS[canonical_kind(effect_request.document["effect_kind"])](
                effect_request, self._outside
            )
        except ExternalEffectError as error:
            return error
        except LedgerUnavailable as error:
            return ExternalEffectError(LedgerUnavailable.code, f"the ledger is away: {error.code}")
        except RangeQuarantined as error:
            return ExternalEffectError(error.code, str(error))
        except FolderOfAnotherLedgerError as error:
            _log.error("external_folder_is_anothers", error=str(error))
            return ExternalEffectError(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - one effect's defect is not everybody's end
            # The type alone: a message could carry what an effect holds.
            _log.error("external_effect_defect", error=type(error).__name__)
            return ExternalEffectError("external_effect_defect", "")

    def _expect_owner(self) -> None:
        if self._fence is None:
            return
        with self._ledger.view() as view:
            if not holds(view, self._fence):
                raise ExternalEffectError(StaleEpoch.code, "another gateway performs")

    def _is_refused(self, pending: _Pending, *, final: bool) -> bool:
        request_id = pending.request.request_id
        _log.error("external_report_refused", request_id=request_id)
        if final:
            # It stays open on the record, and is looked at again by the next process.
            self._forget(request_id)
        else:
            self._put_off(pending, "external_report_refused")
        return False

    def _put_off(self, pending: _Pending, code: str) -> None:
        delay_s = min(DELAY_MAX_S, DELAY_MIN_S * 2 ** (pending.attempts - 1))
        pending.due_s = self._clock_s() + delay_s
        _log.warning(
            "external_effect_put_off",
            request_id=pending.request.request_id,
            attempts=pending.attempts,
            code=code,
        )

    def _forget(self, request_id: str) -> None:
        del self._pending[request_id]
        self._outside.events.forget(request_id)


def _report(
    request: Request, attempts: int, outcome: Performed | ExternalEffectError
) -> ReportExternalEffect:
    document = request.document
    report: Document = {
        "request_id": request.request_id,
        "original_operation_id": document["operation_id"],
        "effect_id": document["effect_id"],
        "effect_kind": document["effect_kind"],
        "attempts": attempts,
    }
    if isinstance(outcome, ExternalEffectError):
        report["error_code"] = outcome.code
    else:
        report["written"] = [
            {"path": file.path, "sha256": file.sha256, "size_bytes": file.size_bytes}
            for file in outcome.written
        ]
        if outcome.token_sha256 is not None:
            report["token_sha256"] = outcome.token_sha256
            report["recipient_email_hash"] = document["payload"]["recipient_email_hash"]
    return ReportExternalEffect(
        intent_key=sha256_hex(request.request_id.encode()),
        performed=not isinstance(outcome, ExternalEffectError),
        target_ref=document["target_ref"],
        report=report,
    )


def _all_open(view: LedgerView) -> Iterator[Request]:
    after = 0
    while page := view.open_requests(queue=EXTERNAL_QUEUE, after=after, limit=PENDING_MAX):
        yield from page
        after = page[-1].request_sequence
