"""Lists what can be done at the doors, and which roles may do it.

Each route, page and command names one action. An action that is scoped names the part of a path by
which a grant may be narrowed: who was granted `producer` of `queue:resize` may ask for work in that
queue alone. What is not scoped needs a grant of everything (`*`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

from kernel.records.access.errors import AccessRefused

Role = Literal["producer", "worker", "operator", "reviewer", "auditor", "scraper", "owner"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

EVERYTHING: Final = "*"
SCOPE_CHARS_MAX: Final = 256
ScopeKind = Literal["queue", "session"]
SCOPE: Final = r"(queue|session):[!-~]+"
"""The pattern of a scope that is not everything."""

_SCOPE: Final = re.compile(SCOPE)


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that a principal has, of everything or of one thing."""

    principal: str
    role: str
    scope: str = EVERYTHING


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
    action = ACTIONS[name]
    if name == PUBLIC:
        return True
    scopes = {EVERYTHING}
    if action.scope == "queue" and "queue" in parts:
        scopes.add(f"queue:{parts['queue']}")
    if action.scope == "session" and "session_id" in parts:
        scopes.add(f"session:{parts['session_id']}")
    return any(grant.role in action.roles and grant.scope in scopes for grant in grants)


def check_grant(grant: Grant) -> None:
    """Look whether a grant names a role and a scope.

    Raises:
        AccessRefused: `access_role_unknown`, `access_scope_invalid`.
    """
    if grant.role not in ROLES:
        raise AccessRefused("access_role_unknown", f"a role is one of {', '.join(ROLES)}")
    is_scope = len(grant.scope) <= SCOPE_CHARS_MAX and _SCOPE.fullmatch(grant.scope) is not None
    if grant.scope != EVERYTHING and not is_scope:
        message = "a scope is * for everything, queue:NAME or session:ID"
        raise AccessRefused("access_scope_invalid", message)
