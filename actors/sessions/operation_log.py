"""Writes the log of a session's actor: one line for each operation, with its request."""

from collections.abc import Callable, Iterable
from typing import Any

import structlog

from kernel.model.result import RejectedResult, SubmissionResult
from kernel.simulate.operation import SimulationResult

_log = structlog.get_logger(__name__)


def log_results(results: Iterable[tuple[Any, str | None]]) -> None:
    """Log the result of each operation and who asked for it; results of other units are not logged.

    The session's id is bound by the actor's task. The request's is not: one task serves many.
    """
    say: Callable[..., Any] | None = None
    for result, request_id in results:
        # Found once for all of them: that costs more than a line that is left out.
        say = say or _log.bind().info
        about = {} if request_id is None else {"request_id": request_id}
        _log_result(say, result, about)


def _log_result(say: Callable[..., Any], result: Any, about: dict[str, str]) -> None:
    if isinstance(result, tuple):
        result = result[-1]
    if isinstance(result, SimulationResult):
        result = result.submission
    if isinstance(result, SubmissionResult):
        sequence = str(result.ec_sequence_number)
        event = "operation_known" if result.duplicate else "operation_recorded"
        say(event, operation_id=result.operation_id, sequence=sequence, **about)
    elif isinstance(result, RejectedResult):
        say(
            "operation_refused",
            operation_id=result.operation_id,
            check=result.rejection.check,
            code=result.rejection.reason_code,
            **about,
        )
