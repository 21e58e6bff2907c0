"""Counts what principals asked for and had no right to, and leaves receipts of that.

A principal has one receipt for all that it was denied since the one before, by action, so who has a
key and nothing else adds a receipt a minute. Of a stranger nothing is recorded: anybody could make
any number of those. Counts are in memory until a receipt states them, a minute at most.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.receipts import append_receipt
from kernel.model.receipt import Receipt
from kernel.values.canonical import digest
from kernel.values.host import iso_time

DENIED: Final = "access_denied"
"""The kind of the receipt."""

PRINCIPALS_MAX: Final = 128
"""Principals with a receipt of their own at once; those beyond have one together."""


@dataclass(slots=True)
class Denials:
    """What a principal was denied, by action; None stands for several."""

    principal: str | None
    first_us: int
    last_us: int
    actions: Counter[str] = field(default_factory=Counter)


class DenialCounts:
    """What was denied and is not on the record yet."""

    def __init__(self) -> None:
        self._denials: dict[str | None, Denials] = {}

    def note(self, principal: str, action: str, now_us: int) -> None:
        """Count that a principal was denied an action."""
        self._join(Denials(principal, now_us, now_us, Counter((action,))))

    def take(self) -> list[Denials]:
        """Return what was counted, and start new counts."""
        denials, self._denials = self._denials, {}
        return list(denials.values())

    def put_back(self, denials: Iterable[Denials]) -> None:
        """Add what could not be recorded to the counts again."""
        for each in (*denials, *self.take()):
            self._join(each)

    def _join(self, later: Denials) -> None:
        principal = later.principal
        if principal not in self._denials and len(self._denials) >= PRINCIPALS_MAX:
            principal = None
        before = self._denials.get(principal)
        first_us = later.first_us if before is None else min(before.first_us, later.first_us)
        actions = later.actions if before is None else before.actions + later.actions
        self._denials[principal] = Denials(principal, first_us, later.last_us, actions)


def record_denials(transaction: LedgerTransaction, denials: Iterable[Denials]) -> None:
    """Leave a durable receipt of each, none of what is on the record already."""
    for each in denials:
        actions = dict(sorted(each.actions.items()))
        identity = [each.principal, each.first_us, each.last_us, actions]
        receipt_id = f"receipt:denials:{digest(identity)}"
        if transaction.has_receipt(receipt_id):
            continue
        body: Document = {
            "actions": actions,
            "first_denied_at": iso_time(each.first_us),
            "last_denied_at": iso_time(each.last_us),
        }
        body |= {} if each.principal is None else {"principal": each.principal}
        transaction.next_commit_time_us()
        append_receipt(transaction, receipt_id, Receipt(DENIED, body), None)
