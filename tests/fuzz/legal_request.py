"""A legal request, the names that it uses, and what builds it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from uuid import UUID

from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE

TOKEN: Final = "fuzz-" + "0" * 16
HYPOTHESES: Final = tuple(f"h{number:04d}" for number in range(1000))
SHARED: Final = tuple(str(UUID(int=number, version=4)) for number in range(1, 9))
"""Sessions that hostile requests know, half of them at each gateway or thereabouts."""

LEGAL: Final = tuple(str(UUID(int=number, version=4)) for number in range(11, 19))
"""Sessions that they do not know."""

THOUGHTS: Final = tuple(str(UUID(int=number, version=4)) for number in range(21, 25))
LEGAL_THOUGHTS: Final = tuple(str(UUID(int=number, version=4)) for number in range(31, 35))
"""Sessions of thoughts that hostile requests know, and those that they do not know."""

QUEUES: Final = ("authority-recompute", BINDING_QUEUE, EXTRACTION_QUEUE)
TEXT: Final = "MOTION to dismiss for failure to state a claim. " * 4
LEGAL_PREFIX: Final = "legal-"
OK: Final = frozenset({200})


@dataclass(frozen=True, slots=True)
class LegalRequest:
    """A request, before anything is made of it."""

    route: str
    method: str
    path: str
    body: Any = None
    """What is sent as JSON; None for none."""

    headers: Mapping[str, str] = field(default_factory=dict)
    statuses: frozenset[int] = OK
    """What a request whose success depends on nothing is answered with; empty: whatever it is."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a request uses."""

    own: str
    """In everything that is new; no other request has it."""

    session: str
    chance: Random

    def new_session(self) -> str:
        """Return the id of a session that nobody has declared."""
        return str(UUID(int=self.chance.getrandbits(128), version=4))


Build = Callable[[Names], LegalRequest]
ANY: Final = frozenset[int]()


def post(
    route: str, path: str, body: Any, statuses: frozenset[int] = ANY, **options: Any
) -> LegalRequest:
    """Return a request with a body."""
    return LegalRequest(route, "POST", path, body, statuses=statuses, **options)


def get(route: str, path: str, statuses: frozenset[int] = OK) -> LegalRequest:
    """Return a request that reads."""
    return LegalRequest(route, "GET", path, statuses=statuses)


def verb(name: str, body: Callable[[Names], Any], statuses: frozenset[int] = ANY) -> Build:
    """Return what posts to a session."""

    def build(names: Names) -> LegalRequest:
        path = f"/v1/sessions/{names.session}/{name.replace('OWN', names.own)}"
        return post(name, path, body(names), statuses)

    return build


def fixed(route: str, path: str, body: Callable[[Names], Any]) -> Build:
    """Return what posts to a path, in which OWN is a name of the request's own."""
    return lambda names: post(route, path.replace("OWN", names.own), body(names))
