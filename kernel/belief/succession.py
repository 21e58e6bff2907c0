"""Makes the session that goes on where the ground of another one's eliminations was undone.

It is declared over the same universe, ontology and policy, names the event that closed the session
before it, and repeats the eliminations that were carried over, word for word and in their order. A
further undoing happens in the newest session: a session is succeeded once, so the sessions of a
matter are one line.
"""

from collections.abc import Callable, Iterable, Iterator

from kernel.belief.events import BeliefEvent
from kernel.belief.session import BeliefSession
from kernel.belief.terms import Predecessor


def declare_successor(
    belief: BeliefSession, closing: BeliefEvent, new_id: Callable[[], str]
) -> tuple[BeliefSession, list[BeliefEvent]]:
    """Return the successor of a session that was just closed, and its first events."""
    declared, *entries = belief.audit()
    successor, event = BeliefSession.declare(
        closing.payload["successor_id"],
        belief.ontology,
        declared.payload["hypotheses"],
        event_id=new_id(),
        ts=closing.ts,
        metadata=declared.payload.get("metadata"),
        policy=belief.policy,
        succeeds=Predecessor(closing.session_id, closing.event_id, closing.event_hash),
    )
    events = [event]
    for entry in carried_entries(closing, entries):
        stated = (entry.payload[name] for name in _ELIMINATION)
        struck = successor.eliminate(*stated, event_id=new_id(), ts=closing.ts)
        if struck.event is not None:
            events.append(struck.event)
    return successor, events


def carried_entries(closing: BeliefEvent, entries: Iterable[BeliefEvent]) -> Iterator[BeliefEvent]:
    """Yield those entries of a session that hold on in its successor."""
    carried = {tuple(pair) for pair in closing.payload["carried"]}
    for entry in entries:
        key = (entry.payload.get("source_id"), entry.payload.get("observation_id"))
        if entry.verb == "ELIMINATE" and key in carried:
            yield entry


_ELIMINATION = ("source_id", "observation_id", "eliminated", "justification")
