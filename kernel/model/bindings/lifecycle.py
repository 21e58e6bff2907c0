"""Defines the lifecycle of a binding with one artifact: eight states and their order (§13.2).

A pair is a generation of a binding and an artifact. Its own steps lead from its intake to what its
evaluation came to. `disabled` and `superseded` are nobody's step: they follow from the binding, and
are read from it whenever a pair is read (`state_now`). So disabling a binding, or a new generation
of it, costs the same with a million artifacts as with one (decision kernel/0272).

The table holds every transition; what it does not hold is disallowed.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from kernel.values.errors import KernelError

PairState = Literal[
    "pending_intake",
    "ready_to_evaluate",
    "evaluated",
    "fired",
    "matched_no_fire",
    "no_match",
    "disabled",
    "superseded",
]

STATES: Final[tuple[PairState, ...]] = get_args(PairState)

START: Final[PairState] = "pending_intake"
DISABLED: Final[PairState] = "disabled"
SUPERSEDED: Final[PairState] = "superseded"

STEPS: Final[Mapping[PairState, tuple[PairState, ...]]] = MappingProxyType(
    {
        "pending_intake": ("ready_to_evaluate",),
        "ready_to_evaluate": ("evaluated",),
        "evaluated": ("fired", "matched_no_fire", "no_match"),
    }
)
"""The states to which a pair's own steps lead; a state that is not here is an end."""

TRANSITIONS: Final[frozenset[tuple[PairState, PairState]]] = frozenset(
    {(state, following) for state, all_following in STEPS.items() for following in all_following}
    | {(state, ended) for state in STATES for ended in (DISABLED, SUPERSEDED) if state != ended}
)
"""Every transition from one state to another."""

NO_STATE: Final = ""
"""What a pair was before it began."""

RECORDED_STEPS: Final[tuple[tuple[str, PairState], ...]] = (
    (NO_STATE, START),
    *((state, following) for state, all_following in STEPS.items() for following in all_following),
)
"""The last step of a pair as its row may state it: from which state it came, and where it is."""


class PairTransitionDisallowed(KernelError):
    """A pair of binding and artifact does not go from its state to that one."""

    code = "binding_lifecycle_transition_disallowed"


def follow(state: PairState, following: PairState) -> PairState:
    """Return the state that follows.

    Raises:
        PairTransitionDisallowed: naming both states; nothing has changed.
    """
    if (state, following) not in TRANSITIONS:
        raise PairTransitionDisallowed(f"{state} cannot become {following}")
    return following


def state_now(
    state: PairState, generation_id: str, *, in_force: str | None, enabled: bool
) -> PairState:
    """Return the state of a pair whose own steps led to `state`, as its binding is now.

    `generation_id` is that of the pair, `in_force` that of the binding, None where none stands.
    A pair of an earlier generation stays superseded when its binding is enabled again, because
    that is a further generation.
    """
    if generation_id != in_force:
        return follow(state, SUPERSEDED)
    return state if enabled else follow(state, DISABLED)
