"""Routes the active bindings of a ledger: a fold, brought up to the head when asked (§13.4).

Active is a binding whose node is and that has a generation in force. The index of a process holds
as many as there are. `catch_up` reads what was applied since it was called last, one look at each
effect, and reads anew the bindings that were written: by their own verbs, by undoing those, by
anything that moves a node. So an event is routed by the bindings as the view has them, whichever
process wrote them.

A transaction may still be undone, so the index is brought to where the transaction began, and what
the transaction itself has written of bindings is laid over the answer (`match_at_head`).
"""

import threading
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import Document, Ledger, LedgerTransaction, LedgerView
from kernel.ledger.recent_changes import SNAPSHOT_OPERATIONS_MAX, Change
from kernel.ledger.store.tables import PAGE_ROWS, TableQuery
from kernel.model.bindings.dispatch import TARGETS
from kernel.model.bindings.routing import RoutingIndex
from kernel.model.bindings.selectors import BindingRefused, Phase, SelectorList, phase_of
from kernel.model.bindings.source_binding import BindingTargetKind, read_source_binding
from kernel.model.node_kinds import SOURCE_BINDING
from kernel.records.bindings import generation_in_force, snapshot_of
from kernel.values.priorities import CapacityPriority

_KIND_SETS: dict[frozenset[str], frozenset[str]] = {}
"""Each set of kinds once: many bindings select by the same."""

_EFFECT = ("ec_sequence_number", "store", "record_key")
_NODES, _SNAPSHOTS = schema.nodes.name, schema.binding_generation_snapshots.name


@dataclass(frozen=True, slots=True)
class ActiveBinding:
    """What routing knows of an active binding: its generation in force, and what that needs."""

    binding_id: str
    binding_generation_id: str
    kinds: frozenset[str]
    """The fields by which it judges, and those that its target states."""

    required_phase: Phase
    """The phase that an artifact has passed when all of them are known."""

    priority: int
    capacity_priority: CapacityPriority
    target_kind: BindingTargetKind

    @property
    def rank(self) -> tuple[int, str]:
        """Return its place among the bindings of an event: by priority, then by its id (§14.1)."""
        return -self.priority, self.binding_id


@dataclass(frozen=True, slots=True)
class _Read:
    """An active binding as a view has it."""

    active: ActiveBinding
    selectors: SelectorList


class ActiveBindings:
    """The bindings that are active at a place in the log; belongs to one thread at a time."""

    def __init__(self) -> None:
        self._index = RoutingIndex()
        self._active: dict[str, ActiveBinding] = {}
        self._known = set[str]()
        """Every binding, active or not."""

        self.sequence: int | None = None
        """The place up to which the log was read; None before anything was."""

        self._unsettled = set[str]()
        """What was read inside of a transaction that had written it, and may have been undone."""

        self.turn = threading.Lock()

    def __len__(self) -> int:
        """Return how many bindings are active."""
        return len(self._index)

    def match(self, fields: Mapping[str, str]) -> list[str]:
        """Return the active bindings whose intake selectors an event's fields match."""
        return self._index.match(fields)

    def matching(self, fields: Mapping[str, str]) -> list[ActiveBinding]:
        """Return what is known of the bindings that `match` returns."""
        return [self._active[binding_id] for binding_id in self._index.match(fields)]

    def catch_up(self, view: LedgerView) -> None:
        """Read what was written since the last time, or everything at the first."""
        head = view.head().ec_sequence_number
        if self.sequence == head:
            return
        written = (
            _all(view) if self.sequence is None else self._written_bindings(view, self.sequence)
        )
        self._read_anew(view, written)
        self.sequence = head

    def catch_up_to_beginning(self, transaction: LedgerTransaction, own: Iterable[str]) -> None:
        """Read what was written until a transaction began; `own` is what it wrote itself.

        One that began before the place that is known changes nothing: others have written since,
        so it is going to be undone.
        """
        begun, known = transaction.begun_at_sequence, self.sequence
        if known is not None and (known > begun or (known == begun and not self._unsettled)):
            return
        if known is None or begun - known > SNAPSHOT_OPERATIONS_MAX:
            written: Iterable[str] = _all(transaction)
        elif known < transaction.changes.begun_at:
            written = self._written_bindings(transaction, known, begun)
        else:
            written = self._noted_bindings(transaction, known, begun)
        self._unsettled |= self._read_anew(transaction, [*written, *self._unsettled])
        self._unsettled &= {*own}
        self.sequence = begun

    def note_commit(self, transaction: LedgerTransaction) -> None:
        """Know that a transaction was committed, of which nothing more is read: it wrote none."""
        if self.sequence == transaction.begun_at_sequence and not self._unsettled:
            self.sequence = transaction.head_now.ec_sequence_number

    def own(self, transaction: LedgerTransaction) -> dict[str, _Read | None]:
        """Return the bindings that a transaction has written so far, as they stand in it."""
        if not transaction.wrote_bindings:
            return {}
        known = transaction.known_of_bindings
        own: dict[str, _Read | None] = known.setdefault("own", {})
        scanned = newest = known.get("scanned", transaction.begun_at_sequence)
        written = set[str]()
        for at, applied in transaction.changes.changes_after(scanned):
            newest = max(newest, at)
            for change in applied:
                if change.store == schema.nodes.name and not self._is_binding(transaction, change):
                    continue
                place = (change.store, change.record_key)
                written.update(_bindings_in([place], {change.record_key}))
        for binding_id in written:
            own[binding_id] = _read(transaction, binding_id)
        known["scanned"] = newest
        return own

    def _is_binding(self, view: LedgerView, change: Change) -> bool:
        if change.record_key in self._known:
            return True
        node = view.node(change.record_key)
        return node is not None and node["node_kind"] == SOURCE_BINDING

    def _noted_bindings(
        self, transaction: LedgerTransaction, after: int, until: int
    ) -> Iterator[str]:
        """Yield the bindings that the operations in between wrote, of which all were noted."""
        for at, applied in transaction.changes.changes_after(after):
            if at <= until:
                places = [(change.store, change.record_key) for change in applied]
                yield from _bindings_in(places, self._known)

    def _read_anew(self, view: LedgerView, written: Iterable[str]) -> set[str]:
        names = set(written)
        for binding_id in names:
            self._known.add(binding_id)
            read = _read(view, binding_id)
            if read is None:
                self._index.discard(binding_id)
                self._active.pop(binding_id, None)
            else:
                self._index.put(binding_id, read.selectors)
                self._active[binding_id] = read.active
        return names

    def _written_bindings(
        self, view: LedgerView, after: int, until: int | None = None
    ) -> Iterator[str]:
        """Yield the bindings to which an effect after a sequence was applied."""
        for page in _effects_after(view, after):
            places = [(store, key) for at, store, key in page if until is None or at <= until]
            yield from _bindings_in(places, self._known)
            if len(places) < len(page):
                return


def read_active_bindings(ledger: Ledger) -> None:
    """Read the active bindings of a ledger, so that no event has to wait for that."""
    bindings = ActiveBindings()
    with ledger.view() as view:
        bindings.catch_up(view)
    ledger.kept.setdefault(ActiveBindings, bindings)


def effects_to_come(kept: Mapping[Any, Any]) -> list[TableQuery]:
    """Return what the next transaction asks to catch up, where this process has asked before."""
    bindings: ActiveBindings | None = kept.get(ActiveBindings)
    sequence = None if bindings is None else bindings.sequence
    return [] if sequence is None else [_page_after(sequence)]


def catch_up_at_beginning(transaction: LedgerTransaction) -> None:
    """Read what was written until a transaction began, in which nothing was written yet."""
    bindings: ActiveBindings | None = transaction.kept.get(ActiveBindings)
    if bindings is not None:
        with bindings.turn:
            bindings.catch_up_to_beginning(transaction, ())


def note_commit(transaction: LedgerTransaction) -> None:
    """Keep what is known of the bindings where a transaction that was committed wrote none."""
    bindings: ActiveBindings | None = transaction.kept.get(ActiveBindings)
    if bindings is not None and not transaction.wrote_bindings:
        with bindings.turn:
            bindings.note_commit(transaction)


def match_at_head(transaction: LedgerTransaction, fields: Mapping[str, str]) -> list[ActiveBinding]:
    """Return the bindings that an event with these fields concerns now, by their rank.

    Costs what matches, and once what was written of bindings since the process asked last.
    """
    bindings = transaction.kept.get(ActiveBindings)
    if bindings is None:
        bindings = transaction.kept.setdefault(ActiveBindings, ActiveBindings())
    with bindings.turn:
        own = bindings.own(transaction)
        bindings.catch_up_to_beginning(transaction, own)
        routed = [each for each in bindings.matching(fields) if each.binding_id not in own]
    routed += [
        read.active
        for read in own.values()
        if read is not None and read.selectors.until("intake_time").matches(fields)
    ]
    return sorted(routed, key=lambda each: each.rank)


def binding_with_selectors(
    view: LedgerView, binding_id: str
) -> tuple[ActiveBinding, SelectorList] | None:
    """Return an active binding and its selectors as a view has them, None where it is not."""
    read = _read(view, binding_id)
    return None if read is None else (read.active, read.selectors)


def active_generation(
    view: LedgerView, binding_id: str, generation_id: str
) -> ActiveBinding | None:
    """Return a generation that was recorded once, whatever became of it since."""
    snapshot = snapshot_of(view, binding_id, generation_id)
    read = None if snapshot is None else _of_generation(binding_id, generation_id, snapshot)
    return None if read is None else read.active


def _read(view: LedgerView, binding_id: str) -> _Read | None:
    node = view.node(binding_id)
    if node is None or node["node_kind"] != SOURCE_BINDING or node["state"] != "active":
        return None
    generation = generation_in_force(view, binding_id)
    if generation is None:
        return None
    return _of_generation(
        binding_id, generation["binding_generation_id"], generation["binding_snapshot"]
    )


def _of_generation(binding_id: str, generation_id: str, snapshot: Document) -> _Read | None:
    try:
        binding = read_source_binding(snapshot)
    except BindingRefused:
        return None  # recorded before snapshots were judged; no event concerns it
    selectors = binding.selectors
    kinds = selectors.kinds.union(TARGETS[binding.target_kind].states)
    active = ActiveBinding(
        binding_id,
        generation_id,
        _KIND_SETS.setdefault(kinds, kinds),
        phase_of(kinds),
        binding.priority,
        binding.resource_policy.capacity_priority,
        binding.target_kind,
    )
    return _Read(active, selectors)


def _bindings_in(places: Iterable[tuple[str, str]], known: Container[str]) -> Iterator[str]:
    """Yield the bindings to which stores and records belong."""
    for store, key in places:
        if store == _SNAPSHOTS:
            yield key.rpartition("|")[0]
        elif store == _NODES and key in known:
            yield key


def _all(view: LedgerView) -> Iterator[str]:
    """Yield every binding that has a node."""
    after: str | None = None
    while page := view.nodes_of_kind(SOURCE_BINDING, after=after, limit=PAGE_ROWS):
        for node in page:
            yield node["node_id"]
        after = page[-1]["node_id"]


def _page_after(sequence: int) -> TableQuery:
    return TableQuery(
        schema.applied_effects,
        columns=_EFFECT,
        order_by="ec_sequence_number",
        after=sequence,
        limit=PAGE_ROWS,
    )


def _effects_after(view: LedgerView, sequence: int) -> Iterator[list[tuple[int, str, str]]]:
    """Yield the place, the store and the record of each effect after a sequence, in pages."""
    table = schema.applied_effects
    while True:
        page = view.tables.scan(_page_after(sequence))
        if len(page) < PAGE_ROWS:
            yield [(at, store, key) for at, store, key in page]
            return
        # The operation at the end of a full page may go on behind it: it is read by itself.
        last = page[-1][0]
        yield [(at, store, key) for at, store, key in page if at != last]
        rows = view.tables.scan(TableQuery(table, {"ec_sequence_number": last}))
        yield [(last, row["store"], row["record_key"]) for row in rows]
        sequence = last
