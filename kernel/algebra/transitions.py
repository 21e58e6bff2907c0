"""Lists the transitions of corpus memberships, as a table (§4.3.19).

None of them is undone by an inverse: the way back is a transition of its own, an operation with
its own name. The way back from a confirmation is a chain of two, a rejection and a new proposal,
and both bear the chain's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

PREFIX = "membership_state_transition"

STATES = ("candidate", "confirmed", "rejected", "soft_deleted", "policy_blocked")


@dataclass(frozen=True, slots=True)
class Transition:
    """One allowed step, what may trigger it, and the operation that leads back."""

    from_state: str
    to_state: str
    triggered_by: tuple[str, ...]
    compensated_by: str


_ROWS = (
    ("candidate", "confirmed", ("user_confirm_event",), "reject_and_re_propose"),
    ("candidate", "rejected", ("user_reject_event",), "reverse_rejection"),
    ("candidate", "policy_blocked", ("policy_change_blocking",), "unblock"),
    ("confirmed", "rejected", ("user_reject_event",), "reverse_rejection"),
    ("confirmed", "soft_deleted", ("user_delete_event", "cascade_soft_delete"), "restore"),
    ("confirmed", "policy_blocked", ("policy_change_blocking",), "unblock"),
    ("rejected", "candidate", ("user_reverse_rejection_event",), "reject"),
    ("soft_deleted", "confirmed", ("user_restore_event", "cascade_restore"), "soft_delete"),
    ("policy_blocked", "candidate", ("policy_change_unblocking",), "block"),
    ("policy_blocked", "confirmed", ("policy_change_unblocking",), "block"),
    ("policy_blocked", "soft_deleted", ("user_delete_event",), "restore"),
)

TRANSITIONS: Mapping[tuple[str, str], Transition] = MappingProxyType(
    {(row[0], row[1]): Transition(row[0], row[1], row[2], f"{PREFIX}_{row[3]}") for row in _ROWS}
)
"""What the table does not hold is disallowed."""

_STEPS = {
    "reject_and_re_propose": (("confirmed", "rejected"), ("rejected", "candidate")),
    "reverse_rejection": (("rejected", "candidate"),),
    "reject": (("candidate", "rejected"), ("confirmed", "rejected")),
    "block": (("candidate", "policy_blocked"), ("confirmed", "policy_blocked")),
    "unblock": (("policy_blocked", "candidate"), ("policy_blocked", "confirmed")),
    "soft_delete": (("confirmed", "soft_deleted"), ("policy_blocked", "soft_deleted")),
    "restore": (("soft_deleted", "confirmed"),),
}

STEPS_OF_KIND: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {PREFIX: tuple(TRANSITIONS)} | {f"{PREFIX}_{name}": steps for name, steps in _STEPS.items()}
)
"""Which transitions an effect of each kind may make."""


def compensations_of(kind: str) -> tuple[str, ...]:
    """Return the operations that lead back from what a kind of transition may do."""
    compensations = (TRANSITIONS[step].compensated_by for step in STEPS_OF_KIND[kind])
    return tuple(dict.fromkeys(compensations))
