"""Decides what operations may cost, by the policy in force and the leases that the fleet holds.

The policy is data of a generation (§18.1), and what it leaves out has the default. The lease is a
port: the kernel reads its state, never waits for it, and tells it what was used (§18.2,
decision kernel/0073).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, Protocol

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from kernel.algebra.verbs import OPERATION_KINDS
from kernel.ledger.ledger import LedgerView
from kernel.model.numbers import Count, PositiveCount, SchemaVersion
from kernel.values.pressure import DEFAULT_THROTTLE_OPS_PER_SEC

DEFAULT_DAILY_QUOTA = 10_000_000
RETRY_AFTER_S = 5

COST_OF_AN_EFFECT_HUNDREDTHS = 5
"""The estimated cost of an effect, in hundredths of the unit."""

POLICY_FIELD = "kernel_cost_governance"
"""Where the payload of a policy generation holds its governance."""

BACKGROUND_PRIORITIES = frozenset({"background_normal", "background_low_priority"})

_Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class KernelCostGovernance(BaseModel):
    """What writing may cost, and what happens beyond that (§18.1)."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    policy_id: _Name = "default"
    daily_write_quota_per_kind: dict[_Name, Count] = Field(default_factory=dict)
    """A kind that is not here has the default quota."""

    emergency_throttle_threshold_ops_per_sec: PositiveCount = DEFAULT_THROTTLE_OPS_PER_SEC
    per_run_write_budget: Count | None = None
    on_quota_exceeded: Literal["queue_pending", "alert_and_continue", "hard_stop_and_alert"] = (
        "alert_and_continue"
    )
    consumes_ec_capacity_lease: bool = True
    ec_capacity_lease_strategy: Literal[
        "block_on_unavailable", "queue_until_available", "alert_and_proceed"
    ] = "queue_until_available"
    cost_attribution_by_transactional_intent: bool = True
    schema_version: SchemaVersion = 1

    @field_validator("daily_write_quota_per_kind")
    @classmethod
    def _of_known_kinds(cls, quotas: dict[str, int]) -> dict[str, int]:
        # A quota under a misspelt name would silently limit nothing.
        unknown = sorted(quotas.keys() - OPERATION_KINDS.keys())
        if unknown:
            raise ValueError(f"no operation kind {unknown[0]}")
        return quotas

    def quota_of(self, operation_kind: str) -> int:
        """Return how many operations of a kind a day may have."""
        return self.daily_write_quota_per_kind.get(operation_kind, DEFAULT_DAILY_QUOTA)

    @property
    def throttle_ops_per_sec(self) -> int | None:
        """The threshold that a generation states; None where the process's own is in force."""
        name = "emergency_throttle_threshold_ops_per_sec"
        return getattr(self, name) if name in self.model_fields_set else None


@dataclass(frozen=True, slots=True)
class CapacityGrant:
    """What is known of the capacity for one kind of operation, now."""

    granted: bool
    cost_remaining: float
    """The cost that is left, in the unit of `estimated_capacity_cost`."""

    ec_capacity_lease_id: str = ""
    """Empty where no capacity is leased; such a lease leaves no receipt."""

    retry_after_s: int = RETRY_AFTER_S
    """The seconds after which to ask again, where the capacity does not suffice."""

    ceiling: float = float("inf")
    """The most that can ever remain; what costs more is never covered."""

    known: bool = True
    """False where the leases cannot be read, so that nothing is granted."""


class CapacityPort(Protocol):
    """The port of the leases (§18.2); it answers at once, from what the process knows."""

    def lease(self, operation_kind: str, priority: str) -> CapacityGrant:
        """Return the state of the lease that an operation would draw on."""

    def draw(self, operation_kind: str, priority: str, cost: float) -> None:
        """Count what an operation that was applied has used."""


def governance_of(view: LedgerView) -> KernelCostGovernance:
    """Return the governance of the policy generation in force."""
    return governance_in(view.policy_row()["record"])


@lru_cache(maxsize=16)
def governance_in(policy_record: bytes) -> KernelCostGovernance:
    """Read the governance in a stored policy generation; the default where it states none."""
    stated = orjson.loads(policy_record)["payload"].get(POLICY_FIELD)
    if stated is None:
        return _DEFAULT
    return KernelCostGovernance.model_validate_json(orjson.dumps(stated))


_DEFAULT = KernelCostGovernance()


def estimate(stated: float, effects: int) -> float:
    """Return the estimate for an operation of so many effects whose author states a cost."""
    return max(stated, cost_of(effects))


def cost_of(parts: int) -> float:
    """Return what so many effects and recomputes are estimated to cost."""
    return parts * COST_OF_AN_EFFECT_HUNDREDTHS / 100
