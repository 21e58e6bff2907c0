"""Reads capacity as an operator writes it: `any=1000,create=50`, and reserves as parts of it."""

from collections.abc import Mapping

from pydantic_core import PydanticCustomError

from kernel.algebra.verbs import OPERATION_KINDS
from kernel.values.pressure import ANY_KIND, COST_MAX, Amount, Capacity
from kernel.values.priorities import CAPACITY_PRIORITIES, CapacityPriority

_KINDS = frozenset({ANY_KIND, *OPERATION_KINDS})
_RESERVING = CAPACITY_PRIORITIES[1:]


def check_capacities(text: str) -> str:
    """Return a text that gives operation kinds, or `any`, a cost each."""
    numbers = _numbers(text)
    if numbers is None or not numbers.keys() <= _KINDS:
        problem = "must be operation kinds, or any, with a cost each, such as any=1000,create=50"
        raise PydanticCustomError("capacity_invalid", problem)
    return text


def check_reserves(text: str) -> str:
    """Return a text that gives capacity priorities a part each, which are no more than all."""
    numbers = _numbers(text)
    # Written in decimals, ten times 0.1 is all of it.
    if numbers is None or not numbers.keys() <= set(_RESERVING) or sum(numbers.values()) > 1 + 1e-9:
        problem = "must be parts of 1, such as critical=0.1,user_initiated=0.2"
        raise PydanticCustomError("capacity_reserves_invalid", problem)
    return text


def capacities_of(capacities: str | None, reserves: str | None) -> dict[str, Capacity]:
    """Return the capacity of each operation kind that has one, and of `any`, from checked texts."""
    parts = _numbers(reserves or "") or {}
    return {
        kind: _capacity(cost, parts) for kind, cost in (_numbers(capacities or "") or {}).items()
    }


def _capacity(cost: float, parts: Mapping[str, float]) -> Capacity:
    reserves: dict[CapacityPriority, Amount] = {}
    unreserved = cost
    for name in _RESERVING:
        part = min(unreserved, cost * parts.get(name, 0.0))
        reserves[name] = Amount(cost=part)
        unreserved -= part
    return Capacity(Amount(float("inf"), cost), reserves)


def _numbers(text: str) -> dict[str, float] | None:
    """Return what `a=1,b=2` says; None where it says nothing of the kind, or a name twice."""
    numbers: dict[str, float] = {}
    for entry in filter(None, text.split(",")):
        name, _, number = (part.strip() for part in entry.partition("="))
        try:
            value = float(number)
        except ValueError:
            return None
        if name in numbers or not 0 <= value <= COST_MAX:
            return None
        numbers[name] = value
    return numbers
