"""Lists what happens to a row on its way through the nodes, from which the record is written.

Data is in canonical bytes, taken when the node had returned, so that nothing that a later function
does to a row changes what is recorded of an earlier one. Tokens are numbers within the way. Nothing
changes an event; they are not frozen because there are ten for a row, and making a frozen object
takes five times as long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

from kernel.landscape.canonical_types import Canonical

Arriving = Literal["completed", "routed", "buffered", "quarantined"]


@dataclass(slots=True)
class CallMade:
    """A call that a node made to something outside."""

    call_type: str
    request: Canonical
    response: Canonical | None
    """None where it raised."""

    error: Canonical | None
    latency_us: int


@dataclass(slots=True)
class Visited:
    """A token was in a node, for one attempt."""

    token: int
    node: str
    attempt: int
    output: Canonical | None
    """None where the attempt failed."""

    error: Canonical | None
    duration_us: int
    calls: tuple[CallMade, ...] = ()
    labels: tuple[str, ...] = ()
    """By which edges a gate sent it, or, of a fork, all of them."""


@dataclass(slots=True)
class Forked:
    """A token went on along several edges."""

    token: int
    node: str
    children: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass(slots=True)
class Expanded:
    """A token became several."""

    token: int
    node: str
    children: tuple[int, ...]
    outputs: tuple[Canonical, ...]


@dataclass(slots=True)
class Merged:
    """Tokens became one."""

    node: str
    parents: tuple[int, ...]
    child: int
    output: Canonical


@dataclass(slots=True)
class Arrived:
    """A token came to a sink or to an aggregation."""

    token: int
    node: str
    how: Arriving
    data: Canonical
    error_hash: str | None = None


@dataclass(slots=True)
class Failed:
    """A node did not accept a token, with all of its attempts; `Arrived` follows if it is kept."""

    token: int
    node: str
    error: Canonical
    destination: str | None


WalkEvent = Visited | Forked | Expanded | Merged | Arrived | Failed
_KINDS: Mapping[str, type[Any]] = MappingProxyType(
    {kind.__name__: kind for kind in (Visited, Forked, Expanded, Merged, Arrived, Failed)}
)


def documents_of(events: Sequence[WalkEvent]) -> list[list[Any]]:
    """Return events as JSON, to be sent from a worker."""
    return [[type(event).__name__, *map(_plain_value, _values(event))] for event in events]


def events_of(documents: Sequence[Sequence[Any]]) -> list[WalkEvent]:
    """Return the events of `documents_of`.

    Raises:
        ValueError: they are none.
    """
    try:
        return [_event(kind, values) for kind, *values in documents]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no events of a row: {error}") from None


_CONTENTS = frozenset({"output", "error", "data", "request", "response"})


def _values(event: Any) -> list[Any]:
    return [getattr(event, field.name) for field in fields(event)]


def _plain_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, CallMade):
        return [_plain_value(each) for each in _values(value)]
    return [_plain_value(each) for each in value] if isinstance(value, tuple) else value


def _event(kind: str, values: Sequence[Any]) -> WalkEvent:
    event: WalkEvent = _event_of(_KINDS[kind], values)
    return event


def _event_of(kind: type[Any], values: Sequence[Any]) -> Any:
    names = [field.name for field in fields(kind)]
    return kind(*(_field_value(name, value) for name, value in zip(names, values, strict=True)))


def _field_value(name: str, value: Any) -> Any:
    if name == "calls":
        return tuple(_event_of(CallMade, each) for each in value)
    if name == "outputs":
        return tuple(Canonical(each.encode()) for each in value)
    if name in _CONTENTS:
        return None if value is None else Canonical(value.encode())
    return tuple(value) if isinstance(value, list) else value
