"""What a session's actor says in the log: a line for each operation, and who asked for it."""

from typing import Any

import structlog

from kernel.model.result import RejectedResult, SubmissionResult
from kernel.simulate.operation import SimulationResult

_log = structlog.get_logger(__name__)


def log_result(result: Any, request_id: str | None) -> None:
    """Log what became of an operation; results of other units say nothing.

    The session's id is bound by the actor's task. The request's is not: one task serves many.
    """
    if isinstance(result, tuple):
        result = result[-1]
    if isinstance(result, SimulationResult):
        result = result.submission
    about = {} if request_id is None else {"request_id": request_id}
    if isinstance(result, SubmissionResult):
        sequence = str(result.ec_sequence_number)
        event = "operation_known" if result.duplicate else "operation_recorded"
        _log.info(event, operation_id=result.operation_id, sequence=sequence, **about)
    elif isinstance(result, RejectedResult):
        _log.info(
            "operation_refused",
            operation_id=result.operation_id,
            check=result.rejection.check,
            code=result.rejection.reason_code,
            **about,
        )
