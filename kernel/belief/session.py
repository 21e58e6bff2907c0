"""Holds a belief session to the rules that its verbs obey, one call at a time.

1. Survivors shrink and never grow; what is not among them is ignored (or refused, if the session
   was declared to validate).
2. Every verb that changes something, and every request that is turned down, is one audit event.
3. A call that raises has changed nothing: what is struck before its event is made is taken back
   where that fails, and everything else takes its place afterwards, by steps that cannot fail.
4. An elimination is known by its (source_id, observation_id): the same again gets the first answer,
   even under a stale ``expected_head``; other ids or another justification is a CONFLICT.
5. One obligation at a time. While it is open no conclusion is accepted and nothing terminates.
6. Termination needs a single survivor, or force that the policy allows; and in either case stable
   conclusions if the policy asks for them. Afterwards only reading is possible, and succession.
7. A struck hypothesis never comes back. If its ground was undone the session is closed and another
   one succeeds it, over the whole universe, with the eliminations that still hold; both say so
   (decision kernel/0600). It happens once, and the same again gets the first answer.
8. The trail is the state: replaying it gives the same session, and each replayed event must come
   out identical to the byte.

A session is owned by one actor; it takes no lock. Time and ids are handed in.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, Self

from kernel.belief.errors import BeliefError
from kernel.belief.events import BeliefEvent, Verb
from kernel.belief.id_lists import are_equal, in_steps, sort_unique
from kernel.belief.limits import (
    MAX_CARRIED,
    MAX_CARRIED_BYTES,
    MAX_CLAIMED_IDS,
    MAX_HYPOTHESES,
    check_ids,
    check_observations,
    check_opaque,
    check_text,
    check_whole,
    invalid,
)
from kernel.belief.replay import replay
from kernel.belief.session_snapshot import SessionSnapshot
from kernel.belief.session_state import SessionState
from kernel.belief.terms import (
    DEFAULT_POLICY,
    EliminationResult,
    OntologyBundle,
    Predecessor,
    SessionPolicy,
    SuccessionResult,
    Verdict,
)
from kernel.belief.universe import Universe
from kernel.values.canonical import canonicalize

MAX_REPORTED_IDS = 100
"""How many invalid ids an error names."""


class BeliefSession(SessionState):
    """A session and its verbs; made by ``declare`` or ``restore``."""

    @classmethod
    def declare(
        cls,
        session_id: str,
        ontology: OntologyBundle,
        hypotheses: Iterable[str],
        *,
        event_id: str,
        ts: str,
        metadata: dict[str, Any] | None = None,
        policy: SessionPolicy = DEFAULT_POLICY,
        succeeds: Predecessor | None = None,
    ) -> tuple[Self, BeliefEvent]:
        """Open a session over at most 1,000,000 hypotheses and return it with its first event.

        `succeeds` names the session whose succession declares it.

        Raises:
            BeliefError: INVALID_REQUEST for whatever breaks a limit.
        """
        universe = Universe(hypotheses)
        session = cls(session_id, ontology, universe, policy)
        payload: dict[str, Any] = {
            "ontology": ontology.to_dict(),
            "hypotheses": list(universe.ids),
            "policy": policy.to_dict(),
        }
        if metadata is not None:
            payload["metadata"] = check_opaque("metadata", metadata)
        if succeeds is not None:
            payload["succeeds"] = asdict(succeeds)
            session.succeeds = succeeds
        empty_hash = universe.hash_bitmap(bytes(universe.bitmap_bytes))
        hashes = (empty_hash, session._survivors_hash)
        event = session._journal.draft(
            "DECLARE_SESSION", payload, event_id=event_id, ts=ts, hashes=hashes
        )
        session._journal.append(event)
        return session, event

    @classmethod
    def restore(
        cls, events: Iterable[bytes], observe: Callable[[Self], None] | None = None
    ) -> Self:
        """Replay stored events, each of which must chain and come out the same to the byte.

        A log whose end was cut off still replays: compare ``head_event_hash`` with where the head
        is anchored. `observe` is given the session after each event.

        Raises:
            CorruptBeliefEvent: with the index of the first event that is not what it claims.
            BeliefError: INVALID_REQUEST when there is no event at all.
        """
        return replay(cls, events, observe=observe)

    @classmethod
    def resume(
        cls,
        declaration: bytes,
        parts: Sequence[SessionSnapshot],
        head: bytes,
        later: Iterable[bytes],
    ) -> Self:
        """Take a session up from its snapshots and replay only the events after the last one.

        `declaration` is its first event, `head` the event that the last snapshot names.

        Raises:
            CorruptBeliefEvent: when a snapshot and its event contradict each other, or an event
                is not what it claims.
        """
        session = cls.restore([declaration])
        session.stand_at(parts, head)
        return replay(cls, later, session)

    def eliminate(
        self,
        source_id: str,
        observation_id: str,
        eliminated: Iterable[str],
        justification: dict[str, Any] | None = None,
        *,
        event_id: str,
        ts: str,
        expected_head: str | None = None,
    ) -> EliminationResult:
        """Remove the named hypotheses that survive and record why.

        Raises:
            BeliefError: SESSION_TERMINATED; SESSION_SUCCEEDED; INVALID_REQUEST; CONFLICT for a
                known observation with other content, another head than expected, or an event id
                in use;
                INVALID_HYPOTHESIS_ID for an unknown id where the session validates.
        """
        self._refuse_if_terminated()
        key = (check_text("source_id", source_id), check_text("observation_id", observation_id))
        claimed = check_ids("eliminated", eliminated, max_ids=MAX_CLAIMED_IDS)
        payload = {
            "source_id": source_id,
            "observation_id": observation_id,
            "eliminated": claimed,
            "justification": check_opaque("justification", justification),
        }
        if key in self._observations:
            return self._first_answer(self._observations[key], payload)
        self._refuse_if_succeeded()
        if expected_head is not None:
            self._check_head(expected_head)
        if self.policy.validate_hypotheses:
            self._check_known(claimed)
        applied = self._survivors.strike(claimed)
        after_hash = self._survivors.hash() if applied else self._survivors_hash
        try:
            event = self._journal.draft(
                "ELIMINATE",
                payload,
                event_id=event_id,
                ts=ts,
                hashes=(self._survivors_hash, after_hash),
                eliminated=applied,
            )
        except BaseException:
            self._survivors.take_back(applied)
            raise
        # The length in front keeps ("a", "bc") and ("ab", "c") apart.
        probe_id = f"{len(source_id)}:{source_id}{observation_id}"
        self._core.submit_probe_result(probe_id, source_id, applied)
        self._survivors_hash = after_hash
        self._observations[key] = len(self._journal)
        self._journal.append(event)
        ignored = _ignored_ids(claimed, applied) if len(applied) < len(claimed) else []
        return EliminationResult(applied, ignored, event_id, event)

    def enter_obligation(
        self,
        obligation_id: str,
        min_total_eliminations: int,
        *,
        event_id: str,
        ts: str,
        expected_head: str | None = None,
    ) -> BeliefEvent:
        """Open an obligation that so many further eliminations will discharge.

        Raises:
            BeliefError: CONFLICT while another is open.
        """
        self._open(expected_head)
        payload = {
            "obligation_id": check_text("obligation_id", obligation_id),
            "min_total_eliminations": check_whole(
                "min_total_eliminations", min_total_eliminations, most=MAX_HYPOTHESES
            ),
        }
        if self._obligation_id is not None:
            details = {"active_obligation_id": self._obligation_id}
            raise BeliefError("CONFLICT", "an obligation is active", details)
        event = self._draft_unchanged("ENTER_OBLIGATION", payload, event_id, ts)
        self._core.enter_obligation(obligation_id, min_total_eliminations)
        self._obligation_id = obligation_id
        self._journal.append(event)
        return event

    def request_exit(
        self,
        obligation_id: str,
        context: dict[str, Any] | None = None,
        *,
        event_id: str,
        ts: str,
        expected_head: str | None = None,
    ) -> Verdict:
        """Close the obligation if enough was eliminated since it was entered.

        Raises:
            BeliefError: OBLIGATION_NOT_FOUND when it is not the active one.
        """
        self._open(expected_head)
        if check_text("obligation_id", obligation_id) != self._obligation_id:
            details = {"obligation_id": obligation_id}
            raise BeliefError("OBLIGATION_NOT_FOUND", "no such obligation is active", details)
        approved = self._core.may_exit(obligation_id)
        reason = "approved" if approved else "minimum eliminations not met"
        payload = {
            "obligation_id": obligation_id,
            "context": check_opaque("context", context),
            "approved": approved,
            "reason": reason,
        }
        event = self._draft_unchanged("REQUEST_EXIT", payload, event_id, ts)
        if approved:
            self._core.request_obligation_exit(obligation_id)
            self._obligation_id = None
        self._journal.append(event)
        return Verdict(approved, reason, event)

    def declare_conclusion(
        self,
        conclusion_id: str,
        context: dict[str, Any] | None = None,
        *,
        event_id: str,
        ts: str,
        expected_head: str | None = None,
    ) -> Verdict:
        """Accept a conclusion unless an obligation is open."""
        self._open(expected_head)
        accepted = self._obligation_id is None
        reason = "accepted" if accepted else "active obligation blocks conclusion"
        payload = {
            "conclusion_id": check_text("conclusion_id", conclusion_id),
            "context": check_opaque("context", context),
            "accepted": accepted,
            "reason": reason,
        }
        event = self._draft_unchanged("DECLARE_CONCLUSION", payload, event_id, ts)
        if accepted:
            self._core.declare_conclusion(conclusion_id)
        self._journal.append(event)
        return Verdict(accepted, reason, event)

    def request_termination(
        self,
        context: dict[str, Any] | None = None,
        *,
        event_id: str,
        ts: str,
        expected_head: str | None = None,
    ) -> Verdict:
        """End the session if its rules allow; ``context.force`` counts only as JSON true."""
        self._open(expected_head)
        stored = check_opaque("context", context)
        refusal, forced = self._judge_termination(stored)
        payload = {
            "context": stored,
            "approved": refusal is None,
            "forced": forced,
            "reason": refusal or "approved",
        }
        event = self._draft_unchanged("REQUEST_TERMINATION", payload, event_id, ts)
        if refusal is None:
            self._core.request_termination()
        self._journal.append(event)
        return Verdict(refusal is None, refusal or "approved", event)

    def succeed(
        self,
        successor_id: str,
        reason: str,
        carried: Iterable[Iterable[str]] | None = None,
        cause: dict[str, Any] | None = None,
        *,
        event_id: str,
        ts: str,
        undone: Iterable[Iterable[str]] | None = None,
        expected_head: str | None = None,
    ) -> SuccessionResult:
        """Close the session, because the ground of some of its eliminations was undone.

        Observations are pairs of source_id and observation_id: those that are `carried` hold in
        the successor as well, or all but those that are `undone`. A session that has terminated,
        or has an obligation open, is closed like any other.

        Raises:
            BeliefError: INVALID_REQUEST, also for an observation that the session does not know;
                SESSION_SUCCEEDED where it was succeeded otherwise; CONFLICT for another head than
                expected.
        """
        if check_text("successor_id", successor_id) == self.session_id:
            raise invalid("successor_id", "must be another session")
        payload = {
            "successor_id": successor_id,
            "reason": check_text("reason", reason),
            "carried": [
                list(observation) for observation in self._eliminations_that_hold(carried, undone)
            ],
            "cause": check_opaque("cause", cause),
        }
        if self.successor_id is not None:
            return self._first_succession(payload)
        self._check_head(expected_head)
        event = self._draft_unchanged("SUCCEED_SESSION", payload, event_id, ts)
        self.successor_id = successor_id
        self._journal.append(event)
        return _succession(event, event)

    # --- rules that several verbs share ------------------------------------------------------

    def _open(self, expected_head: str | None) -> None:
        self._refuse_if_succeeded()
        self._refuse_if_terminated()
        self._check_head(expected_head)

    def _refuse_if_terminated(self) -> None:
        # Of one that went on in another session, the error that names it says more.
        if self._core.is_terminated and self.successor_id is None:
            raise BeliefError("SESSION_TERMINATED", "the session has ended")

    def _refuse_if_succeeded(self) -> None:
        if self.successor_id is not None:
            raise succession_refusal(self.successor_id)

    def _check_head(self, expected_head: str | None) -> None:
        if expected_head is not None and expected_head != self.head_event_id:
            details = {"expected_head": expected_head, "head_event_id": self.head_event_id}
            raise BeliefError("CONFLICT", "the session has moved on", details)

    def _check_known(self, claimed: list[str]) -> None:
        unknown = sort_unique([name for name in claimed if name not in self.universe])
        if unknown:
            details = {"invalid": unknown[:MAX_REPORTED_IDS], "n_invalid": len(unknown)}
            raise BeliefError("INVALID_HYPOTHESIS_ID", "not in the declared universe", details)

    def _first_answer(self, position: int, payload: dict[str, Any]) -> EliminationResult:
        first = self._journal.event(position)
        if not _is_same_content(first.payload, payload):
            details = {"audit_event_id": first.event_id}
            raise BeliefError("CONFLICT", "the observation is known with other content", details)
        applied = first.delta["eliminated"]
        ignored = _ignored_ids(first.payload["eliminated"], applied)
        return EliminationResult(applied, ignored, first.event_id, None)

    def _eliminations_that_hold(
        self,
        carried: Iterable[Iterable[str]] | None,
        undone: Iterable[Iterable[str]] | None,
    ) -> list[tuple[str, str]]:
        """Return what holds on, in the order of the trail."""
        if (carried is None) == (undone is None):
            raise invalid("carried", "or undone must be given, and not both")
        field, named = ("undone", undone) if carried is None else ("carried", carried)
        chosen = set(check_observations(field, named or ()))
        unknown = sorted(chosen - self._observations.keys())
        if unknown:
            details = {
                "field": field,
                "unknown": [list(pair) for pair in unknown[:MAX_REPORTED_IDS]],
            }
            raise BeliefError("INVALID_REQUEST", f"{field} names no elimination of it", details)
        held = [pair for pair in self._observations if (pair in chosen) == (carried is not None)]
        if len(held) > MAX_CARRIED:
            raise invalid(field, f"leaves more than {MAX_CARRIED} eliminations to be carried over")
        if self._journal.size_of(self._observations[pair] for pair in held) > MAX_CARRIED_BYTES:
            raise invalid(field, f"leaves more than {MAX_CARRIED_BYTES} bytes to be carried over")
        return held

    def _first_succession(self, payload: dict[str, Any]) -> SuccessionResult:
        first = self._journal.event(len(self._journal) - 1)
        if canonicalize(first.payload) != canonicalize(payload):
            raise succession_refusal(first.payload["successor_id"])
        return _succession(first, None)

    def _judge_termination(self, context: dict[str, Any]) -> tuple[str | None, bool]:
        """Return why termination is refused, None if it is not, and whether force decided."""
        if self._obligation_id is not None:
            return "active obligation blocks termination", False
        singleton = len(self._survivors) == 1
        force = self.policy.allow_force and context.get("force") is True
        if not singleton and not force:
            return "termination requires singleton survivor", False
        if not self._core.may_terminate():
            return "conclusions are not stable", False
        return None, not singleton

    def _draft_unchanged(
        self, verb: Verb, payload: dict[str, Any], event_id: str, ts: str
    ) -> BeliefEvent:
        hashes = (self._survivors_hash, self._survivors_hash)
        return self._journal.draft(verb, payload, event_id=event_id, ts=ts, hashes=hashes)


def _is_same_content(first: dict[str, Any], second: dict[str, Any]) -> bool:
    # The order and repetition of the ids say nothing, and a set has no order to begin with.
    justification, justification_again = (
        canonicalize(payload["justification"]) for payload in (first, second)
    )
    ids, ids_again = (sort_unique(payload["eliminated"]) for payload in (first, second))
    return justification == justification_again and are_equal(ids, ids_again)


def succession_refusal(successor_id: str) -> BeliefError:
    """Build the refusal of a session that another one has succeeded."""
    details = {"successor_id": successor_id}
    return BeliefError("SESSION_SUCCEEDED", f"the session goes on as {successor_id}", details)


def _succession(first: BeliefEvent, made: BeliefEvent | None) -> SuccessionResult:
    carried = [
        (source_id, observation_id) for source_id, observation_id in first.payload["carried"]
    ]
    return SuccessionResult(first.payload["successor_id"], carried, first.event_id, made)


def _ignored_ids(claimed: list[str], applied: list[str]) -> list[str]:
    """Return the ids that an elimination named and did not strike, sorted."""
    if len(applied) == len(claimed):
        return []
    struck: set[str] = set()
    for part in in_steps(applied):
        struck.update(part)
    return sort_unique([hypothesis_id for hypothesis_id in claimed if hypothesis_id not in struck])
