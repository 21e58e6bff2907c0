"""Reads the manifests of source events: what was evaluated, and what comes out again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired

from typing_extensions import TypedDict

from kernel.audit.operations import stored_document
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.receipt import MANIFEST_RECEIPT
from kernel.records.binding_cycles import manifest_rows
from kernel.values.errors import KernelError
from kernel.work.manifests import differences

UNKNOWN = "binding_manifest_unknown"


class ManifestUnknown(KernelError):
    """No such event has a manifest, or its cycle of that number has none."""

    code = UNKNOWN


class ManifestDocument(TypedDict):
    """One manifest of a source event; `manifest` is None where its envelope was erased."""

    cycle: int
    operation_id: str
    ec_sequence_number: str
    manifest: Document | None
    quarantined: NotRequired[bool]
    """True where its row was found damaged, and nobody has lifted that; else not there (§17.5)."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest and its operation."""

    cycle: int
    operation_id: str
    ec_sequence_number: int
    body: Document | None
    """A BindingEvaluationManifest; None where its envelope was erased."""

    quarantined: bool
    """Whether the row of its operation is quarantined."""

    def document(self) -> ManifestDocument:
        """Return the manifest as JSON has it."""
        document: ManifestDocument = {
            "cycle": self.cycle,
            "operation_id": self.operation_id,
            "ec_sequence_number": str(self.ec_sequence_number),
            "manifest": self.body,
        }
        if self.quarantined:
            document["quarantined"] = True
        return document


@dataclass(frozen=True, slots=True)
class ManifestPage:
    """Some of an event's manifests, in the order of its cycles."""

    manifests: Sequence[Manifest]
    next_after: int | None
    """The cycle after which the next page begins; None after the last."""


def manifests_of(
    view: LedgerView, source_event_id: str, *, after: int = 0, limit: int = 100
) -> ManifestPage:
    """Return an event's manifests after a cycle.

    Raises:
        ManifestUnknown: the event has none.
    """
    rows = manifest_rows(view, source_event_id, after=after, limit=limit + 1)
    if not rows and not manifest_rows(view, source_event_id, limit=1):
        raise ManifestUnknown(f"no manifest tells of the event {ascii(source_event_id)[:200]}")
    page = rows[:limit]
    next_after = page[-1]["cycle"] if len(rows) > limit else None
    return ManifestPage([_read(view, row) for row in page], next_after)


def manifest_of_cycle(view: LedgerView, source_event_id: str, cycle: int) -> Manifest:
    """Return the manifest that ended a cycle of an event.

    Raises:
        ManifestUnknown: it has not ended, or there is no such event.
    """
    page = manifests_of(view, source_event_id, after=cycle - 1, limit=1)
    if not page.manifests or page.manifests[0].cycle != cycle:
        raise ManifestUnknown(f"cycle {cycle} of the event has no manifest")
    return page.manifests[0]


def newest_manifests(view: LedgerView, *, limit: int) -> list[Document]:
    """Return what the receipts of the newest manifests of all events say, the newest first."""
    query = TableQuery(
        schema.receipts,
        {"receipt_kind": MANIFEST_RECEIPT},
        order_by="receipt_sequence",
        descending=True,
        limit=limit,
    )
    rows = view.tables.scan(query)
    return [stored_document(row["receipt_bytes"], f"receipt {row['receipt_id']}") for row in rows]


def replay_differences(view: LedgerView, manifest: Manifest) -> list[str]:
    """Evaluate again from a manifest and its snapshots alone; return what comes out otherwise.

    Raises:
        RangeQuarantined: the row of its operation is quarantined.
    """
    view.quarantines().expect_none_over(manifest.ec_sequence_number)
    if manifest.body is None:
        return ["its envelope was erased, so nothing can be evaluated again"]
    return differences(view, manifest.body)


def _read(view: LedgerView, row: Row) -> Manifest:
    envelope = view.envelope(row["operation_id"])
    effects = () if envelope is None else envelope["primitive_effects"]
    body = next(
        (
            effect["payload"]
            for effect in effects
            if effect.get("receipt_subkind") == MANIFEST_RECEIPT
        ),
        None,
    )
    sequence = row["ec_sequence_number"]
    is_quarantined = view.quarantines().over(sequence) is not None
    return Manifest(row["cycle"], row["operation_id"], sequence, body, is_quarantined)
