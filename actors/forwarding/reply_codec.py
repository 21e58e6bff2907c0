"""Encodes the answers of sessions as JSON and decodes them, from one table by kind.

A value for which JSON has no form becomes an object that names its kind under `$`.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from actors.errors import ActorError, IntentInvalid
from kernel.belief.errors import BeliefError
from kernel.ledger.quarantine import RangeQuarantined
from kernel.model.result import RejectedResult, Rejection, SubmissionResult
from kernel.model.simulation import ExternalEffectViolation, SimulationPreview
from kernel.model.simulation_payloads import PREVIEW_PAYLOADS
from kernel.simulate.operation import SimulationResult
from kernel.values.errors import KernelError
from kernel.work.attempts import RetryPause


def encode(value: Any) -> Any:
    """Return the JSON form of a session's answer."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return value if _are_texts(value) else [encode(entry) for entry in value]
    if isinstance(value, Mapping):
        items = {name: encode(entry) for name, entry in value.items()}
        return {"$": "dict", "items": items} if "$" in items else items
    for kind, (name, write, _) in _ANSWERS.items():
        if isinstance(value, kind):
            return {"$": name, **write(value)}
    raise TypeError(f"no form for {type(value).__name__}")


def decode(value: Any) -> Any:
    """Return the answer that `encode` was called with."""
    if isinstance(value, list):
        return value if _are_texts(value) else [decode(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        return _ANSWER_READERS[value["$"]](value)
    return {name: decode(entry) for name, entry in value.items()}


def _are_texts(values: list[Any]) -> bool:
    """Tell whether a list, which may be of a million ids, stands for itself."""
    return all(type(value) is str for value in values)


def _submission(result: SubmissionResult) -> dict[str, Any]:
    return {"document": result.document(), "duplicate": result.duplicate}


def _read_submission(document: Any) -> SubmissionResult:
    result = SubmissionResult.from_document(document["document"])
    return replace(result, duplicate=document["duplicate"])


def _read_rejection(document: Any) -> RejectedResult:
    rejection = Rejection(**document["rejection"])
    return RejectedResult(document["operation_id"], rejection, document["receipt_id"])


def _simulation(result: SimulationResult) -> dict[str, Any]:
    return {
        "outcome": result.outcome,
        "preview": None if result.preview is None else result.preview.model_dump(mode="json"),
        "submission": encode(result.submission),
        "receipt_id": result.receipt_id,
        "reason": result.reason,
        "violations": [violation.model_dump(mode="json") for violation in result.violations],
    }


def _read_simulation(document: Any) -> SimulationResult:
    return SimulationResult(
        document["outcome"],
        _read_preview(document["preview"]),
        decode(document["submission"]),
        document["receipt_id"],
        document["reason"],
        tuple(map(ExternalEffectViolation.model_validate, document["violations"])),
    )


def _read_preview(document: Any) -> SimulationPreview | None:
    if document is None:
        return None
    state = document["preview_state"]
    payload = PREVIEW_PAYLOADS[state["preview_kind"]].model_validate(state["preview_payload"])
    stated = {**document, "preview_state": {**state, "preview_payload": payload}}
    return SimulationPreview.model_validate(stated)


_ERRORS = MappingProxyType(
    {kind.code: kind for kind in ActorError.__subclasses__() if "__init__" not in vars(kind)}
)
"""Errors that are made of a message and details alone."""


def _error(error: Any) -> dict[str, Any]:
    return {"code": error.code, "message": str(error), "details": encode(error.details)}


def _read_actor_error(document: Any) -> ActorError:
    code, message, details = document["code"], document["message"], decode(document["details"])
    if code == IntentInvalid.code:
        return IntentInvalid(message, details["field"])
    if code in _ERRORS:
        return _ERRORS[code](message, details)
    error = ActorError(message, details)
    error.code = code
    return error


_ANSWERS: Mapping[type[Any], tuple[str, Callable[[Any], dict[str, Any]], Callable[[Any], Any]]] = (
    MappingProxyType(
        {
            tuple: (
                "tuple",
                lambda values: {"items": [encode(value) for value in values]},
                lambda document: tuple(decode(value) for value in document["items"]),
            ),
            SubmissionResult: ("submission", _submission, _read_submission),
            RetryPause: (
                "retry_pause",
                asdict,
                lambda document: RetryPause(document["pause_ms"]),
            ),
            RejectedResult: ("rejected", asdict, _read_rejection),
            SimulationResult: ("simulation", _simulation, _read_simulation),
            BeliefError: (
                "belief_error",
                lambda error: {**_error(error), "message": error.message},
                lambda document: BeliefError(
                    document["code"], document["message"], decode(document["details"])
                ),
            ),
            ActorError: ("actor_error", _error, _read_actor_error),
            RangeQuarantined: (
                "range_quarantined",
                lambda error: {"message": str(error), "details": error.details},
                lambda document: RangeQuarantined(document["message"], document["details"]),
            ),
            KernelError: (
                "kernel_error",
                lambda error: {"code": error.code, "message": str(error)},
                lambda document: KernelError(document["message"], code=document["code"]),
            ),
            # Whatever else went wrong there is a defect here as it is there.
            Exception: (
                "error",
                lambda error: {"message": repr(error)},
                lambda document: RuntimeError(document["message"]),
            ),
        }
    )
)
"""The name and the functions to JSON and back by kind of answer, the particular first."""

_ANSWER_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "dict": lambda document: {name: decode(value) for name, value in document["items"].items()},
        **{name: read for name, _, read in _ANSWERS.values()},
    }
)
