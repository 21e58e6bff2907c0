"""Gives the answer of each verb of the belief protocol, and the event that it made (seed 001 §2.1).

The audit is answered in pages (decision actors/0041).

A message is carried out on a thread where that takes long (decision actors/0060). Its cost grows
with what it names (ids, a justification of a megabyte) and with what its answer lists. Most name a
few ids and list a few survivors; a thread would cost them more than they cost other sessions.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid5

from actors.messages import (
    Audit,
    BeliefVerb,
    Declare,
    DeclareConclusion,
    Eliminate,
    EnterObligation,
    Message,
    Query,
    RequestExit,
    RequestTermination,
    Succeed,
)
from kernel.belief.events import BeliefEvent
from kernel.belief.session import BeliefSession
from kernel.belief.terms import Verdict
from kernel.values.json_text import is_longer_than

IDS_MAX = 2_000
"""Ids that an actor reads or lists in less than two milliseconds."""

OPAQUE_CHARS_MAX = 16 << 10
"""Characters of a context, a justification or metadata: four milliseconds for the worst numbers."""

SUCCESSOR_NAMESPACE = UUID("5a0b5f52-3c6d-5b8e-9d0c-737563636564")

VerbAnswer = tuple[dict[str, Any], BeliefEvent | None]
"""The answer but for its snapshot, and the event if there is a new one."""


def takes_long(message: Message, belief: BeliefSession | None) -> bool:
    """Tell whether a message is to be carried out on a thread."""
    if isinstance(message, Audit | Succeed):
        # How long its page is nobody knows before, nor how much a successor takes over.
        return True
    if isinstance(message, Declare):
        ids, opaque = len(message.hypotheses), message.metadata
    elif isinstance(message, Eliminate):
        ids, opaque = len(message.eliminated), message.justification
    else:
        ids, opaque = 0, getattr(message, "context", None)
    if isinstance(message, BeliefVerb | Query) and belief is not None:
        most = message.survivors_max
        ids = max(ids, belief.n_survivors if most is None else min(most, belief.n_survivors))
    return ids > IDS_MAX or (bool(opaque) and is_longer_than(opaque, OPAQUE_CHARS_MAX))


def take(belief: BeliefSession, message: BeliefVerb, stamp: Mapping[str, str]) -> VerbAnswer:
    """Carry out a verb and return its whole answer, with the session as it is afterwards.

    Raises:
        BeliefError: when it is refused; nothing has changed.
    """
    options = {"expected_head": message.expected_head, **stamp}
    answer, event = _VERBS[type(message)](belief, message, options)
    return answer | {"snapshot": belief.snapshot(message.survivors_max)}, event


def _eliminate(belief: BeliefSession, message: Eliminate, options: Mapping[str, Any]) -> VerbAnswer:
    result = belief.eliminate(
        message.source_id,
        message.observation_id,
        message.eliminated,
        message.justification,
        **options,
    )
    answer = {
        "applied_eliminated": result.applied,
        "ignored_eliminated": result.ignored,
        "audit_event_id": result.event_id,
        "duplicate": result.event is None,
    }
    return answer, result.event


def _enter(
    belief: BeliefSession, message: EnterObligation, options: Mapping[str, Any]
) -> VerbAnswer:
    event = belief.enter_obligation(
        message.obligation_id, message.min_total_eliminations, **options
    )
    return {"audit_event_id": event.event_id}, event


def _exit(belief: BeliefSession, message: RequestExit, options: Mapping[str, Any]) -> VerbAnswer:
    verdict = belief.request_exit(message.obligation_id, message.context, **options)
    return _answer_of_verdict("approved", verdict)


def _conclude(
    belief: BeliefSession, message: DeclareConclusion, options: Mapping[str, Any]
) -> VerbAnswer:
    verdict = belief.declare_conclusion(message.conclusion_id, message.context, **options)
    return _answer_of_verdict("accepted", verdict)


def _terminate(
    belief: BeliefSession, message: RequestTermination, options: Mapping[str, Any]
) -> VerbAnswer:
    return _answer_of_verdict("approved", belief.request_termination(message.context, **options))


def _succeed(belief: BeliefSession, message: Succeed, options: Mapping[str, Any]) -> VerbAnswer:
    result = belief.succeed(
        message.successor_id or successor_named_after(belief.session_id),
        message.reason,
        message.carried,
        message.cause,
        undone=message.undone,
        **options,
    )
    answer = {
        "successor_id": result.successor_id,
        "carried": [
            {"source_id": source_id, "observation_id": observation_id}
            for source_id, observation_id in result.carried
        ],
        "audit_event_id": result.event_id,
        "duplicate": result.event is None,
    }
    return answer, result.event


def successor_named_after(session_id: str) -> str:
    """Return the id of a session's successor where its author gives none.

    A session is succeeded once, so its own id says it all; the same request makes the same id.
    """
    return str(uuid5(SUCCESSOR_NAMESPACE, session_id))


def _answer_of_verdict(name: str, verdict: Verdict) -> VerbAnswer:
    answer = {
        name: verdict.approved,
        "reason": verdict.reason,
        "audit_event_id": verdict.event.event_id,
    }
    return answer, verdict.event


_VERBS: Mapping[type[BeliefVerb], Callable[[BeliefSession, Any, Mapping[str, Any]], VerbAnswer]] = (
    MappingProxyType(
        {
            Eliminate: _eliminate,
            EnterObligation: _enter,
            RequestExit: _exit,
            DeclareConclusion: _conclude,
            RequestTermination: _terminate,
            Succeed: _succeed,
        }
    )
)
VERBS = frozenset(_VERBS)
