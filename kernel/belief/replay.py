"""Replays a stored trail: every verb is carried out again, and must give the same bytes.

This is stricter than following the hashes. An event that is well formed and well chained but
could not have happened (a delta that its payload does not explain, an exit that the rules would
have refused, an unknown field) is found as well, because the rules write another event.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.events import BeliefEvent, Verb
from kernel.belief.terms import OntologyBundle, Predecessor, SessionPolicy

if TYPE_CHECKING:
    from kernel.belief.session import BeliefSession

SessionT = TypeVar("SessionT", bound="BeliefSession")


def replay(
    session_type: type[SessionT],
    events: Iterable[bytes],
    session: SessionT | None = None,
    observe: Callable[[SessionT], None] | None = None,
) -> SessionT:
    """Rebuild a session from its stored events, or apply them to one that stands before them.

    `observe` is given the session after each event.

    Raises:
        CorruptBeliefEvent: with the index of the first event that is not what it claims.
        BeliefError: INVALID_REQUEST when there is no event at all.
    """
    replayed: BeliefEvent | None
    for index, stored in enumerate(events, 0 if session is None else session.n_events):
        try:
            recorded = BeliefEvent.from_bytes(stored)
            if session is None:
                session, replayed = _declare(session_type, recorded)
            else:
                _check_link(session, recorded)
                replayed = _carry_out(session, recorded)
            _check_same(recorded, replayed)
        except CorruptBeliefEvent as error:
            raise CorruptBeliefEvent(error.reason, index=index) from error
        except (BeliefError, KeyError, TypeError) as error:
            reason = f"it cannot have happened: {error}"
            raise CorruptBeliefEvent(reason, index=index) from error
        if observe is not None:
            observe(session)
    if session is None:
        raise BeliefError("INVALID_REQUEST", "a session has at least one event")
    return session


def _check_link(session: "BeliefSession", recorded: BeliefEvent) -> None:
    if recorded.session_id != session.session_id:
        raise CorruptBeliefEvent("it belongs to another session")
    if recorded.prev_event_hash != session.head_event_hash:
        raise CorruptBeliefEvent("it does not follow the event before it")


def _check_same(recorded: BeliefEvent, replayed: BeliefEvent | None) -> None:
    if replayed is None:
        raise CorruptBeliefEvent("it repeats an observation that is on record")
    if replayed.to_bytes() == recorded.to_bytes():
        return
    differing = [
        item.name
        for item in fields(BeliefEvent)
        if item.compare and getattr(recorded, item.name) != getattr(replayed, item.name)
    ]
    raise CorruptBeliefEvent(f"replaying it gives another {', '.join(differing)}")


def _declare(session_type: type[SessionT], recorded: BeliefEvent) -> tuple[SessionT, BeliefEvent]:
    if recorded.verb != "DECLARE_SESSION":
        raise CorruptBeliefEvent("the first event does not declare a session")
    succeeds = recorded.payload.get("succeeds")
    return session_type.declare(
        recorded.session_id,
        OntologyBundle(**recorded.payload["ontology"]),
        recorded.payload["hypotheses"],
        event_id=recorded.event_id,
        ts=recorded.ts,
        metadata=recorded.payload.get("metadata"),
        policy=SessionPolicy(**recorded.payload["policy"]),
        succeeds=None if succeeds is None else Predecessor(**succeeds),
    )


def _carry_out(session: "BeliefSession", recorded: BeliefEvent) -> BeliefEvent | None:
    if recorded.verb == "DECLARE_SESSION":
        raise CorruptBeliefEvent("the session is declared already")
    method, names = _METHODS[recorded.verb]
    arguments = [recorded.payload[name] for name in names]
    answer = getattr(session, method)(*arguments, event_id=recorded.event_id, ts=recorded.ts)
    event: BeliefEvent | None = answer if isinstance(answer, BeliefEvent) else answer.event
    return event


_METHODS: dict[Verb, tuple[str, tuple[str, ...]]] = {
    "ELIMINATE": ("eliminate", ("source_id", "observation_id", "eliminated", "justification")),
    "ENTER_OBLIGATION": ("enter_obligation", ("obligation_id", "min_total_eliminations")),
    "REQUEST_EXIT": ("request_exit", ("obligation_id", "context")),
    "DECLARE_CONCLUSION": ("declare_conclusion", ("conclusion_id", "context")),
    "REQUEST_TERMINATION": ("request_termination", ("context",)),
    "SUCCEED_SESSION": ("succeed", ("successor_id", "reason", "carried", "cause")),
}
"""The session's method for each verb, and the fields of the payload that it takes."""
