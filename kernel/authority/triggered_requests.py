"""Asks for the work that an operation causes, for all whom it reaches (§8.3, §8.4, K12).

The transaction of a trigger and the gateway's snapshot of a deferred cascade plan by this module.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernel.authority.cascade import CascadePlan, plan_cascade
from kernel.authority.graph import dependents_of, eager_dependents_of, is_nightly
from kernel.authority.requests import AUTHORITY_QUEUE, PRIORITIES, RANKS
from kernel.authority.triggers import ENQUEUED_KINDS, Trigger
from kernel.ledger.ledger import Document, LedgerView


@dataclass(frozen=True, slots=True)
class TriggeredRequests:
    """The triggers of one operation, and how urgent they make what they touch and what is below."""

    triggers: tuple[Trigger, ...]
    direct_rank: int
    rank: int

    @property
    def dependents(self) -> Callable[[LedgerView, str], list[str]]:
        """How to find whom an understanding feeds; a request by name reaches nightly ones too."""
        is_enqueued = any(trigger.kind in ENQUEUED_KINDS for trigger in self.triggers)
        return dependents_of if is_enqueued else eager_dependents_of

    def plan(
        self,
        view: LedgerView,
        below: Callable[[str], list[str]],
        limit: int | None,
    ) -> tuple[CascadePlan, dict[str, str]]:
        """Return the plan, and the kind of trigger of each understanding where it begins."""
        kinds: dict[str, str] = {}
        for trigger in self.triggers:
            targets: Iterable[str] = trigger.targets
            if trigger.kind not in ENQUEUED_KINDS:
                targets = [target for target in targets if not is_nightly(view.node(target))]
            kinds |= dict.fromkeys(targets, trigger.kind)
            if trigger.below is not None:
                kinds |= dict.fromkeys(below(trigger.below), trigger.kind)

        def rank_of(node: str) -> int:
            return _rank_of(view, node, self.direct_rank if node in kinds else self.rank)

        return plan_cascade(kinds, below, rank_of, limit), kinds

    def document(self) -> Document:
        """Return it as a deferred cascade keeps it."""
        return {
            "triggers": [
                {
                    "trigger_kind": trigger.kind,
                    "target_cu_ids": [*trigger.targets],
                    "below": trigger.below,
                }
                for trigger in self.triggers
            ],
            "direct_priority": PRIORITIES[self.direct_rank],
            "priority": PRIORITIES[self.rank],
        }

    @classmethod
    def of_document(cls, document: Document) -> "TriggeredRequests":
        """Read what `document` returned."""
        triggers = tuple(
            Trigger(trigger["trigger_kind"], tuple(trigger["target_cu_ids"]), trigger["below"])
            for trigger in document["triggers"]
        )
        return cls(triggers, RANKS[document["direct_priority"]], RANKS[document["priority"]])


def _rank_of(view: LedgerView, node_id: str, rank: int) -> int:
    """The trigger's urgency, the understanding's own, or of what it waits for: the most urgent."""
    node = view.node(node_id)
    own = "" if node is None else str(node["payload"].get("recompute_priority"))
    waiting = [RANKS[name] for name in view.open_priorities_of(AUTHORITY_QUEUE, node_id)]
    return min(rank, RANKS.get(own, rank), *waiting)
