"""Gathers a decision and its grounds: the way back to the words of sources, and a proof of each.

Whatever on the way is an operation, an elimination or the outcome of a request has a proof file of
its own under one signed checkpoint. A part that cannot be shown is withheld with the reason, and
the row's commitment to it stays in the proof.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import orjson

from kernel.audit.proofs import (
    SUBJECTS,
    ProofSubject,
    ProofSubjectUnknown,
    operation,
    proof_document,
)
from kernel.audit.provenance import Named, Provenance, Step
from kernel.audit.provenance_steps import provenance_of
from kernel.ledger.archive import ArchiveUnavailable
from kernel.ledger.quarantine import RangeQuarantined
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.verification import ProofInvalid
from kernel.records.access.readable_view import ReadableView
from kernel.records.rollback_marks import mark_of
from kernel.values.errors import KernelError
from workers.environment.checkpoint_key import check_continued

PROOFS_MAX: Final = 200
"""Proof files in one exhibit; what is further from the decision is named without one."""

EXHIBIT_BYTES_MAX: Final = 32 << 20


class ExhibitRefused(KernelError):
    """There is nothing to exhibit under this name, or it is too much for one page."""

    code = "exhibit_refused"


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof file."""

    kind: str
    content: str


@dataclass(slots=True)
class Exhibit:
    """A decision, its grounds, and what proves them under one checkpoint."""

    provenance: Provenance
    note: str
    vkeys: tuple[str, ...]
    proofs: dict[Named, Proof] = field(default_factory=dict)
    withheld: dict[Named, str] = field(default_factory=dict)
    """What has no proof here, or a proof without its content, with the reason."""

    undone_by: dict[str, str] = field(default_factory=dict)
    """Operations that were undone, with the operation that did so."""

    @property
    def subject(self) -> Step:
        """What is exhibited."""
        return self.provenance.subject

    def steps(self, *kinds: str) -> list[Step]:
        """Return the steps of some kinds, the nearest to the subject first."""
        return [step for step in self.provenance.steps.values() if step.named.kind in kinds]


def gather(
    view: ReadableView,
    name: str,
    hypothesis: str | None,
    *,
    note: bytes,
    keys: Iterable[NoteVerifier],
    withheld: Collection[str] = (),
) -> Exhibit:
    """Return the exhibit of what an id names, under the note of a signed checkpoint.

    Those of the keys count that have signed it. The envelopes of the operations in `withheld` are
    not shown.

    Raises:
        ExhibitRefused: nothing on the ledger has this name, or is proved by this checkpoint, or
            none of the keys has signed it.
        ProofInvalid: the note is that of no checkpoint.
        CheckpointDiverged: the log does not go on from it.
        LedgerCorrupt: a tile or a row that a proof takes is not there.
    """
    provenance = provenance_of(view, name, hypothesis)
    if provenance is None:
        raise ExhibitRefused(f"the ledger has no {ascii(name)[:200]} that it could explain")
    signed = SignedCheckpoint.of_bytes(note)
    stated = signed.stated
    check_continued(view.log_tree(), stated)
    vkeys = tuple(key.vkey for key in signed.holding(keys))
    if not vkeys:
        raise ExhibitRefused("no key of the log that is known here has signed the checkpoint")
    exhibit = Exhibit(provenance, note.decode(), vkeys)
    for step in provenance.steps.values():
        prove = _PROVED.get(step.named.kind)
        if prove is not None:
            kind, subject, reason = prove(view, step.named.record_id, withheld)
            _add(exhibit, view, stated.size, step.named, kind, subject, reason)
    if not exhibit.proofs:
        raise ExhibitRefused("nothing of it is in the log of this checkpoint: publish a newer one")
    operations = (step.named.record_id for step in exhibit.steps("operation"))
    marks = {each: mark_of(view, each)["undone_by"] for each in operations}
    exhibit.undone_by = {undone: by for undone, by in marks.items() if by}
    return exhibit


def _add(
    exhibit: Exhibit,
    view: ReadableView,
    size: int,
    named: Named,
    kind: str,
    subject: ProofSubject | None,
    reason: str,
) -> None:
    """Add a proof to an exhibit, or say why there is none."""
    if len(exhibit.proofs) >= PROOFS_MAX:
        subject, reason = None, f"more than {PROOFS_MAX} proofs"
    if subject is not None:
        try:
            document = proof_document(kind, subject, view.log_tree(), size, exhibit.note)
        except ProofInvalid:
            reason = "younger than the checkpoint"
        else:
            exhibit.proofs[named] = Proof(kind, orjson.dumps(document).decode())
    if reason:
        exhibit.withheld[named] = reason


_Proved = tuple[str, ProofSubject | None, str]
"""The kind of a proof file, what it proves if it can be made, and why something is not in it."""


def _operation(view: ReadableView, record_id: str, withheld: Collection[str]) -> _Proved:
    try:
        if record_id in withheld:
            subject = operation(view, record_id, with_envelope=False)
            return "operation", subject, "withheld by who wrote this exhibit"
        try:
            return "operation", operation(view, record_id, with_envelope=True), ""
        except (ProofInvalid, ArchiveUnavailable) as error:
            subject = operation(view, record_id, with_envelope=False)
            return "operation", subject, str(error)
    except (ProofSubjectUnknown, RangeQuarantined) as error:
        return "operation", None, str(error)


def _subject(kind: str) -> Callable[[ReadableView, str, Collection[str]], _Proved]:
    def prove_subject(view: ReadableView, record_id: str, _: Collection[str]) -> _Proved:
        try:
            return kind, SUBJECTS[kind](view, record_id), ""
        except (ProofSubjectUnknown, ProofInvalid, RangeQuarantined, ArchiveUnavailable) as error:
            return kind, None, str(error)

    return prove_subject


_PROVED: Mapping[str, Callable[[ReadableView, str, Collection[str]], _Proved]] = MappingProxyType(
    {
        "operation": _operation,
        "elimination": _subject("elimination"),
        "request": _subject("request"),
    }
)
