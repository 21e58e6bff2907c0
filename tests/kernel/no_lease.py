"""A port of capacity that has none."""

from kernel.records.capacity import CapacityGrant


class NoLease:
    def lease(self, operation_kind, priority):  # noqa: ARG002 - every port is asked so
        return CapacityGrant(
            granted=False, cost_remaining=0, ec_capacity_lease_id="l", retry_after_s=1
        )

    def draw(self, operation_kind, priority, cost):
        pass
