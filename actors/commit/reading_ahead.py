"""Reads what a batch is going to ask for: with its snapshot, where the store is elsewhere.

All of it is a hint. What one batch has touched says what the next one asks for, as far as its units
do not say it: the counts of the day, the bindings, and from what sources were drawn.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from operator import attrgetter

from actors.commit.batch import BatchPart, units_of
from actors.commit.units import records_read
from kernel.authority.read_ahead import (
    Around,
    RecordKey,
    joined_queries,
    note_drawn,
    read_ahead,
)
from kernel.authority.requests import cascades_to_come
from kernel.ledger.ledger import GENESIS_POLICY, Ledger, LedgerTransaction
from kernel.ledger.record_keys import shard_epoch_key
from kernel.ledger.shards import Fence
from kernel.ledger.store.tables import Questions
from kernel.records.active_bindings import catch_up_at_beginning, effects_to_come
from kernel.transaction.operation_counts import counts_to_come, note_counted
from kernel.values.errors import OF_THE_LEDGER

_POLICY = "the policy that the last batch was under"


class HintFailed(Exception):
    """Raised when reading ahead failed; the transaction is tried again without it."""


class ReadingAhead:
    """What one batch reads ahead."""

    def __init__(self, ledger: Ledger, fences: Iterable[Fence], parts: list[BatchPart]) -> None:
        """Find out which records the units are going to ask for.

        Raises:
            HintFailed: that cannot be told.
        """
        self._kept = ledger.kept
        # The generation of the batch before is nearly always in force; what names another key is
        # read when it is asked for.
        policy = self._kept.get(_POLICY, GENESIS_POLICY)
        try:
            epochs: Iterator[RecordKey] = map(shard_epoch_key, map(attrgetter("shard"), fences))
            units = map(records_read, units_of(parts), repeat(policy))
            self._keys = [*epochs, *chain.from_iterable(units)]
        except Exception as error:
            raise HintFailed from error
        self.is_asked_at_once = False
        """Whether a store was asked for all of it with the snapshot."""

    def questions(self) -> Questions:
        """Return what a store is asked with the snapshot that is asked as seldom as possible."""
        self.is_asked_at_once = True
        others = effects_to_come(self._kept)
        if any(kind is Around.INPUTS for kind, _ in self._keys):
            others += cascades_to_come()
        joined = (*joined_queries(self._keys, self._kept), counts_to_come(self._kept))
        return Questions(joined, others)

    def read(self, transaction: LedgerTransaction) -> None:
        """Read it, at the beginning of the transaction.

        Raises:
            HintFailed: what was kept may be incomplete, and the transaction may be spoilt.
        """
        try:
            read_ahead(transaction, self._keys)
            self._kept[_POLICY] = transaction.policy_generation_id()
            if self.is_asked_at_once:
                catch_up_at_beginning(transaction)
        except OF_THE_LEDGER:
            raise
        except Exception as error:
            raise HintFailed from error

    def note(self, transaction: LedgerTransaction) -> None:
        """Keep for the next batch what this one has touched."""
        note_counted(transaction)
        note_drawn(transaction)
