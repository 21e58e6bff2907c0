"""Reads the history of one record: which operations wrote it, and which are in effect.

Undoing puts back what the operations in effect come to (§5.2, K2, decision kernel/0520):

- An operation is in effect unless an undoing of it is, and so is an undoing: chains of undoings are
  followed to their end, however long they are.
- The effects of the operations in effect, applied in the order of the log, give the record. If the
  record has been in that state before, those bytes are put back; where it never was, the effects
  that are missing are applied to the last state that holds none but those in effect.
- What made up for an operation undoes it as an inverse does; what is irreversible stays.

Everything is read from the log, archived ranges included, and only as far down as an undoing has
reached. Version 1 of the rules put back what an effect had replaced, whoever was in effect by then;
the contents of its states are followed as it wrote them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import orjson

from kernel.algebra.effects import COMPENSATING, REVERSIBLE
from kernel.algebra.verbs import ROLLBACK
from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.buffer import BufferedTables
from kernel.ledger.store.tables import SEARCH_ROWS, Row, TableQuery
from kernel.model.envelope import Envelope, KernelEffect
from kernel.records.appliers import EffectRules
from kernel.records.columns import columns_of
from kernel.records.operation_steps import Place
from kernel.records.record import Operation
from kernel.records.rollback_marks import mark_of
from kernel.values.canonical import sha256_hex
from kernel.values.errors import EffectInapplicable
from kernel.values.host import Host

WRITES_MAX = 20_000
"""Operations on one record that are looked at to undo one; beyond them it is refused."""


NOTHING_PUT_BACK = 1
"""The version of the rules under which an inverse puts back what its effect had replaced."""


EffectRulesOf = Callable[[Row], EffectRules]
"""Returns the rules by which the effects of a row of the log are applied."""


@dataclass(frozen=True, slots=True)
class RecordWrite:
    """An operation that wrote the record."""

    sequence: int
    row: Row
    """Of the log."""

    undoes: str
    """The operation whose write this one undoes, or makes up for; empty for every other."""

    is_inverse: bool
    """Whether it undoes by inverses."""

    effects: tuple[Document, ...]
    """Its effects on the record as they were applied, in their order."""

    @property
    def operation_id(self) -> str:
        """The id of the operation."""
        return str(self.row["operation_id"])

    @property
    def restores_pre_image(self) -> bool:
        """Whether this undoing put back what the first effect that it undid had replaced."""
        return self.is_inverse and bool(self.row["rules_version"] <= NOTHING_PUT_BACK)


@dataclass(frozen=True, slots=True)
class RecordState:
    """A state of a record; its hash is empty where there is no record."""

    content_hash: str
    record: Document | None = None
    """The record where its bytes never stood before."""


class RecordHistory:
    """The operations that wrote a record, newest first; read as far as they are asked for."""

    def __init__(self, view: LedgerView, place: Place, rules_of: EffectRulesOf) -> None:
        self.view, self.place = view, place
        self._rules_of = rules_of
        self._writes: list[RecordWrite] = []
        self._older = _writes(view, place)
        self._sequences: dict[str, int] = {}

    def at(self, index: int) -> RecordWrite | None:
        """Return the operation at an index, 0 for the newest; None behind the oldest."""
        while index >= len(self._writes):
            write = next(self._older, None)
            if write is None:
                return None
            self._writes.append(write)
            self._sequences[write.operation_id] = write.sequence
        return self._writes[index]

    def without(self, operation_ids: Collection[str], sequence: int) -> RecordState:
        """Return what the record comes to once these operations are undone as well.

        `sequence` is that of the oldest of them.

        Raises:
            EffectInapplicable: `rollback_needs_what_is_undone` where the state that is left does
                not admit an operation in effect, `rollback_superseded_by_later_write` where the
                undoing would change nothing because another one has undone the same,
                `rollback_history_too_long`, `envelope_erased`, `rollback_pre_image_missing`.
        """
        contents = Contents(self.view, self.since(sequence))
        before = contents.in_effect
        for operation_id in operation_ids:
            contents.undo(operation_id)
        if contents.in_effect == before:
            raise EffectInapplicable(
                f"{self.place[1]} was undone, or brought back, otherwise since",
                code="rollback_superseded_by_later_write",
                field="undoes",
            )
        return contents.state(self.place, self._rules_of)

    def since(self, sequence: int) -> list[RecordWrite]:
        """Return the operations from a sequence on, oldest first, and what they have undone.

        Raises:
            EffectInapplicable: `rollback_history_too_long`.
        """
        index, lowest = 0, sequence
        while (write := self.at(index)) is not None and write.sequence >= lowest:
            if write.undoes:
                lowest = min(lowest, self.sequence_of(write.undoes))
            index += 1
            if index > WRITES_MAX:
                raise EffectInapplicable(
                    f"{self.place[1]} was written more than {WRITES_MAX} times since",
                    code="rollback_history_too_long",
                    field="undoes",
                )
        return self._writes[:index][::-1]

    def sequence_of(self, operation_id: str) -> int:
        """Return where an operation stands in the log."""
        if operation_id not in self._sequences:
            row = self.view.log_row_of(operation_id)
            self._sequences[operation_id] = 0 if row is None else row["ec_sequence_number"]
        return self._sequences[operation_id]


class Contents:
    """Which writes each state of a record holds, as bits, and which were in effect then.

    A write has two bits: for the effects that an inverse undoes, and for those that it does not.
    """

    def __init__(self, view: LedgerView, writes: Sequence[RecordWrite]) -> None:
        self._view, self._writes = view, writes
        self._parts = [_parts(view, write) for write in writes]
        self._index = {write.operation_id: index for index, write in enumerate(writes)}
        self._undoings: dict[_Part, set[str]] = {}
        self.in_effect = 0
        """The writes that are in effect now."""

        self.held: list[int] = []
        """What the state after each write holds."""

        self.due: list[int] = []
        """What was in effect after each write."""

        for index, write in enumerate(writes):
            self._follow(index, write)

    def undo(self, operation_id: str) -> None:
        """Have an operation undone by one that is in effect."""
        self._undo((operation_id, INVERSE), "")
        index = self._index.get(operation_id)
        others = [] if index is None else self._parts[index][COMPENSATION]
        if others and all(effect["reversibility"] == COMPENSATING for effect in others):
            self._undo((operation_id, COMPENSATION), "")

    def names(self, bits: int) -> list[str]:
        """Return the operations of these bits."""
        return [
            write.operation_id for index, write in enumerate(self._writes) if bits >> 2 * index & 3
        ]

    def state(self, place: Place, rules_of: EffectRulesOf) -> RecordState:
        """Return the state that holds what is in effect now."""
        target, index = self.in_effect, len(self._writes) - 1
        while index >= 0 and self.held[index] != target & _bits_below(index + 1):
            index -= 1
        if index < 0:
            begins = str(self._writes[0].effects[0]["pre_image_hash"]) if self._writes else ""
        else:
            begins = str(self._writes[index].effects[-1]["post_image_hash"])
        missing = [
            (self._writes[later], self._parts[later][part])
            for later in range(index + 1, len(self._writes))
            for part in (INVERSE, COMPENSATION)
            if target >> 2 * later + part & 1
        ]
        if not missing:
            return RecordState(begins)
        return _apply_effects(self._view, place, rules_of, begins, missing)

    def _follow(self, index: int, write: RecordWrite) -> None:
        before = self.in_effect
        for part in (INVERSE, COMPENSATION):
            self.in_effect |= bool(self._parts[index][part]) << 2 * index + part
        if write.undoes:
            part = INVERSE if write.is_inverse else COMPENSATION
            self._undo((write.undoes, part), write.operation_id)
        held = self.held[-1] if self.held else 0
        if write.restores_pre_image:
            undone = self._index.get(write.undoes, 0)
            held = self.held[undone - 1] if undone else 0
        elif write.is_inverse:
            held = self.in_effect
        else:
            held = held & ~(before & ~self.in_effect) | self.in_effect & ~before
        self.held.append(held)
        self.due.append(self.in_effect)

    def _undo(self, part: "_Part", by: str) -> None:
        """Follow a chain of undoings down to the operation that goes, or comes back."""
        while True:
            undoings = self._undoings.setdefault(part, set())
            was_in_effect = not undoings
            undoings.add(by)
            undone = self._undone_by(part)
            if not was_in_effect or undone is None:
                return
            if undone == part:
                self.in_effect &= ~self._bit(part)
                return
            undoings = self._undoings[undone]
            undoings.discard(part[0])
            again = self._undone_by(undone)
            if undoings or again is None:
                return
            if again == undone:
                self.in_effect |= self._bit(undone)
                return
            part, by = again, undone[0]

    def _undone_by(self, part: "_Part") -> "_Part | None":
        """Return what an operation undoes, itself where it undoes nothing, None if not known."""
        index = self._index.get(part[0])
        if index is None:
            return None
        undoes = self._writes[index].undoes
        return (undoes, part[1]) if undoes else part

    def _bit(self, part: "_Part") -> int:
        index = self._index[part[0]]
        return bool(self._parts[index][part[1]]) << 2 * index + part[1]


_Part = tuple[str, int]
"""An operation, and which of its effects on a record."""

INVERSE, COMPENSATION = 0, 1

_Parts = tuple[list[Document], list[Document]]
"""The effects of an operation on a record that an inverse undoes, and the others."""


def _parts(view: LedgerView, write: RecordWrite) -> _Parts:
    """Return an operation's effects on the record as they were declared; none of an undoing."""
    if write.undoes:
        return [], []
    view.quarantines().expect_none_over(write.sequence)
    content = view.blob(write.row["envelope_payload_blob_ref"])
    if content is None:
        raise EffectInapplicable(
            f"what {write.operation_id} did is no longer known",
            code="envelope_erased",
            field="undoes",
        )
    named = {effect["effect_id"] for effect in write.effects}
    effects = [
        effect
        for effect in orjson.loads(content)["primitive_effects"]
        if effect["effect_id"] in named
    ]
    return (
        [effect for effect in effects if effect["reversibility"] == REVERSIBLE],
        [effect for effect in effects if effect["reversibility"] != REVERSIBLE],
    )


def _bits_below(index: int) -> int:
    return (1 << 2 * index) - 1


def _apply_effects(
    view: LedgerView,
    place: Place,
    rules_of: EffectRulesOf,
    begins: str,
    missing: Sequence[tuple[RecordWrite, list[Document]]],
) -> RecordState:
    """Apply effects to a state, beside the ledger: what is written here goes nowhere."""
    table, key = schema.STORES[place[0]], place[1]
    beside = LedgerTransaction(BufferedTables(view.tables), Host(_no_time, _no_randomness))  # type: ignore[arg-type]
    standing = beside.tables.get(table, key)
    if standing is not None:
        beside.tables.delete(table, key)
    if begins:
        content = _content(view, standing, begins)
        columns = columns_of(table, orjson.loads(content), beside)
        key_column = str(table.primary_key.columns[0].name)
        beside.tables.put(table, {key_column: key, "record": content, **columns})
    for write, effects in missing:
        operation = Operation(
            beside,
            write.operation_id,
            write.row["semantic_intent"],
            write.row["committed_at"],
            write.sequence,
            lambda _: "",
        )
        rules = rules_of(write.row)
        try:
            written = {
                (applied.store, applied.record_key)
                for effect in effects
                for applied in [rules.apply(KernelEffect.model_validate(effect), operation)]
            }
            refusal = "" if written == {place} else "by now it would write something else"
        except EffectInapplicable as error:
            refusal = str(error)
        if refusal:
            raise EffectInapplicable(
                f"{write.operation_id} rests on what is undone: {refusal}",
                code="rollback_needs_what_is_undone",
                field="undoes.operation_id",
            )
    row = beside.tables.get(table, key)
    if row is None:
        return RecordState("")
    content = bytes(row["record"])
    content_hash = sha256_hex(content)
    if view.tables.get(schema.pre_images, content_hash) is not None:
        return RecordState(content_hash)
    return RecordState(content_hash, orjson.loads(content))


def _content(view: LedgerView, standing: Row | None, content_hash: str) -> bytes:
    if standing is not None and sha256_hex(bytes(standing["record"])) == content_hash:
        return bytes(standing["record"])
    content = view.pre_image(content_hash)
    if content is None:
        raise EffectInapplicable(
            f"the state {content_hash} is not on record",
            code="rollback_pre_image_missing",
            field="undoes.restores_hash",
        )
    return content


def check_restoration(
    transaction: LedgerTransaction, envelope: Envelope, rules: EffectRulesOf
) -> None:
    """Refuse an inverse that puts back what neither stood before its effect nor is in effect.

    Raises:
        EffectInapplicable: `envelope_effect_reversibility_invalid`.
    """
    last = {
        (effect.undoes.store, effect.undoes.record_key): index
        for index, effect in enumerate(envelope.primitive_effects)
        if effect.undoes is not None
    }
    for index, effect in enumerate(envelope.primitive_effects):
        undone = effect.undoes
        if undone is None:
            continue
        place = undone.store, undone.record_key
        history = RecordHistory(transaction, place, rules)
        sequence = history.sequence_of(undone.operation_id)
        where = {"ec_sequence_number": sequence, "store": place[0], "record_key": place[1]}
        [replaced] = [
            applied["pre_image_hash"]
            for applied in map(
                effect_of, transaction.tables.scan(TableQuery(schema.applied_effects, where))
            )
            if applied["effect_id"] == undone.effect_id
        ]
        if undone.restores_hash == replaced:
            continue
        try:
            computed = index == last[place] and history.without([undone.operation_id], sequence)
        except EffectInapplicable:
            computed = False
        if not computed or computed.content_hash != undone.restores_hash:
            raise EffectInapplicable(
                "the operations in effect come to another state",
                code="envelope_effect_reversibility_invalid",
                field=f"primitive_effects.{index}.undoes.restores_hash",
            )


def _writes(view: LedgerView, place: Place) -> Iterator[RecordWrite]:
    where = {"store": place[0], "record_key": place[1]}
    after: int | None = None
    while True:
        query = TableQuery(
            schema.applied_effects,
            where,
            order_by="ec_sequence_number",
            after=after,
            descending=True,
            limit=SEARCH_ROWS,
        )
        rows = view.tables.scan(query)
        groups = [
            (sequence, list(effects))
            for sequence, effects in groupby(rows, lambda row: int(row["ec_sequence_number"]))
        ]
        is_last = len(rows) < SEARCH_ROWS
        if not is_last:
            # The last operation of a page may go on behind it.
            after, _ = groups.pop()
            if not groups:
                of_one = {**where, "ec_sequence_number": after}
                groups = [(after, view.tables.scan(TableQuery(schema.applied_effects, of_one)))]
            else:
                after += 1
        for sequence, effects in groups:
            row = view.tables.get(schema.kernel_event_log, sequence)
            if row is None:
                continue
            effects.sort(key=lambda effect: int(effect["ordinal"]))
            undone: list[str] = mark_of(view, row["operation_id"])["undoes"]
            yield RecordWrite(
                sequence,
                row,
                undone[0] if undone else "",
                bool(undone) and row["semantic_intent"] == ROLLBACK,
                tuple(map(effect_of, effects)),
            )
        if is_last:
            return


def _no_time() -> int:
    raise AssertionError("nothing here asks for the time")


def _no_randomness(_: int) -> bytes:
    raise AssertionError("nothing here is drawn")
