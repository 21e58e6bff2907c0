"""Finds the traces that an answer belongs to: its operations' and requests'."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.model.result import RejectedResult, SubmissionResult
from kernel.simulate.operation import SimulationResult
from kernel.work.requests import WorkReceipt


@dataclass(frozen=True, slots=True)
class Cause:
    """An operation or a request that an answer names, by the name of its trace."""

    name: str
    attributes: Mapping[str, str]
    is_new: bool = True
    failed: bool = False


def causes_of(answer: Any) -> Iterator[Cause]:
    """Yield the operations and the requests for work that an answer names."""
    if isinstance(answer, SimulationResult):
        return
    if isinstance(answer, SubmissionResult):
        outcome = "duplicate" if answer.duplicate else "accepted"
        attributes = {"rotulus.operation_id": answer.operation_id, "rotulus.outcome": outcome}
        yield Cause(answer.operation_id, attributes, is_new=not answer.duplicate)
    elif isinstance(answer, RejectedResult):
        if answer.operation_id is None:
            return
        attributes = {
            "rotulus.operation_id": answer.operation_id,
            "rotulus.outcome": "rejected",
            "rotulus.reason_code": answer.rejection.reason_code,
        }
        yield Cause(answer.operation_id, attributes, failed=True)
    elif isinstance(answer, WorkReceipt):
        attributes = {"rotulus.work_request_id": answer.request_id}
        yield Cause(answer.request_id, attributes, is_new=not answer.duplicate)
    elif isinstance(answer, dict) and isinstance(answer.get("request"), dict):
        # A recompute that was asked for belongs to what its asker named as the trigger.
        source, known = answer["request"].get("trigger_source_id"), bool(answer.get("duplicate"))
        if source is not None:
            attributes = {"rotulus.operation_id": str(answer["operation_id"])}
            yield Cause(str(source), attributes, is_new=not known)
    elif isinstance(answer, list | tuple):
        for element in answer:
            yield from causes_of(element)
