"""Publishes the log by itself: every so many seconds, or rows, as a gateway is set to.

Any number of gateways may have the same key: the file of what was signed is locked, and whoever
comes second finds little to do. A hindrance is told in the log, at `/v1/checkpoint`, in `rotulus
status`, on the dashboard and as a metric. It keeps no request from its answer: the ledger is as
good as it was, and nothing is signed (decision workers/0201).

Whoever waits for witnesses has the log published at once, at most once a second, for all who wait
together (decision workers/0305). A checkpoint without its quorum is shown to the witnesses again
after each period, also where nothing came onto the log.

Receipts behind the last row are sealed before a checkpoint is signed, so that it commits to them,
and a gateway that stops signs once more (decision workers/0340).
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.proof.checkpoint_verdict import JudgedCheckpoint, judge_checkpoint
from kernel.proof.signing_keys import SigningKeyUnavailable
from kernel.proof.verification import ProofInvalid
from kernel.proof.witness_policy import WitnessPolicy
from kernel.values.errors import KernelError
from workers.environment.checkpoint_folder import read_checkpoint
from workers.environment.checkpoint_key import CheckpointDiverged
from workers.environment.key_file import CheckpointKeyBusy, CheckpointKeyUnusable
from workers.environment.known_logs import policy_at, with_own_keys
from workers.environment.settings import Settings
from workers.publication.log_publication import (
    LogPublisher,
    PublicationFolderUnusable,
    PublishedLog,
)
from workers.publication.witnessed_waits import Durability, WitnessedWaits
from workers.publication.witnesses import WitnessClient

LOOK_EVERY_S = 1.0
WAITED_FOR_EVERY_S = 1.0
"""Pause between two publications for whoever waits, from the beginning of one to the next."""

STOP_S = 0.5
"""Time that a stop has for the last publication; what witnesses hold back is signed all the same,
and published at the next start."""

Problem = tuple[str, str]
"""A code, and what stands in the way."""

_PROBLEMS = (
    CheckpointDiverged,
    CheckpointKeyUnusable,
    PublicationFolderUnusable,
    SigningKeyUnavailable,
    ProofInvalid,
    KernelError,
)

_log = structlog.get_logger(__name__)


async def _nothing_to_seal() -> None:
    """Seal nothing: whoever only reads writes no rows."""


class LogPublishing:
    """The published log of a gateway, and the loop that publishes it where there is a key."""

    def __init__(  # noqa: PLR0913 - what it publishes, with what, when and after what
        self,
        ledger: Ledger,
        folder: Path,
        *,
        policy: WitnessPolicy | None = None,
        key_file: Path | None = None,
        publisher: LogPublisher | None = None,
        every_s: float = 60.0,
        rows: int | None = None,
        clock_s: Callable[[], float] = lambda: 0.0,
        seal: Callable[[], Awaitable[object]] = _nothing_to_seal,
    ) -> None:
        """Publish with a publisher after so many seconds, or rows; without one only read.

        `seal` puts receipts under the tree that no row seals yet.
        """
        self.folder = folder
        self.problem: Problem | None = None
        """Why the last publication did not come about."""

        self._ledger = ledger
        self._policy = policy or WitnessPolicy()
        self._key_file = key_file
        self._publisher = publisher
        self._every_s = every_s
        self._rows = rows
        self._clock_s = clock_s
        self._seal = seal
        self._turn = anyio.Lock()
        self._size: int | None = None
        self._quorum_met = True
        self._tried_at_s = float("-inf")
        self._waits = WitnessedWaits()

    @property
    def publishes(self) -> bool:
        """Whether this gateway has a key to publish with."""
        return self._publisher is not None

    @property
    def wanted(self) -> int:
        """How many rows somebody waits for to be witnessed; 0 where nobody waits."""
        return self._waits.wanted

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self.publish_due()
            if self.wanted:
                await anyio.sleep(WAITED_FOR_EVERY_S)
            else:
                await self._waits.begun.wait(LOOK_EVERY_S)

    async def publish_due(self) -> bool:
        """Publish the log if it is due, and tell whether it was published."""
        async with self._turn:
            if self._publisher is None or not await self._is_due():
                return False
            self._tried_at_s = self._clock_s()
            return await self._publish(self._publisher)

    async def publish_last(self) -> bool:
        """Publish what came onto the log since, at a stop, and tell whether it was published."""
        with anyio.move_on_after(STOP_S):
            async with self._turn:
                if self._publisher is not None and await self._size_now() != self._size:
                    return await self._publish(self._publisher)
        return False

    async def _publish(self, publisher: LogPublisher) -> bool:
        try:
            published = await publisher.publish()
        except CheckpointKeyBusy:
            return False
        except _PROBLEMS as error:
            self._note((error.code, str(error)))
            self._waits.fail(error.code, str(error))
            return False
        self._note(None)
        await self._settle(published)
        return True

    async def wait_for_witnesses(self, size: int, within_s: float) -> Durability:
        """Return once the first `size` rows are witnessed, or after `within_s` (30 s at most).

        Where nobody is asked for cosignatures, or nothing can be signed, it returns at once.
        """
        if self._publisher is None or not any(witness.url for witness in self._policy.witnesses):
            message = "this gateway publishes nothing, or its policy names no witness to be asked"
            return Durability(reason_code="witnesses_not_set", message=message)
        if self.problem is not None:
            code, message = self.problem
            return Durability(reason_code=code, message=message)
        return await self._waits.wait(size, within_s)

    def stop(self) -> None:
        """End every wait for witnesses: the process is to end."""
        self._waits.stop()

    def note(self) -> bytes | None:
        """Return the note of the published checkpoint, None where none can be read."""
        try:
            return read_checkpoint(self.folder)
        except OSError:
            return None

    def policy(self) -> WitnessPolicy:
        """Return the policy, with the keys of this gateway's log among those that count."""
        return with_own_keys(self._policy, self._key_file)

    async def aclose(self) -> None:
        """Close the connections to witnesses."""
        if self._publisher is not None:
            await self._publisher.aclose()

    async def _settle(self, published: PublishedLog) -> None:
        note = published.checkpoint.to_bytes()

        def judgement() -> JudgedCheckpoint:
            return judge_checkpoint(note, self.policy())

        judged_now = await anyio.to_thread.run_sync(judgement)
        self._size = published.checkpoint.stated.size
        self._quorum_met = judged_now.quorum_met
        self._waits.settle(note, judged_now)

    async def _is_due(self) -> bool:
        waited_s = self._clock_s() - self._tried_at_s
        if waited_s >= self._every_s:
            await self._seal()
            has_more_to_do = self.problem is not None or not self._quorum_met
            return has_more_to_do or await self._size_now() != self._size
        if self.wanted and self.problem is None and waited_s >= WAITED_FOR_EVERY_S:
            return True
        if self._rows is None or self._size is None or self.problem is not None:
            return False
        return await self._size_now() - self._size >= self._rows

    async def _size_now(self) -> int:
        def size(view: LedgerView) -> int:
            return view.head().ec_sequence_number

        try:
            return await anyio.to_thread.run_sync(self._ledger.read, size)
        except KernelError:
            return self._size or 0  # whoever writes says what is wrong with the ledger

    def _note(self, problem: Problem | None) -> None:
        if problem != self.problem and problem is not None:
            _log.error("log_not_published", code=problem[0], reason=problem[1])
        self.problem = problem


def publishing_of(
    settings: Settings,
    ledger: Ledger,
    clock_s: Callable[[], float],
    seal: Callable[[], Awaitable[object]],
) -> LogPublishing:
    """Return what publishes the log where the settings name a key, and reads it in any case.

    `seal` puts receipts under the tree before a checkpoint is signed.

    Raises:
        PolicyInvalid: the file of the witnesses is no policy, or cannot be read.
    """
    policy = policy_at(settings.witness_policy)
    folder, key_file = settings.published_folder, settings.checkpoint_key
    publisher = None
    if key_file is not None:
        publisher = LogPublisher(ledger.read, key_file, folder, WitnessClient(policy))
    return LogPublishing(
        ledger,
        folder,
        policy=policy,
        key_file=key_file,
        publisher=publisher,
        every_s=settings.checkpoint_s,
        rows=settings.checkpoint_rows,
        clock_s=clock_s,
        seal=seal,
    )
