"""Reads a disposition and a related filing from a docket entry, for the target of a fire.

Each entry names the one that was filed before it (`preceding_entry` in its metadata,
`workers/dockets/plan.py`). Which filing an entry is about is resolved against those before it, so
the entries of the dockets in use are kept in memory, read once each.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernel.ledger.ledger import LedgerView
from kernel.model.bindings.particulars import (
    NONE_STATED,
    STRETCHES_MAX,
    Particulars,
    RelatedFiling,
    Stretch,
)
from kernel.records.source_artifacts import Artifact, read_artifact
from workers.dockets.fields import extract_fields
from workers.dockets.plan import PRECEDING_ENTRY
from workers.dockets.reader import ENTRIES_MAX
from workers.dockets.relationships import RelationshipCandidate, RelationshipIndex

DOCKETS_KEPT = 64


class _DocketSoFar:
    """The entries of one docket as far as they were read, with what each is about."""

    def __init__(self) -> None:
        self._index = RelationshipIndex()
        self._refs: list[str] = []
        self._candidates: dict[str, tuple[RelationshipCandidate, ...]] = {}

    @property
    def newest(self) -> str | None:
        """The entry that was read last; None where none was."""
        return self._refs[-1] if self._refs else None

    def candidates(self, ref: str) -> tuple[RelationshipCandidate, ...] | None:
        """Return what an entry that was read may be about, the best first; None of any other."""
        return self._candidates.get(ref)

    def ref_at(self, place: int) -> str:
        """Return the entry at a place in the order of filing."""
        return self._refs[place]

    def add(self, entry: Artifact) -> None:
        """Read the entry that follows."""
        number = entry.metadata("document_number")
        candidates = self._index.add(len(self._refs), number, entry.text or "")
        self._refs.append(entry.ref)
        self._candidates[entry.ref] = candidates


class DocketParticulars:
    """Reads the particulars of docket entries; shared by the threads of a process."""

    def __init__(self) -> None:
        self._dockets: OrderedDict[str, _DocketSoFar] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, view: LedgerView, target_kind: str, artifact: Artifact) -> Particulars:
        """Return what an entry's text says for a target kind; nothing for any other artifact."""
        reader = self._READERS.get(target_kind)
        return NONE_STATED if reader is None else reader(self, view, artifact)

    def _disposition(self, _: LedgerView, artifact: Artifact) -> Particulars:
        text = artifact.text
        values = () if text is None else extract_fields(text).values
        said = [value for value in values if value.field == "disposition"][:STRETCHES_MAX]
        if not said:
            return NONE_STATED
        stretches = (Stretch(offset=item.start, length=item.end - item.start) for item in said)
        words = "; ".join(dict.fromkeys(value.value for value in said))
        return Particulars(disposition=words, stretches=tuple(stretches))

    def _related_particulars(self, view: LedgerView, artifact: Artifact) -> Particulars:
        source_id = artifact.fields.get("source_id")
        if source_id is None:
            return NONE_STATED
        with self._lock:
            docket = self._read_until(view, source_id, artifact)
            candidates = None if docket is None else docket.candidates(artifact.ref)
            if docket is None or not candidates:
                return NONE_STATED
            best = candidates[0]
            target = docket.ref_at(best.target_position)
        return Particulars(
            related_filing=RelatedFiling(
                relationship_type=best.relationship_type,
                target_artifact_ref=target,
                identity_confidence=best.identity_confidence,
                evidence=best.evidence,
            )
        )

    def _read_until(
        self, view: LedgerView, source_id: str, artifact: Artifact
    ) -> _DocketSoFar | None:
        """Return an entry's docket, read as far as the entry; None where not all before is there.

        An entry that does not follow the newest that was read is of a docket whose order is another
        by now, which is read anew.
        """
        known = self._docket(source_id)
        if known.candidates(artifact.ref) is not None:
            return known
        unread = _unread(view, known, artifact)
        if unread is None:
            return None
        preceding = unread[-1].metadata(PRECEDING_ENTRY)
        if preceding != known.newest:
            known = self._dockets[source_id] = _DocketSoFar()
            unread = _unread(view, known, artifact) or []
        for entry in reversed(unread):
            known.add(entry)
        return known

    def _docket(self, source_id: str) -> _DocketSoFar:
        known = self._dockets.setdefault(source_id, _DocketSoFar())
        self._dockets.move_to_end(source_id)
        if len(self._dockets) > DOCKETS_KEPT:
            self._dockets.popitem(last=False)
        return known

    _READERS: Mapping[str, Callable[["DocketParticulars", LedgerView, Artifact], Particulars]] = (
        MappingProxyType(
            {
                "court_disposition_observation": _disposition,
                "relationship_candidate": _related_particulars,
            }
        )
    )


def _unread(view: LedgerView, known: _DocketSoFar, artifact: Artifact) -> list[Artifact] | None:
    """Return an entry and those before it, back to one that was read; None where one is missing."""
    unread = [artifact]
    while True:
        preceding = unread[-1].metadata(PRECEDING_ENTRY)
        if preceding is None or known.candidates(preceding) is not None:
            return unread
        entry = read_artifact(view, preceding)
        if entry is None or len(unread) == ENTRIES_MAX:
            return None
        unread.append(entry)
