"""Lists what can be done at the doors, and which roles may do it.

Each route, page and command names one action. An action that is scoped names the part of a path by
which a grant may be narrowed: who was granted `producer` of `queue:resize` may ask for work in that
queue alone. What is not scoped needs a grant of everything (`*`). A grant has a clearance too: up
to which class its holder sees what it allows to read (decision kernel/0720).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, cast, get_args

from kernel.records.access.clearance import (
    CLEARANCES,
    EVERY_CLASS,
    LOWEST_CLEARANCE,
    widest_clearance,
)
from kernel.records.access.errors import AccessRefused

Role = Literal["producer", "worker", "operator", "reviewer", "auditor", "scraper", "owner"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

EVERYTHING: Final = "*"
SCOPE_CHARS_MAX: Final = 256
ScopeKind = Literal["queue", "session"]
SCOPE: Final = r"(queue|session):[!-~]+"
"""The pattern of a scope that is not everything."""

_SCOPE: Final = re.compile(SCOPE)

_INSIDERS: Final = "work_product_internal"
CLEARANCE_OF_ROLE: Mapping[Role, str] = MappingProxyType(
    {
        "producer": _INSIDERS,
        "worker": EVERY_CLASS,
        "operator": _INSIDERS,
        "reviewer": _INSIDERS,
        "auditor": EVERY_CLASS,
        "scraper": LOWEST_CLEARANCE,
        "owner": EVERY_CLASS,
    }
)
"""Of a grant that states none. What is firewalled or sealed is opened by name; workers read the
ledger itself, and who verifies it has to see all of it."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that a principal has, of everything or of one thing."""

    principal: str
    role: str
    scope: str = EVERYTHING
    clearance: str = ""
    """Up to which class it lets its holder read; that of the role where it is empty."""

    @property
    def reads_up_to(self) -> str:
        """Return the clearance that holds."""
        return self.clearance or CLEARANCE_OF_ROLE.get(cast("Role", self.role), LOWEST_CLEARANCE)


@dataclass(frozen=True, slots=True)
class AccessAction:
    """What somebody does, and whose it is."""

    roles: frozenset[str]
    """Besides the owner's, who may do everything."""

    scope: ScopeKind | None = None
    shows_content: bool = False
    """Whether the answer holds what producers, sources and sessions say."""


def _of(*roles: Role, scope: ScopeKind | None = None, content: bool = False) -> AccessAction:
    return AccessAction(frozenset({*roles, "owner"}), scope, content)


PUBLIC: Final = "public"
"""What needs nobody's name: health, files of the pages, heads and tiles of the published log."""

ACTIONS: Mapping[str, AccessAction] = MappingProxyType(
    {
        PUBLIC: AccessAction(frozenset()),
        # What proves itself by a token or a signature of its own is judged where that is read.
        "report.work": _of("worker"),
        "report.source": _of("producer"),
        "write.sessions": _of("producer", scope="session"),
        "write.work": _of("producer", "worker", scope="queue"),
        "write.thoughts": _of("producer", scope="session"),
        "write.runs": _of("producer"),
        "withdraw.work": _of("producer", "operator", scope="queue"),
        "operate.queues": _of("operator", scope="queue"),
        "operate.fleet": _of("operator"),
        "operate.bindings": _of("operator"),
        "review.items": _of("reviewer"),
        "review.operations": _of("reviewer"),
        "simulate.operations": _of("producer", "reviewer", scope="session"),
        "replay.operations": _of("auditor"),
        "erase.payloads": _of(),
        "manage.keys": _of(),
        "manage.access": _of(),
        "read.access": _of("auditor"),
        # SQL over the tables, which knows of no class: it takes a clearance of everything too.
        "query.records": _of("auditor", content=True),
        "read.fleet": _of("operator", "reviewer", "auditor"),
        "read.metrics": _of("scraper", "operator", "auditor"),
        "read.operators": _of("operator", "reviewer", "auditor"),
        "read.requests": _of("producer", "operator", "reviewer", "auditor", scope="queue"),
        "read.producers": _of(
            "producer", "worker", "reviewer", "auditor", scope="queue", content=True
        ),
        "read.sessions": _of("producer", "reviewer", "auditor", scope="session", content=True),
        "read.thoughts": _of("producer", "reviewer", "auditor", scope="session", content=True),
        **dict.fromkeys(
            (
                *("read.records", "read.audit", "read.proofs", "read.reviews", "read.bindings"),
                *("read.extractions", "read.landscape"),
            ),
            _of("reviewer", "auditor", content=True),
        ),
    }
)
"""By its name; a route without a row of this table does not start."""


def is_allowed(grants: Iterable[Grant], name: str, parts: Mapping[str, str]) -> bool:
    """Tell whether any of the grants allows an action; `parts` are those of the path."""
    return name == PUBLIC or any(True for _ in _allowing(grants, name, parts))


def clearance_for(grants: Iterable[Grant], name: str, parts: Mapping[str, str]) -> str:
    """Return up to which class somebody reads by an action: the widest of what allows it."""
    return widest_clearance(grant.reads_up_to for grant in _allowing(grants, name, parts))


def _allowing(grants: Iterable[Grant], name: str, parts: Mapping[str, str]) -> Iterator[Grant]:
    action = ACTIONS[name]
    scopes = {EVERYTHING}
    if action.scope == "queue" and "queue" in parts:
        scopes.add(f"queue:{parts['queue']}")
    if action.scope == "session" and "session_id" in parts:
        scopes.add(f"session:{parts['session_id']}")
    return (grant for grant in grants if grant.role in action.roles and grant.scope in scopes)


def check_grant(grant: Grant) -> None:
    """Look whether a grant names a role, a scope and a clearance, or none.

    Raises:
        AccessRefused: `access_role_unknown`, `access_scope_invalid`, `access_clearance_unknown`.
    """
    if grant.role not in ROLES:
        raise AccessRefused("access_role_unknown", f"a role is one of {', '.join(ROLES)}")
    is_scope = len(grant.scope) <= SCOPE_CHARS_MAX and _SCOPE.fullmatch(grant.scope) is not None
    if grant.scope != EVERYTHING and not is_scope:
        message = "a scope is * for everything, queue:NAME or session:ID"
        raise AccessRefused("access_scope_invalid", message)
    if grant.clearance not in ("", *CLEARANCES):
        message = f"a clearance is one of {', '.join(CLEARANCES)}"
        raise AccessRefused("access_clearance_unknown", message)
