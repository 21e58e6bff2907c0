"""Declares the steps by which an operation is applied, and what they leave to one another.

A step belongs to a verb or to every operation, and is taken before the effects or after them. A
room lists its own by their verbs (`VERB_STEPS`); `kernel/transaction/steps.py` puts them in order.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kernel.ledger.ledger import Request
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.model.envelope import Envelope, KernelEffect
from kernel.model.receipt import Receipt
from kernel.model.recomputes import Recompute
from kernel.records.record import Applied, Operation

Place = tuple[str, str]
"""A store and a key in it."""

Places = Collection[Place]

Marking = Callable[[Operation, Mapping[str, Places]], None]
"""Records which operations an operation has undone, or made up for, and what it put back."""


@dataclass(slots=True)  # not frozen: see `kernel.transaction.checks.check.Submission`
class AppliedOperation(Operation):
    """An operation that is being applied, with its envelope."""

    envelope: Envelope
    strategy: AuthorityStrategy
    mark_undone: Marking
    applied: list[tuple[KernelEffect, Applied]] = field(default_factory=list)
    """The effects so far; complete after the last of them."""

    writes: list[Applied] = field(default_factory=list)
    """What they have written."""

    recomputes: Sequence[tuple[Recompute, Sequence[Request]]] = ()
    """The recomputes that were checked, each with the requests that it answers."""

    taints: Sequence[Receipt] = ()
    """The receipts of taint, made before the effects and emitted after them."""

    undone: Mapping[str, Places] = field(default_factory=dict)
    """The operations that this one undoes or makes up for, and the records put back."""


Step = Callable[[AppliedOperation], object]
"""Does a part of applying an operation.

Raises:
    EffectInapplicable: the state does not admit it.
"""


@dataclass(frozen=True, slots=True)
class Steps:
    """What a verb means beside its effects: the step before them, and the step after them.

    An operation whose verb has no step after them asks for the work that its effects cause.
    """

    before: Step | None = None
    after: Step | None = None
