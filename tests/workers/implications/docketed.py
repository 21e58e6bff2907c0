"""A docket on record as its ingest and its bindings leave it, for detectors that read it."""

from collections.abc import Sequence

from actors.commit.implication_units import ImplicationRunUnit, RecordedRun
from actors.implications.detector import ImplicationDetector
from actors.implications.page import detect_page
from kernel.ledger import schema
from kernel.ledger.ledger import Document, Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings.source_binding import BindingTargetKind
from kernel.records.implications.runs import run_of
from kernel.records.source_artifacts import read_artifact
from kernel.work.evaluations import evaluate_request
from kernel.work.reports import BindingEvaluated
from tests.actors.harness import bench_on
from tests.kernel.binding_world import artifact, ask, bound, pass_phases, report, request_of
from tests.kernel.build import accept, create
from tests.kernel.every import dated, own
from workers.dockets.plan import PRECEDING_ENTRY
from workers.worker.handlers.docket_particulars import DocketParticulars

RELATES: BindingTargetKind = "relationship_candidate"
OBSERVES: BindingTargetKind = "court_disposition_observation"

DISTRICT = (
    ("19", "MOTION for Summary Judgment by B. C. Inc, D. C. Motion Hearing set for 2/17/2010."),
    ("20", "RESPONSE/MEMORANDUM in Opposition filed by M. D. re 19 MOTION for Summary Judgment."),
    ("26", "REPLY Memorandum in Support of Motion by B. C. re 19 MOTION for Summary Judgment."),
    ("40", "ORDER & REASONS granting 19 Motion for Summary Judgment. Signed by Judge H. G. B."),
)
"""Entries of a district court, with letters for names: number and text."""

BANKRUPTCY = (
    (
        "32",
        "Motion for Relief from Stay Property: Several parcels of vacant land. Fee Amount $150.",
    ),
    (
        "52",
        (
            "Opposition to Motion for Relief from the Automatic Stay Filed by C. P. B. for A. U.,"
            " LLC (Related document(s) 32 Motion for Relief from Stay filed by Creditor F. 1.)"
        ),
    ),
    (
        "55",
        (
            "Reply in Support of Motion for Relief from the Automatic Stay Filed by R. R. K. for"
            " F. 1 (Related document(s) 32 Motion for Relief from Stay filed by Creditor F. 1, 52"
            " Oppostion filed by Debtor A. U., LLC.)"
        ),
    ),
    ("66", "Order Granting Relief From the Automatic Stay (Related document(s) 32 ) (glw)"),
)
"""Entries of a bankruptcy court, likewise."""

MOTION, OPPOSITION, REPLY, ORDER = range(4)


def ref(position: int) -> str:
    return f"docket-entry:d#{position}"


def unit(position: int) -> str:
    return f"unit:{position}"


def enter(ledger: Ledger, entries: Sequence[tuple[str, str]]) -> None:
    """Put entries on record, each with its filing unit, and a binding of each kind over them."""
    accept(ledger, create("corpus", "Corpus"), bound(RELATES, RELATES), bound(OBSERVES, OBSERVES))
    for position, (number, text) in enumerate(entries):
        filed = own(
            "filing_unit_write", unit(position), **dated("filing_date"), document_ref=ref(position)
        )
        before = {PRECEDING_ENTRY: ref(position - 1)} if position else {}
        entry = artifact(ref(position), text, document_number=number, **before)
        entry["primitive_effects"][0]["payload"]["source_id"] = "d"
        accept(ledger, entry, filed)
        pass_phases(ledger, ref(position))


def fire(ledger: Ledger, position: int, kind: BindingTargetKind) -> str:
    """Evaluate a binding against an entry as a worker does; return the reason of its outcome."""
    [request_id] = ask(ledger, kind, source_event_id=ref(position))
    request = request_of(ledger, request_id)
    with ledger.view() as view:
        entry = read_artifact(view, ref(position))
        assert entry is not None
        particulars = DocketParticulars().read(view, kind, entry)
        evaluation = evaluate_request(view, request, particulars)
    stated = BindingEvaluated(
        request_id=request_id,
        outcome=evaluation.outcome,
        evaluated_on=evaluation.read,
        particulars=particulars,
    )
    report(ledger, stated)
    return evaluation.outcome.outcome_reason_code


def imply(ledger: Ledger, detector: ImplicationDetector) -> list[RecordedRun]:
    """Let a detector read up to the head, and record its runs."""
    runs: list[RecordedRun] = []
    while True:
        with ledger.view() as view:
            last = run_of(view, detector.name)
            after = 0 if last is None else last.through_sequence
            page = detect_page(detector, view, after)
        if not page.implications:
            return runs
        unit = ImplicationRunUnit(detector.name, after, page.through_sequence, page.implications)
        with bench_on(ledger) as context:
            runs.append(unit.run(context))


def implied(ledger: Ledger) -> dict[str, Document]:
    """The observations of filings that waited, by the filing unit."""
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.court_disposition_observations))
        records = [
            view.record(schema.court_disposition_observations, row["observation_id"])
            for row in rows
        ]
    stated = [record["payload"] for record in records if record is not None]
    return {each["filing_unit_id"]: each for each in stated if "filing_unit_id" in each}
