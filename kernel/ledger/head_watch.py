"""Remembers the head of the record that this process knows, and tells whether rows were lost.

A database that is put back from a backup, or whose standby took over without the last commits, is
a sound record and not the one that this process has answered from. So the head that was committed
or read last is kept, and every transaction and every snapshot is compared with it: a head behind
the known one, or other rows up to it, is `ledger_went_back`. From then on nothing is read or
written here (decision kernel/0580). A finding on the record that nobody has accepted says the same
of other processes (`went_back.py`).

The names of what each transaction wrote are kept, the newest only, so that what is missing
afterwards can be told.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kernel.ledger import schema
from kernel.ledger.store.buffer import BufferedTables
from kernel.values.errors import LedgerUnavailable

if TYPE_CHECKING:
    from kernel.ledger.ledger import Head

REMEMBERED_MAX = 65_536
"""Names that are kept of what was written, those of the newest transactions."""

Departure = Literal["behind", "other_rows", "other_receipts", "file_replaced", "finding_stands"]

AnswerKind = Literal["operation", "request", "outcome", "refusal", "session"]

_MESSAGES: dict[Departure, str] = {
    "behind": "the ledger is behind what this process has committed or read",
    "other_rows": "the ledger has other rows than those that this process has committed or read",
    "other_receipts": "the ledger has other receipts than those that this process has seen",
    "file_replaced": "the ledger's file was replaced while it was in use",
    "finding_stands": "a gateway has found that the ledger went back, and nobody has accepted it",
}
_TODO = (
    "; put the right database in its place, or see what is lost by `rotulus ledger lost` and go on"
    " from what is there by `rotulus ledger accept-head --reason TEXT --authority NAME`"
)


class LedgerWentBack(LedgerUnavailable):
    """The ledger is not the one that was answered from; nothing was read or written."""

    code = "ledger_went_back"

    def __init__(self, departure: Departure) -> None:
        super().__init__(f"{_MESSAGES[departure]}{_TODO}")
        self.departure = departure


class HeadLook(NamedTuple):
    """The head of a snapshot, and what the snapshot has at the places of a known head."""

    now: "Head"
    row_hash: str | None
    receipt_hash: str | None
    finding_stands: bool


class Ahead(NamedTuple):
    """The look of a store that takes it with the snapshot, and what was known when it did."""

    known: "Head | None"
    look: HeadLook


class Answered(NamedTuple):
    """Something that a transaction has put on the record, by its name."""

    kind: AnswerKind
    name: str
    sequence: int
    """Of an operation its place in the log, of a refusal that of its receipt, of a request its
    own, of a session how many events it had; 0 of an outcome."""

    session_id: str | None = None


class Remembered(NamedTuple):
    """One transaction: where it left the chains, and what it wrote."""

    head: "Head"
    answered: tuple[Answered, ...]


class Memory(NamedTuple):
    """All that a process knows of the record that it has answered from."""

    known: "Head"
    since: "Head | None"
    """Whatever was written up to this head is not remembered; None where that is everything."""

    remembered: tuple[Remembered, ...]
    """In the order of their heads."""


def departure(known: "Head", look: HeadLook) -> Departure | None:
    """Tell how a record departs from a known head, None where it goes on from there."""
    now = look.now
    is_behind = (
        now.committed_at_us < known.committed_at_us
        or now.ec_sequence_number < known.ec_sequence_number
        or now.receipt_sequence < known.receipt_sequence
    )
    if is_behind:
        return "behind"
    if known.ec_sequence_number and look.row_hash != known.row_hash:
        return "other_rows"
    if known.receipt_sequence and look.receipt_hash != known.receipt_hash:
        return "other_receipts"
    # Every transaction moves the clock, so two heads of one record never have the same.
    if now.committed_at_us == known.committed_at_us and now != known:
        return "other_rows"
    return None


def _tell_nobody() -> None:
    """Do nothing where nobody waits for a problem."""


class HeadWatch:
    """The known head of one process, and whether its record is still that one."""

    def __init__(
        self, *, stands_halted: bool = False, remembered_max: int = REMEMBERED_MAX
    ) -> None:
        """`stands_halted` goes on beside a finding that nobody has accepted yet."""
        self._stands_halted = stands_halted
        self._remembered_max = remembered_max
        self._known: Head | None = None
        self._since: Head | None = None
        self._remembered: deque[Remembered] = deque()
        self._names = 0
        self._lock = threading.Lock()
        self._in_doubt: Remembered | None = None
        self.problem: LedgerWentBack | None = None
        """Why nothing is read or written any more."""

        self.when_halted: Callable[[], object] = _tell_nobody
        """Called once there is a problem, on the thread that found it."""

    @property
    def known(self) -> "Head | None":
        """The head that was committed or read last; None before the first."""
        return self._known

    def expect_sound(self) -> "Head | None":
        """Return the known head.

        Raises:
            LedgerWentBack: the record is not the one that was answered from.
        """
        if self.problem is not None:
            raise self.problem
        return self._known

    def look(self, known: "Head | None", look: HeadLook) -> None:
        """Compare a record with the head that was known before it was looked at, and know its own.

        Raises:
            LedgerWentBack: from now on, always.
        """
        why = None if known is None else departure(known, look)
        if why is None and look.finding_stands and not self._stands_halted:
            why = "finding_stands"
        if why is not None:
            self.halt(why)
        self._advance(look.now)

    def halt(self, why: Departure) -> None:
        """Read and write nothing from now on.

        Raises:
            LedgerWentBack: always; the first finding stands.
        """
        with self._lock:
            if self.problem is None:
                self.problem = LedgerWentBack(why)
                self.when_halted()
        raise self.problem

    def note_commit(self, head: "Head", answered: tuple[Answered, ...]) -> None:
        """Know a head that was committed here, and what was written up to it."""
        self._advance(head)
        if not answered:
            return
        with self._lock:
            self._remembered.append(Remembered(head, answered))
            self._names += len(answered)
            while self._names > self._remembered_max:
                dropped = self._remembered.popleft()
                self._names -= len(dropped.answered)
                self._since = dropped.head

    def doubt(self, head: "Head", answered: tuple[Answered, ...]) -> None:
        """Keep what a COMMIT of unknown outcome would have written, until it is looked up."""
        self._in_doubt = Remembered(head, answered)

    def settle(self) -> None:
        """Know that what was in doubt is on the record."""
        in_doubt, self._in_doubt = self._in_doubt, None
        if in_doubt is not None:
            self.note_commit(*in_doubt)

    def memory(self) -> Memory | None:
        """Return what is known; None before the first head."""
        with self._lock:
            known, since = self._known, self._since
            remembered = sorted(self._remembered, key=lambda each: each.head.committed_at_us)
        return None if known is None else Memory(known, since, tuple(remembered))

    def _advance(self, head: "Head") -> None:
        with self._lock:
            known = self._known
            if known is None:
                # What was there before is nothing that this process has answered.
                self._since = head
            if known is None or head.committed_at_us > known.committed_at_us:
                self._known = head


def answers_in(tables: BufferedTables, requests_before: int) -> tuple[Answered, ...]:
    """Return what a transaction is about to write, by its names."""
    answered: list[Answered] = []
    for table in tables.pending_tables():
        take = _TAKERS.get(table.name)
        if take is not None:
            answered += take(tables.pending_rows(table), requests_before)
    return tuple(answered)


def _operations(rows: Iterable[dict[str, Any]], _: int) -> Iterator[Answered]:
    fields = itemgetter("operation_id", "ec_sequence_number", "session_id")
    return (Answered("operation", *fields(row)) for row in rows)


def _requests(rows: Iterable[dict[str, Any]], before: int) -> Iterator[Answered]:
    return (
        Answered("request", row["request_id"], row["request_sequence"])
        for row in rows
        if row["request_sequence"] > before
    )


def _outcomes(rows: Iterable[dict[str, Any]], _: int) -> Iterator[Answered]:
    return (Answered("outcome", row["request_id"], 0) for row in rows)


def _refusals(rows: Iterable[dict[str, Any]], _: int) -> Iterator[Answered]:
    return (
        Answered("refusal", row["receipt_id"], row["receipt_sequence"])
        for row in rows
        if row["operation_id"] is None and row["reason_code"] is not None
    )


def _sessions(rows: Iterable[dict[str, Any]], _: int) -> Iterator[Answered]:
    return (
        Answered("session", row["session_id"], row["n_events"], row["session_id"]) for row in rows
    )


_TAKERS = {
    schema.kernel_event_log.name: _operations,
    schema.outbox.name: _requests,
    schema.outbox_outcomes.name: _outcomes,
    schema.receipts.name: _refusals,
    schema.belief_sessions.name: _sessions,
}
