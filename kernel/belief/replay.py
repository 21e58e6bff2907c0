"""Replaying a stored trail: every verb is carried out again, and must give the same bytes.

This is stricter than following the hashes. An event that is well formed and well chained but
could not have happened (a delta that its payload does not explain, an exit that the rules would
have refused, an unknown field) is found as well, because the rules write another event.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.events import BeliefEvent, Verb
from kernel.belief.terms import OntologyBundle, SessionPolicy

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
                replayed = _STEPS[recorded.verb](session, recorded)
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
    return session_type.declare(
        recorded.session_id,
        OntologyBundle(**recorded.payload["ontology"]),
        recorded.payload["hypotheses"],
        event_id=recorded.event_id,
        ts=recorded.ts,
        metadata=recorded.payload.get("metadata"),
        policy=SessionPolicy(**recorded.payload["policy"]),
    )


def _declare_again(_: "BeliefSession", __: BeliefEvent) -> BeliefEvent:
    raise CorruptBeliefEvent("the session is declared already")


def _eliminate(session: "BeliefSession", recorded: BeliefEvent) -> BeliefEvent | None:
    payload = recorded.payload
    return session.eliminate(
        payload["source_id"],
        payload["observation_id"],
        payload["eliminated"],
        payload["justification"],
        event_id=recorded.event_id,
        ts=recorded.ts,
    ).event


def _enter_obligation(session: "BeliefSession", recorded: BeliefEvent) -> BeliefEvent:
    return session.enter_obligation(
        recorded.payload["obligation_id"],
        recorded.payload["min_total_eliminations"],
        event_id=recorded.event_id,
        ts=recorded.ts,
    )


def _request_exit(session: "BeliefSession", recorded: BeliefEvent) -> BeliefEvent:
    return session.request_exit(
        recorded.payload["obligation_id"],
        recorded.payload["context"],
        event_id=recorded.event_id,
        ts=recorded.ts,
    ).event


def _declare_conclusion(session: "BeliefSession", recorded: BeliefEvent) -> BeliefEvent:
    return session.declare_conclusion(
        recorded.payload["conclusion_id"],
        recorded.payload["context"],
        event_id=recorded.event_id,
        ts=recorded.ts,
    ).event


def _request_termination(session: "BeliefSession", recorded: BeliefEvent) -> BeliefEvent:
    return session.request_termination(
        recorded.payload["context"], event_id=recorded.event_id, ts=recorded.ts
    ).event


_STEPS: dict[Verb, Callable[["BeliefSession", BeliefEvent], BeliefEvent | None]] = {
    "DECLARE_SESSION": _declare_again,
    "ELIMINATE": _eliminate,
    "ENTER_OBLIGATION": _enter_obligation,
    "REQUEST_EXIT": _request_exit,
    "DECLARE_CONCLUSION": _declare_conclusion,
    "REQUEST_TERMINATION": _request_termination,
}
