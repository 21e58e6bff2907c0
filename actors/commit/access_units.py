"""Records grants and keys, each decided by an operation, and denials."""

from collections.abc import Sequence
from dataclasses import dataclass

from actors.commit.decision_record import decide_in
from actors.commit.unit_context import CommitContext
from kernel.records.access.actions import Grant
from kernel.records.access.denials import Denials, record_denials
from kernel.records.access.records import (
    AccessDecision,
    create_key,
    grant,
    grants_of,
    revoke_key,
    withdraw,
)


@dataclass(frozen=True, slots=True)
class GrantUnit:
    """Give a principal a role, or end that."""

    granted: Grant
    decision: AccessDecision
    stands: bool = True

    def run(self, context: CommitContext) -> bool:
        """Record it; False where it stands already. Raises `AccessRefused`, `DecisionRefused`."""
        if self.stands:
            return grant(context.transaction, self.granted, self.decision, decide_in(context))
        withdraw(context.transaction, self.granted, self.decision, decide_in(context))
        return True


@dataclass(frozen=True, slots=True)
class CreateKeyUnit:
    """Record a key by its id and the digest of its secret, and the grants that come with it."""

    key: tuple[str, str]
    principal: str
    lasts_us: int
    decision: AccessDecision
    grants: tuple[Grant, ...] = ()
    opened_by: str | None = None
    replaces: str | None = None
    """The key that ends as this one begins."""

    def run(self, context: CommitContext) -> int:
        """Return when the key expires, in µs. Raises `AccessRefused`, `DecisionRefused`."""
        transaction, decide = context.transaction, decide_in(context)
        for granted in self.grants:
            grant(transaction, granted, self.decision, decide)
        expires_at_us = transaction.host.now_us() + self.lasts_us
        create_key(
            transaction,
            self.key,
            self.principal,
            expires_at_us,
            self.decision,
            decide,
            opened_by=self.opened_by,
        )
        if self.replaces is not None:
            revoke_key(transaction, self.replaces, self.decision, decide)
        return expires_at_us


@dataclass(frozen=True, slots=True)
class RevokeKeyUnit:
    """End a key, and the sessions that were opened by it."""

    key_id: str
    decision: AccessDecision

    def run(self, context: CommitContext) -> tuple[str, ...]:
        """Return the ids that ended. Raises `AccessRefused`, `DecisionRefused`."""
        return revoke_key(context.transaction, self.key_id, self.decision, decide_in(context))


@dataclass(frozen=True, slots=True)
class DenialsUnit:
    """Leave a receipt of what principals were denied."""

    denials: Sequence[Denials]

    def run(self, context: CommitContext) -> None:
        """Write the receipts that are not on the record yet."""
        record_denials(context.transaction, self.denials)


@dataclass(frozen=True, slots=True)
class FirstOwnerUnit:
    """Record the key of a first owner, where nobody is owner yet."""

    created: CreateKeyUnit

    def run(self, context: CommitContext) -> bool:
        """Return whether it was recorded. Raises `DecisionRefused`."""
        if any(granted.role == "owner" for granted in grants_of(context.transaction)):
            return False
        self.created.run(context)
        return True
