"""Finds the one receipt of a kind that an envelope states."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from kernel.model.envelope import Envelope
from kernel.model.problems import first_problem

_Stated = TypeVar("_Stated", bound=BaseModel)


def sole_receipt(envelope: Envelope, kind: str, model: type[_Stated]) -> _Stated:
    """Return what an envelope states in its one receipt of a kind.

    Raises:
        ValueError: it states none, or several, or one that its model does not take.
    """
    stated = [
        effect.payload for effect in envelope.primitive_effects if effect.receipt_subkind == kind
    ]
    if len(stated) != 1:
        raise ValueError(f"states {kind} once")
    try:
        return model.model_validate(stated[0])
    except ValidationError as error:
        raise ValueError(first_problem(error)[1]) from None
