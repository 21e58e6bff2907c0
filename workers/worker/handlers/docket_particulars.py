"""What the text of a docket entry says for the target of a fire: a disposition, a related filing.

A docket's entries are nodes named by docket and position (`workers/dockets/plan.py`). Which filing
an entry is about is resolved against the entries before it, so the entries of the dockets in use
are kept in memory, read once each.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernel.bindings.particulars import (
    NONE_STATED,
    STRETCHES_MAX,
    Particulars,
    RelatedFiling,
    Stretch,
)
from kernel.ledger.ledger import LedgerView
from kernel.stores.source_artifacts import Artifact, read_artifact
from workers.dockets.fields import extract_fields
from workers.dockets.relationships import RelationshipIndex, RelationshipResolution

DOCKETS_KEPT = 64
POSITION_MAX = 10_000

_ENTRY = re.compile(r"(docket-entry:.+)#(\d{1,5})")


class _DocketSoFar:
    """The entries of one docket as far as they were read, with what each is about."""

    def __init__(self) -> None:
        self._index = RelationshipIndex()
        self._resolutions: list[RelationshipResolution] = []

    def resolution(
        self, view: LedgerView, docket: str, position: int
    ) -> RelationshipResolution | None:
        """Return what an entry is about; None while an entry before it is not on record."""
        while len(self._resolutions) <= position:
            following = len(self._resolutions)
            entry = read_artifact(view, f"{docket}#{following}")
            if entry is None or entry.text is None:
                return None
            number = entry.metadata("document_number")
            self._resolutions.append(self._index.add(following, number, entry.text))
        return self._resolutions[position]


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

    def _related(self, view: LedgerView, artifact: Artifact) -> Particulars:
        named = _ENTRY.fullmatch(artifact.ref)
        if named is None or int(named[2]) > POSITION_MAX:
            return NONE_STATED
        docket, position = named[1], int(named[2])
        with self._lock:
            resolution = self._docket(docket).resolution(view, docket, position)
        if resolution is None or not resolution.candidates:
            return NONE_STATED
        best = resolution.candidates[0]
        return Particulars(
            related_filing=RelatedFiling(
                relationship_type=best.relationship_type,
                target_artifact_ref=f"{docket}#{best.target_position}",
                identity_confidence=best.identity_confidence,
                evidence=best.evidence,
            )
        )

    def _docket(self, docket: str) -> _DocketSoFar:
        known = self._dockets.setdefault(docket, _DocketSoFar())
        self._dockets.move_to_end(docket)
        if len(self._dockets) > DOCKETS_KEPT:
            self._dockets.popitem(last=False)
        return known

    _READERS: Mapping[str, Callable[["DocketParticulars", LedgerView, Artifact], Particulars]] = (
        MappingProxyType(
            {
                "court_disposition_observation": _disposition,
                "relationship_candidate": _related,
            }
        )
    )
