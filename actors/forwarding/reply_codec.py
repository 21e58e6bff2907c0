"""Encodes the answers of sessions as JSON and decodes them, from one table by kind.

A value for which JSON has no form becomes an object that names its kind under `$`.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from actors.errors import (
    ActorError,
    ActorFailed,
    ClocksDiffer,
    CommitFailed,
    EliminationStoreConflict,
    EliminationStoreFailed,
    EnvelopeTooLarge,
    IntentInvalid,
    MailboxFull,
    RefusalsTooMany,
    ReplyLost,
    RequestSetAside,
    RequestUnprocessable,
    RuntimeFull,
    SessionCorrupt,
    StaleEpoch,
)
from kernel.belief.errors import BeliefError
from kernel.errors import KernelError
from kernel.model.result import RejectedResult, Rejection, SubmissionResult
from kernel.model.simulation import ExternalEffectViolation, SimulationPreview
from kernel.model.simulation_payloads import PREVIEW_PAYLOADS
from kernel.simulate.operation import SimulationResult


def encode(value: Any) -> Any:
    """Return the JSON form of a session's answer."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return value if _are_texts(value) else [encode(one) for one in value]
    if isinstance(value, Mapping):
        items = {name: encode(one) for name, one in value.items()}
        return {"$": "dict", "items": items} if "$" in items else items
    for kind, (name, write, _) in _ANSWERS.items():
        if isinstance(value, kind):
            return {"$": name, **write(value)}
    raise TypeError(f"no form for {type(value).__name__}")


def decode(value: Any) -> Any:
    """Return the answer that `encode` was called with."""
    if isinstance(value, list):
        return value if _are_texts(value) else [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        return _ANSWER_READERS[value["$"]](value)
    return {name: decode(one) for name, one in value.items()}


def _are_texts(values: list[Any]) -> bool:
    """Tell whether a list, which may be of a million ids, stands for itself."""
    return all(type(one) is str for one in values)


def _submission(result: SubmissionResult) -> dict[str, Any]:
    return {"document": result.document(), "duplicate": result.duplicate}


def _read_submission(given: Any) -> SubmissionResult:
    return replace(SubmissionResult.from_document(given["document"]), duplicate=given["duplicate"])


def _rejected(result: RejectedResult) -> dict[str, Any]:
    return {
        "operation_id": result.operation_id,
        "rejection": asdict(result.rejection),
        "receipt_id": result.receipt_id,
    }


def _read_rejected(given: Any) -> RejectedResult:
    return RejectedResult(
        given["operation_id"], Rejection(**given["rejection"]), given["receipt_id"]
    )


def _simulation(result: SimulationResult) -> dict[str, Any]:
    return {
        "outcome": result.outcome,
        "preview": None if result.preview is None else result.preview.model_dump(mode="json"),
        "submission": encode(result.submission),
        "receipt_id": result.receipt_id,
        "reason": result.reason,
        "violations": [violation.model_dump(mode="json") for violation in result.violations],
    }


def _read_simulation(given: Any) -> SimulationResult:
    return SimulationResult(
        given["outcome"],
        _read_preview(given["preview"]),
        decode(given["submission"]),
        given["receipt_id"],
        given["reason"],
        tuple(
            ExternalEffectViolation.model_validate(violation) for violation in given["violations"]
        ),
    )


def _read_preview(given: Any) -> SimulationPreview | None:
    if given is None:
        return None
    state = given["preview_state"]
    payload = PREVIEW_PAYLOADS[state["preview_kind"]].model_validate(state["preview_payload"])
    stated = {**given, "preview_state": {**state, "preview_payload": payload}}
    return SimulationPreview.model_validate(stated)


_ERRORS: Mapping[str, type[ActorError]] = MappingProxyType(
    {
        kind.code: kind
        for kind in (
            ActorFailed,
            CommitFailed,
            EliminationStoreConflict,
            EliminationStoreFailed,
            MailboxFull,
            ClocksDiffer,
            ReplyLost,
            EnvelopeTooLarge,
            RefusalsTooMany,
            RequestSetAside,
            RequestUnprocessable,
            RuntimeFull,
            SessionCorrupt,
            StaleEpoch,
        )
    }
)
"""Errors that are made of a message and details alone."""


def _actor_error(error: ActorError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": str(error),
        "details": encode(error.details),
    }


def _read_actor_error(given: Any) -> ActorError:
    code, message, details = given["code"], given["message"], decode(given["details"])
    if code == IntentInvalid.code:
        return IntentInvalid(message, details["field"])
    if code in _ERRORS:
        return _ERRORS[code](message, details)
    error = ActorError(message, details)
    error.code = code
    return error


def _read_belief_error(given: Any) -> BeliefError:
    return BeliefError(given["code"], given["message"], decode(given["details"]))


_ANSWERS: Mapping[type[Any], tuple[str, Callable[[Any], dict[str, Any]], Callable[[Any], Any]]] = (
    MappingProxyType(
        {
            tuple: (
                "tuple",
                lambda value: {"items": [encode(one) for one in value]},
                lambda given: tuple(decode(one) for one in given["items"]),
            ),
            SubmissionResult: ("submission", _submission, _read_submission),
            RejectedResult: ("rejected", _rejected, _read_rejected),
            SimulationResult: ("simulation", _simulation, _read_simulation),
            BeliefError: (
                "belief_error",
                lambda error: {
                    "code": error.code,
                    "message": error.message,
                    "details": encode(error.details),
                },
                _read_belief_error,
            ),
            ActorError: ("actor_error", _actor_error, _read_actor_error),
            KernelError: (
                "kernel_error",
                lambda error: {"code": error.code, "message": str(error)},
                lambda given: KernelError(given["message"], code=given["code"]),
            ),
            # Whatever else went wrong there is a defect here as it is there.
            Exception: (
                "error",
                lambda error: {"message": repr(error)},
                lambda given: RuntimeError(given["message"]),
            ),
        }
    )
)
"""The name and the functions to JSON and back by kind of answer, the particular first."""

_ANSWER_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "dict": lambda given: {name: decode(one) for name, one in given["items"].items()},
        **{name: read for name, _, read in _ANSWERS.values()},
    }
)
