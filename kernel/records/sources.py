"""Derives an operation's sources and how restricted they are (INV-A-TAINT-INFECTIOUS-1, §7).

1. A source is what an envelope cites, what it has read, and what an effect names in a field that
   the registry of effect kinds calls a source (EC4 of §7.7).
2. A stretch of something is as restricted as the whole, and as anything that is called like it.
3. A node is as restricted as what it was drawn from, where that was restricted later than it.
4. A record without a class of its own is as restricted as the operation that wrote it was; so is a
   node that the same envelope writes.
5. A source that is not on the record is as restricted as anything can be: nobody can say that it
   was not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kernel.algebra.effects import EFFECT_KINDS, Reference
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.simulations import MOST_RESTRICTIVE, simulation_of
from kernel.model.envelope import Envelope, KernelEffect
from kernel.model.node_kinds import FRAMING_KINDS
from kernel.values.spans import NAMING, names_of, sources_in, span_named_by
from kernel.values.visibility import (
    LEAST_RESTRICTIVE,
    RANKS,
    VISIBILITY_CLASSES,
    max_visibility_class,
)

RECLASSIFICATION = "visibility_change"

MAX_SOURCES_WALKED = 20_000
MAX_UNKNOWN_LOOKED_FOR = 256
"""Both limits for one envelope; what would exceed them counts as most restricted."""

MAX_NESTED = 8
"""Stretches of stretches in one reference; one with more counts as most restricted."""

READING: Mapping[str, Mapping[str, Reference]] = MappingProxyType(
    {
        name: {field: role for field, role in kind.references.items() if role != "link"}
        for name, kind in EFFECT_KINDS.items()
    }
)
"""By effect kind: the fields whose referents are sources."""

_RECORDS = tuple(
    table
    for table in schema.STATE_TABLES
    if table is not schema.nodes and len(table.primary_key.columns) == 1
)


@dataclass(slots=True)  # not frozen: see `kernel.transaction.checks.check.Submission`
class _Walk:
    """What a walk back from a reference came to, past what, and what it counts for."""

    visibility: str | None
    seen: set[str]
    walked: int = 0
    looked_for: int = 0


@dataclass(slots=True)  # likewise
class Source:
    """Something that an operation was made of, and where it says so; for reading only."""

    field: str
    ref: str
    role: Reference = "source"
    is_read: bool = False
    """Whether it is in the read set: it may have been read without being drawn from."""


def sources_of(
    source_refs: Iterable[str],
    read_set_refs: Iterable[str],
    effects: Iterable[tuple[str, Document]],
) -> list[Source]:
    """Return what an operation cites and has read, and what its effects name.

    `effects` are a kind and a payload each.
    """
    sources = [Source(f"source_refs.{index}", ref) for index, ref in enumerate(source_refs)]
    for index, (kind, payload) in enumerate(effects):
        reading = READING.get(kind)
        if not reading or reading.keys().isdisjoint(payload):
            continue
        for name, role in reading.items():
            if name in payload:
                field = f"primitive_effects.{index}.payload.{name}"
                sources += [Source(field, ref, role) for ref in _refs_in(name, payload[name])]
    sources += [
        Source(f"read_set_refs.{index}", ref, is_read=True)
        for index, ref in enumerate(read_set_refs)
    ]
    return sources


def sources_of_envelope(envelope: Envelope) -> list[Source]:
    """Return what an envelope was made of; putting a state back draws on nothing."""
    effects = envelope.primitive_effects
    undoing = [effect.undoes is not None for effect in effects]
    # An envelope that undoes has no other effects but the receipts of the undoing.
    undoes = any(undoing) and all(
        undoes or effect.effect_kind == "receipt_only"
        for undoes, effect in zip(undoing, effects, strict=True)
    )
    read: Sequence[str] = ()
    if envelope.read_set_refs and not undoes:
        targets = ((effect.effect_kind, effect.target_ref) for effect in effects)
        read = _read_beside(envelope.read_set_refs, targets)
    stated = [(effect.effect_kind, effect.payload) for effect in effects]
    return sources_of(envelope.source_refs, read, stated)


def _read_beside(
    read_set_refs: Sequence[str], effects: Iterable[tuple[str, str | None]]
) -> Sequence[str]:
    """Return what was read and may have been drawn from; `effects` are a kind and a target each.

    Whoever changes a node's class reads the class that the node had, and draws nothing from it.
    """
    changed = {target for kind, target in effects if kind == RECLASSIFICATION}
    return [ref for ref in read_set_refs if ref not in changed] if changed else read_set_refs


def classes_of(
    view: LedgerView, envelope: Envelope, *, deep: bool = True
) -> Iterator[tuple[Source, str]]:
    """Yield an envelope's sources with their classes; a source without a class is left out."""
    sources = sources_of_envelope(envelope)
    if not sources:
        return
    written = [(effect.target_ref, effect.payload) for effect in envelope.primitive_effects]
    classes = SourceClasses(view, written, deep=deep)
    for source in sources:
        visibility = classes.of(source)
        if visibility is not None:
            yield source, visibility


def state_taint(view: LedgerView, document: Document, *, deep: bool = True) -> None:
    """Set the taint of an envelope under construction from its sources (§7.3).

    The list has an entry for each source (K7), and one for each further class that was only read
    or that a node is given. What cites nothing and has read nothing restricted states none.
    """
    effects = document["primitive_effects"]
    stated = [(effect["effect_kind"], effect.get("payload", {})) for effect in effects]
    sources: dict[str, Source] = {}
    read: Sequence[str] = document["read_set_refs"]
    if read:
        targets = ((effect["effect_kind"], effect.get("target_ref")) for effect in effects)
        read = _read_beside(read, targets)
    for source in sources_of(document["source_refs"], read, stated):
        sources.setdefault(source.ref, source)
    if not sources:
        return
    written = ((effect.get("target_ref"), effect.get("payload", {})) for effect in effects)
    classes = SourceClasses(view, written, deep=deep)
    known = [(source, classes.of(source)) for source in sources.values()]
    taint = [name for source, name in known if name is not None and not source.is_read]
    taint += dict.fromkeys(name for _, name in known if name is not None and name not in taint)
    is_open = max_visibility_class(taint) == LEAST_RESTRICTIVE
    if not taint or (is_open and not document["source_refs"]):
        return
    writes = [effect["payload"] for effect in effects if effect["effect_kind"] == "node_write"]
    stated_classes = [write.get("visibility_class") for write in writes]
    taint += [name for name in VISIBILITY_CLASSES if name in stated_classes and name not in taint]
    resolved = max_visibility_class(taint)
    document["source_visibility_taint"] = taint
    document["resolved_output_visibility_class"] = resolved
    for payload in writes:
        payload.setdefault("visibility_class", resolved)


def node_classes(
    view: LedgerView,
    sources: Iterable[Source],
    effects: Iterable[KernelEffect],
    *,
    deep: bool = True,
) -> dict[str, str]:
    """Return the nodes among the sources of effects, each once, with their classes.

    A function of the nodes alone, so that it is the same when the log is folded again.
    """
    visibilities: dict[str, str] = {}
    written = ((effect.target_ref, effect.payload) for effect in effects)
    classes = SourceClasses(view, written, deep=deep, nodes_alone=True)
    for source in sources:
        nested = source.ref.count("#") > MAX_NESTED or "\x00" in source.ref
        for ref in () if nested else names_of(source.ref):
            if ref in visibilities or (source.is_read and classes.frames(ref)):
                continue
            visibility = classes.of_ref(ref) if classes.is_node(ref) else None
            if visibility is not None:
                visibilities[ref] = visibility
    return visibilities


def class_of_nodes(view: LedgerView, refs: Iterable[str]) -> str | None:
    """Return the most restrictive class of some nodes; None where one is not there."""
    nodes = [view.node(ref) for ref in refs]
    known = [node["visibility_class"] for node in nodes if node is not None]
    return max_visibility_class(known) if len(known) == len(nodes) else None


class SourceClasses:
    """How restricted sources are, each looked up once for one envelope."""

    def __init__(
        self,
        view: LedgerView,
        written: Iterable[tuple[str | None, Document]] = (),
        *,
        deep: bool = True,
        nodes_alone: bool = False,
    ) -> None:
        """Take the targets and payloads of what the envelope itself writes.

        `deep` is False where what a node was drawn from is not looked at. With `nodes_alone`
        whatever is no node hands nothing on.
        """
        self._view = view
        self._stated = list(written)
        self._targets = {target_ref for target_ref, _ in self._stated}
        self._written: dict[str, tuple[int, list[str]]] | None = None
        self._deep = deep
        self._nodes_alone = nodes_alone
        self._walked = self._looked_for = 0
        self._known: dict[str, str | None] = {}
        kept = view.head_cache() if isinstance(view, LedgerTransaction) else {}
        self._walks: dict[str, _Walk] = kept.setdefault((_Walk, deep, nodes_alone), {})
        """Walks at this state of the record: the orchestrator and V8 ask for the same ones."""

    def of(self, source: Source) -> str | None:
        """Return the class that a source hands on to what is drawn from it, None where none."""
        visibility = self.of_ref(source.ref)
        if visibility is None:
            # What is sent has to be there, and what is shared is seen as it then is. To have looked
            # for what is not there matters where something is written of it.
            writes = self._targets - {None}
            matters = source.role == "source" and (writes or not source.is_read)
            return MOST_RESTRICTIVE if matters else None
        if source.is_read and visibility != LEAST_RESTRICTIVE and self.frames(source.ref):
            return None
        return visibility

    def of_ref(self, ref: str) -> str | None:
        """Return the class of a reference, None where the record knows nothing of it."""
        if ref not in self._known:
            walk = self._walks.get(ref)
            if walk is not None and self._may_repeat(walk):
                self._known[ref] = walk.visibility
            else:
                self._known[ref] = self._look_up(ref)
        return self._known[ref]

    def _may_repeat(self, walk: "_Walk") -> bool:
        """Tell whether a walk would go as before; where it would, count it against the limits."""
        if not self._targets.isdisjoint(walk.seen):
            return False
        walked, looked_for = self._walked + walk.walked, self._looked_for + walk.looked_for
        if walked > MAX_SOURCES_WALKED or looked_for > MAX_UNKNOWN_LOOKED_FOR:
            return False
        self._walked, self._looked_for = walked, looked_for
        return True

    def _look_up(self, ref: str) -> str | None:
        if ref.count("#") > MAX_NESTED or "\x00" in ref:
            # Not every store can be asked for U+0000, which is in no stored name.
            return MOST_RESTRICTIVE
        node = self._view.node(ref)
        alone = ref not in self._targets and "#" not in ref
        # Most sources are drawn from nothing.
        if node is not None and alone and not (self._deep and _is_drawn(node)):
            return str(node["visibility_class"])
        return self._walk(ref)

    def _walk(self, ref: str) -> str | None:
        """Return the class at which a walk back from a reference arrives, and keep the walk."""
        seen = {ref}
        walked, looked_for = self._walked, self._looked_for
        visibility = self._most_restrictive(ref, seen)
        within = self._walked <= MAX_SOURCES_WALKED and self._looked_for <= MAX_UNKNOWN_LOOKED_FOR
        if within and self._targets.isdisjoint(seen):
            self._walks[ref] = _Walk(
                visibility, seen, self._walked - walked, self._looked_for - looked_for
            )
        return visibility

    def _most_restrictive(self, ref: str, seen: set[str]) -> str | None:
        """Return the class of everything that a reference was drawn from, and what that was."""
        rank, waiting = 0, [ref]
        while waiting:
            self._walked += 1
            if self._walked > MAX_SOURCES_WALKED:
                return MOST_RESTRICTIVE
            node_ref = waiting.pop()
            place = self._place(node_ref)
            if place is None:
                return None if node_ref == ref else MOST_RESTRICTIVE
            rank = max(rank, RANKS[place[0]])
            if rank == RANKS[MOST_RESTRICTIVE]:
                break
            further = [name for name in place[1] if name not in seen]
            if "\x00" in "".join(further):
                return MOST_RESTRICTIVE
            seen.update(further)
            waiting += further
        return VISIBILITY_CLASSES[rank]

    def _place(self, ref: str) -> tuple[str, Iterable[str]] | None:
        """Return what a name itself says: its class, and what it was drawn from."""
        node = self._view.node(ref)
        written = self._writes_of(ref) if ref in self._targets else None
        drawn: list[str] = []
        rank, known = 0, node is not None or written is not None
        if node is not None:
            rank = RANKS[node["visibility_class"]]
            if self._deep:
                drawn += sources_in(node["payload"])
        if written is not None:
            rank = max(rank, written[0])
            drawn += written[1]
        span = span_named_by(ref)
        if span is not None:
            drawn.append(span.source_ref)
        if known:
            return VISIBILITY_CLASSES[rank], drawn
        visibility = self._class_of_other(ref)
        if visibility is not None:
            return visibility, drawn
        return None if span is None else (LEAST_RESTRICTIVE, drawn)

    def _writes_of(self, ref: str) -> tuple[int, list[str]] | None:
        if self._written is None:
            self._written = _by_target(self._stated)
        return self._written.get(ref)

    def _class_of_other(self, ref: str) -> str | None:
        if self._nodes_alone:
            return LEAST_RESTRICTIVE
        self._looked_for += 1
        if self._looked_for > MAX_UNKNOWN_LOOKED_FOR:
            return MOST_RESTRICTIVE
        simulation = simulation_of(self._view, ref)
        if simulation is not None:
            return simulation.visibility_class
        if self._view.log_row_of(ref) is not None:
            return self._class_of_operation(ref)
        for table in _RECORDS:
            record = self._view.record(table, ref)
            if record is not None:
                writer = record.get("updated_by_operation_id")
                return LEAST_RESTRICTIVE if writer is None else self._class_of_operation(writer)
        return None

    def _class_of_operation(self, operation_id: str) -> str:
        """Return the class that an operation gave to what it wrote."""
        envelope = self._view.sound_envelope(operation_id)
        if envelope is None:
            return MOST_RESTRICTIVE
        resolved = envelope.get("resolved_output_visibility_class") or LEAST_RESTRICTIVE
        return resolved if resolved in RANKS else MOST_RESTRICTIVE

    def is_node(self, ref: str) -> bool:
        """Tell whether a reference names a node that is there, or that the envelope writes."""
        return ref in self._targets or self._view.node(ref) is not None

    def frames(self, ref: str) -> bool:
        """Tell whether a reference names what is no evidence (EC3 of §7.7)."""
        node = self._view.node(ref)
        return node is not None and node["node_kind"] in FRAMING_KINDS


def _is_drawn(node: Document) -> bool:
    return not NAMING.isdisjoint(node["payload"])


def _by_target(written: Iterable[tuple[str | None, Document]]) -> dict[str, tuple[int, list[str]]]:
    """Return the rank and the sources that an envelope states of what it writes."""
    stated: dict[str, tuple[int, list[str]]] = {}
    for target_ref, payload in written:
        if target_ref is not None:
            rank, drawn = stated.get(target_ref, (0, []))
            visibility = payload.get("visibility_class")
            known = RANKS.get(visibility, 0) if isinstance(visibility, str) else 0
            stated[target_ref] = (max(rank, known), drawn + sources_in(payload))
    if len(stated) == 1:
        # What is written alone is drawn from what was there before.
        return {target_ref: (0, []) for target_ref in stated}
    return stated


def _refs_in(name: str, value: object) -> list[str]:
    """Return what a field names: a reference, a span, or a list of either."""
    if name == "source_spans" and isinstance(value, str):
        return []
    entries = value if isinstance(value, list) else [value]
    refs = [entry.get("source_ref") if isinstance(entry, dict) else entry for entry in entries]
    return [ref for ref in refs if isinstance(ref, str) and ref]
