"""Follows a docket's course: which strikes hold after each entry, and when a session ends.

A session only strikes. If an entry undoes something that holds, everything struck so far is parted
into what is undone and what holds on; the second is what the successor begins with. An entry that
undoes nothing that holds changes nothing.

An entry that would leave no posture contradicts what was read before it: something between them
undid the earlier, in words that no row reads. The newer act of a court stands, so as much as leaves
a posture is carried over, the newest first (`CONTRADICTED`). An entry whose own rules leave no
posture between them strikes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from workers.dockets.postures import NO_ACT, eliminations, universe
from workers.dockets.reader import DocketEntry
from workers.dockets.references import references
from workers.dockets.reversals import REVERSALS, Reversal, falls_with
from workers.dockets.rule import Elimination
from workers.dockets.span import TextSpan

CONTRADICTED = "contradicted"
CONTRADICTED_REASON = "A later act of the court leaves no room for what was struck before it."


@dataclass(frozen=True, slots=True)
class DocketStrike:
    """One elimination, and the entry that it was read from."""

    entry: DocketEntry
    elimination: Elimination


@dataclass(frozen=True, slots=True)
class Undoing:
    """What one entry undoes, and what holds on."""

    entry: DocketEntry
    name: str
    """A row of `REVERSALS`, or `CONTRADICTED`."""
    reason: str
    span: TextSpan
    undone: tuple[DocketStrike, ...]
    carried: tuple[DocketStrike, ...]


Act = Undoing | DocketStrike


class DocketCourse:
    """The strikes of a docket of some kind that hold after the entries taken so far."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.holding: list[DocketStrike] = []
        """In the order in which they were struck."""

        self.left = frozenset(universe(kind))
        """The postures that are left."""

        self.unclear: list[DocketEntry] = []
        """The entries whose own rules contradict each other."""

    def take(self, entry: DocketEntry) -> list[Act]:
        """Take the next entry as it was filed; return what it undoes, then what it strikes."""
        acts: list[Act] = []
        undoing = self._undoing(entry)
        if undoing is not None:
            acts.append(self._go_on(undoing))
        struck = [
            DocketStrike(entry, elimination) for elimination in eliminations(entry, self.kind)
        ]
        gone = _struck_hypotheses(struck)
        if gone.issuperset(universe(self.kind)):
            self.unclear.append(entry)
            return acts
        if self.left <= gone:
            acts.append(self._go_on(self._contradiction(entry, struck)))
        self.holding += struck
        self.left -= gone
        return [*acts, *struck]

    def _go_on(self, undoing: Undoing) -> Undoing:
        self.holding = [*undoing.carried]
        self.left = frozenset(universe(self.kind)) - _struck_hypotheses(undoing.carried)
        return undoing

    def _undoing(self, entry: DocketEntry) -> Undoing | None:
        first: tuple[Reversal, TextSpan] | None = None
        undone: set[DocketStrike] = set()
        for row, span in reversals(entry, self.kind):
            hit = self._named_strikes(entry) if not row.undoes else self._read_by(row.undoes)
            undone |= hit
            first = first or ((row, span) if hit else None)
        if first is None:
            return None
        row, span = first
        return self._partial_undoing(entry, row.name, row.reason, span, undone)

    def _read_by(self, rules: Iterable[str]) -> set[DocketStrike]:
        names = frozenset(rules)
        return {struck for struck in self.holding if struck.elimination.rule in names}

    def _named_strikes(self, entry: DocketEntry) -> set[DocketStrike]:
        numbers = {reference.number for reference in references(entry.description)}
        numbers.discard(entry.document_number or "")
        named = {struck for struck in self.holding if struck.entry.document_number in numbers}
        fallen = (falls_with(self.kind, struck.elimination.rule) for struck in named)
        families = frozenset[str]().union(*fallen)
        # What rests on a struck entry came after it.
        first = min((at for at, struck in enumerate(self.holding) if struck in named), default=0)
        return named | (self._read_by(families) & set(self.holding[first:]))

    def _contradiction(self, entry: DocketEntry, struck: list[DocketStrike]) -> Undoing:
        left = frozenset(universe(self.kind)) - _struck_hypotheses(struck)
        undone: set[DocketStrike] = set()
        for held in reversed(self.holding):
            if left <= frozenset(held.elimination.strikes):
                undone.add(held)
            else:
                left -= frozenset(held.elimination.strikes)
        span = struck[0].elimination.span
        return self._partial_undoing(entry, CONTRADICTED, CONTRADICTED_REASON, span, undone)

    def _partial_undoing(
        self, entry: DocketEntry, name: str, reason: str, span: TextSpan, undone: set[DocketStrike]
    ) -> Undoing:
        return Undoing(
            entry,
            name,
            reason,
            span,
            tuple(struck for struck in self.holding if struck in undone),
            tuple(struck for struck in self.holding if struck not in undone),
        )


def reversals(entry: DocketEntry, kind: str) -> list[tuple[Reversal, TextSpan]]:
    """Return the rows that read an entry, in table order, and the words that each read."""
    text = entry.description
    rows = []
    for row in REVERSALS:
        if kind not in row.court_kinds or (row.undoes and NO_ACT.search(text)):
            continue
        span = row.words(text)
        if span is not None:
            rows.append((row, span))
    return rows


def _struck_hypotheses(struck: Iterable[DocketStrike]) -> frozenset[str]:
    return frozenset[str]().union(*(strike.elimination.strikes for strike in struck))
