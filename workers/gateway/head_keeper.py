"""Keeps what a gateway knows of its ledger beyond its own end, and ends it where rows were lost.

A gateway whose ledger went back ends everything that it has in memory, leaves on the ledger that is
there what it knows to be lost, and stands halted until an operator has accepted that ledger; then
it begins anew from it. So does one that finds a finding of another gateway, and one that was
stopped while a file was put back: what it knew last lies in its data folder, and beside the key
with which it signs (decision workers/0350).

Decision workers/0360 says why.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.head_watch import HeadWatch, LedgerWentBack, Memory
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import ledger_id_of
from kernel.ledger.store.tables import Replaceable
from kernel.records.head_acceptance import record_finding
from kernel.values.errors import LedgerUnavailable
from workers.environment.known_head import (
    KnownHead,
    known_head_beside,
    read_known_head,
    write_known_head,
)

TICK_S = 1.0
"""Pause between two looks of a gateway that nobody asks for anything."""

FILE_NAME = "known-head.json"

_log = structlog.get_logger(__name__)


class HeadKeeper:
    """What one gateway process knows of its ledger, from one beginning to the next."""

    def __init__(self, gateway: str, folder: Path, key_file: Path | None) -> None:
        self._gateway = gateway
        self._paths = [folder / FILE_NAME]
        if key_file is not None:
            self._paths.append(known_head_beside(key_file))
        self._carried: Memory | None = None
        self._halted = False
        self._identity = ""
        self._kept_at_us = 0

    def settle(self, ledger: Ledger) -> bool:
        """Hold a ledger against what was known, watch it, and tell whether to stand halted.

        Raises:
            LedgerUnavailable, CommitOutcomeUnknown: as when a ledger is opened.
        """
        self._identity = ledger.read(ledger_id_of) or ""
        for memory in self._memories():
            with ledger.transaction() as transaction:
                if record_finding(transaction, self._gateway, memory):
                    _log.critical(
                        "ledger_went_back",
                        known=memory.known.ec_sequence_number,
                        found=transaction.head_now.ec_sequence_number,
                    )
        halted = ledger.read(LedgerView.finding_stands)
        self._halted = halted
        if not halted:
            self._carried = None
        ledger.watch(HeadWatch(stands_halted=halted))
        return halted

    async def run(self, ledger: Ledger, *, halted: bool, end: Callable[[], None]) -> None:
        """Look at the ledger until the gateway has to begin anew, then call `end` once."""
        watch, departed = ledger.watch_of_head, anyio.Event()
        if watch is not None:
            watch.when_halted = partial(
                asyncio.get_running_loop().call_soon_threadsafe, departed.set
            )
        while not await anyio.to_thread.run_sync(self._has_to_begin_anew, ledger, halted):
            if watch is None or watch.problem is None:
                with anyio.move_on_after(TICK_S):
                    await departed.wait()
        if watch is not None and watch.problem is not None:
            _log.critical("gateway_halts", departure=watch.problem.departure)
        end()
        await anyio.sleep_forever()

    def keep(self, ledger: Ledger) -> None:
        """Keep everything that is known, for the next beginning and on the disk.

        A halted gateway has answered nothing, and keeps what was known before: another database may
        be put in the place of the one that it looks at, with more of the answers or with fewer.
        """
        if self._halted:
            return
        watch = ledger.watch_of_head
        memory = None if watch is None else watch.memory()
        if watch is not None and watch.problem is not None:
            self._carried = memory
        if memory is not None:
            self._write(memory, synced=True)

    def close(self, ledger: Ledger) -> None:
        """Close a ledger; nothing is folded into a file that was put in its place."""
        watch, store = ledger.watch_of_head, ledger.store
        problem = None if watch is None else watch.problem
        if problem is None or not isinstance(store, Replaceable):
            ledger.close()
        elif problem.departure == "file_replaced" or store.is_replaced() or _is_overwritten(ledger):
            store.abandon()
        else:
            ledger.close()

    def _memories(self) -> Iterator[Memory]:
        if self._carried is not None:
            yield self._carried
        for path in self._paths:
            known = read_known_head(path)
            if known is not None and known.ledger_id == self._identity:
                yield known.memory

    def _has_to_begin_anew(self, ledger: Ledger, halted: bool) -> bool:  # noqa: FBT001 - on a thread
        def ask(view: LedgerView) -> tuple[bool, str]:
            return view.finding_stands(), ledger_id_of(view) or ""

        try:
            stands, self._identity = ledger.read(ask)
            if _is_overwritten(ledger):
                assert ledger.watch_of_head is not None  # noqa: S101 - see `settle`
                ledger.watch_of_head.halt("file_replaced")
        except LedgerWentBack:
            return True
        except LedgerUnavailable:
            return False
        if not self._halted:
            self._keep_head(ledger)
        return halted and not stands

    def _keep_head(self, ledger: Ledger) -> None:
        """Keep the head alone, which is little; what was written is kept at the end."""
        known = None if ledger.watch_of_head is None else ledger.watch_of_head.known
        if known is not None and known.committed_at_us != self._kept_at_us:
            self._kept_at_us = known.committed_at_us
            self._write(Memory(known, known, ()), synced=False)

    def _write(self, memory: Memory, *, synced: bool) -> None:
        for path in self._paths:
            try:
                write_known_head(path, KnownHead(self._identity, memory), synced=synced)
            except OSError as error:
                _log.warning("known_head_not_kept", path=str(path), error=error.strerror)


def _is_overwritten(ledger: Ledger) -> bool:
    watch, store = ledger.watch_of_head, ledger.store
    if watch is None or watch.known is None or not isinstance(store, Replaceable):
        return False
    return store.is_overwritten(watch.known.committed_at_us)
