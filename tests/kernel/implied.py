"""What a detector of implications says, as envelopes; the newest run is the ledger's own."""

from typing import Any

from kernel.ledger.ledger import Ledger
from kernel.records.implications.runs import newest_epoch, run_of
from tests.kernel.build import accept, adapt, effect, envelope, submit

DETECTOR = "echo"


def run_envelope(epoch: int, after: int, through: int, detector: str = DETECTOR) -> dict[str, Any]:
    stated = {
        "detector": detector,
        "implication_epoch": epoch,
        "after_sequence": str(after),
        "through_sequence": str(through),
    }
    said = effect("receipt_only", **stated) | {"receipt_subkind": "implication_detection_run"}
    return envelope("implication_run", [said], actor="system", target_refs=[detector])


def begin_run(ledger: Ledger, detector: str = DETECTOR) -> int:
    """Record a run up to the head, and return its number."""
    with ledger.view() as view:
        last, epoch = run_of(view, detector), newest_epoch(view) + 1
        through = view.head().ec_sequence_number
    after = 0 if last is None else last.through_sequence
    accept(ledger, run_envelope(epoch, after, through, detector))
    return epoch


def implied(
    document: dict[str, Any], epoch: int, *by: str, detector: str = DETECTOR
) -> dict[str, Any]:
    """The envelope as a detector's run has emitted it."""
    said = {
        "detector": detector,
        "implication_epoch": epoch,
        "implied_by_operation_ids": list(by),
    }
    return document | {"actor": "system", "implication": said}


def resumption(halt_id: str, **changes: Any) -> dict[str, Any]:
    said = effect("receipt_only", halt_id=halt_id, reason="the rule was mended")
    said |= {"receipt_subkind": "implication_detection_resumed"}
    return envelope("implication_resume", [said], **{"target_refs": ["d"], **changes})


def halt(detector: str = DETECTOR, **changes: Any) -> dict[str, Any]:
    stated = {
        "halt_id": f"detector:{detector}",
        "detector": detector,
        "reason_code": "implication_detector_failed",
        "error_code": "implication_detector_raised",
        **changes,
    }
    said = effect("receipt_only", **stated) | {"receipt_subkind": "implication_detection_halted"}
    return envelope("implication_halt", [said], actor="system", target_refs=[detector])


def go_round(ledger: Ledger, targets: list[str], first: str, rounds: int) -> list[Any]:
    """Imply a change of the targets in turn, each by the one before, an epoch for each."""
    results: list[Any] = []
    by = first
    for number in range(rounds):
        target = targets[number % len(targets)]
        document = implied(adapt(target, title=f"{number}"), begin_run(ledger), by)
        results.append(submit(ledger, document, submitter="orchestrator"))
        by = document["operation_id"]
    return results
