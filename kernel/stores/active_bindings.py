"""The active bindings of a ledger, routed: a fold, brought up to the head when asked (§13.4).

Active is a binding whose node is and that has a generation in force. The index of a process holds
as many as there are. `catch_up` reads what was applied since it was called last, one look at each
effect, and reads anew the bindings that were written: by their own verbs, by undoing those, by
anything that moves a node. So an event is routed by the bindings as the view has them, whichever
process wrote them.
"""

from collections.abc import Iterator, Mapping

from kernel.bindings.routing import RoutingIndex
from kernel.bindings.selectors import read_selector_list
from kernel.bindings.source_binding import SELECTOR_LIST
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.model.node_kinds import SOURCE_BINDING
from kernel.stores.bindings import generation_in_force

PAGE = 1024
"""Effects, or bindings, that are read at once."""

_EFFECT = ("ec_sequence_number", "store", "record_key")


class ActiveBindings:
    """The bindings that are active at a place in the log; belongs to one thread."""

    def __init__(self) -> None:
        self._index = RoutingIndex()
        self._known = set[str]()
        """Every binding, active or not."""

        self._sequence: int | None = None
        """The place up to which the log was read; None before anything was."""

    def __len__(self) -> int:
        """Return how many bindings are active."""
        return len(self._index)

    def match(self, fields: Mapping[str, str]) -> list[str]:
        """Return the active bindings whose intake selectors an event's fields match."""
        return self._index.match(fields)

    def catch_up(self, view: LedgerView) -> None:
        """Read what was written since the last time, or everything at the first."""
        head = view.head().ec_sequence_number
        if self._sequence == head:
            return
        written = _all(view) if self._sequence is None else self._written(view, self._sequence)
        for binding_id in dict.fromkeys(written):
            self._known.add(binding_id)
            self._read(view, binding_id)
        self._sequence = head

    def _written(self, view: LedgerView, sequence: int) -> Iterator[str]:
        """Yield the bindings to which an effect after a sequence was applied."""
        for store, key in _effects_after(view, sequence):
            if store == schema.binding_generation_snapshots.name:
                yield key.rpartition("|")[0]
            elif store == schema.nodes.name and key in self._known:
                yield key

    def _read(self, view: LedgerView, binding_id: str) -> None:
        node, generation = view.node(binding_id), generation_in_force(view, binding_id)
        is_active = node is not None and node["state"] == "active"
        if node is None or node["node_kind"] != SOURCE_BINDING or not is_active:
            generation = None
        if generation is None:
            self._index.discard(binding_id)
            return
        stated = generation["binding_snapshot"][SELECTOR_LIST]
        self._index.put(binding_id, read_selector_list(stated))


def _all(view: LedgerView) -> Iterator[str]:
    """Yield every binding that has a node."""
    after: str | None = None
    while page := view.nodes_of_kind(SOURCE_BINDING, after=after, limit=PAGE):
        for node in page:
            yield node["node_id"]
        after = page[-1]["node_id"]


def _effects_after(view: LedgerView, sequence: int) -> Iterator[tuple[str, str]]:
    """Yield the store and the record of each effect after a sequence."""
    table = schema.applied_effects
    while True:
        page = view.tables.columns(
            table, _EFFECT, order_by="ec_sequence_number", after=sequence, limit=PAGE
        )
        if len(page) < PAGE:
            yield from ((store, key) for _, store, key in page)
            return
        # The operation at the end of a full page may go on behind it: it is read by itself.
        last = page[-1][0]
        yield from ((store, key) for at, store, key in page if at != last)
        for row in view.tables.select(table, {"ec_sequence_number": last}):
            yield row["store"], row["record_key"]
        sequence = last
