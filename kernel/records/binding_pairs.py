"""Keeps the pairs of a binding's generation and an artifact, as rows: states and requests (§13.2).

A row states the last step of its pair, from which state and to which, and the database refuses a
step that `kernel/model/bindings/lifecycle.py` does not have. A pair has a row for each of its
evaluations, numbered from 1: what has ended never moves again, so inputs that change after it ask
for a further one (decision kernel/0281).
"""

from dataclasses import dataclass, fields
from typing import Final, Literal

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.bindings.lifecycle import (
    NO_STATE,
    RECORDED_STEPS,
    START,
    PairState,
    follow,
    state_now,
)
from kernel.model.bindings.selectors import Phase
from kernel.records.bindings import generation_in_force
from kernel.values.canonical import digest

PairEnd = Literal["fired", "matched_no_fire", "no_match"]

READY: Final[PairState] = "ready_to_evaluate"
EVALUATED: Final[PairState] = "evaluated"

OWN_STATES: Final[tuple[PairState, ...]] = tuple(state for _, state in RECORDED_STEPS)
"""The states that a row may state."""

UNFINISHED: Final[tuple[PairState, ...]] = (START, READY)
"""Those of them in which a pair was not evaluated."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One evaluation of a binding's generation against the artifact of an event."""

    pair_id: str
    binding_id: str
    binding_generation_id: str
    artifact_ref: str
    source_event_id: str
    evaluation_number: int
    prior_state: str
    state: PairState
    """The state to which its own steps led; `pair_state` says what its binding makes of it."""

    awaited_phase: Phase | None
    inputs_digest: str | None
    request_id: str | None

    @property
    def is_waiting(self) -> bool:
        """Tell whether it waits for a phase of its artifact."""
        return self.state == START

    @property
    def is_unfinished(self) -> bool:
        """Tell whether it has not been evaluated."""
        return self.state in UNFINISHED


_NAMES = tuple(field.name for field in fields(Pair))


def begin_pair(
    transaction: LedgerTransaction,
    binding: tuple[str, str],
    artifact_ref: str,
    source_event_id: str,
    *,
    evaluation_number: int,
    awaited_phase: Phase,
) -> Pair:
    """Write a pair that waits for a phase; `binding` is the binding's id and its generation's."""
    binding_id, generation_id = binding
    pair = Pair(
        digest([binding_id, generation_id, source_event_id, evaluation_number]),
        binding_id,
        generation_id,
        artifact_ref,
        source_event_id,
        evaluation_number,
        NO_STATE,
        START,
        awaited_phase,
        None,
        None,
    )
    transaction.tables.put(schema.binding_pairs, {name: getattr(pair, name) for name in _NAMES})
    return pair


def make_ready(
    transaction: LedgerTransaction, pair: Pair, request_id: str, inputs_digest: str
) -> None:
    """Let a pair be evaluated: its artifact has passed the phase, and a request asks for it."""
    _step(
        transaction,
        pair,
        READY,
        awaited_phase=None,
        inputs_digest=inputs_digest,
        request_id=request_id,
    )


def end_pair(transaction: LedgerTransaction, request_id: str, end: PairEnd) -> bool:
    """Say what the evaluation that a request asked for came to, in the transaction that closes it.

    False, and nothing written, where the request is no pair's: its producer asked for an event.

    Raises:
        PairTransitionDisallowed: the pair is not ready to be evaluated, or its binding was disabled
            or changed meanwhile; nothing was written.
    """
    pair = pair_of_request(transaction, request_id)
    if pair is None:
        return False
    follow(pair_state(transaction, pair), EVALUATED)
    _step(transaction, _step(transaction, pair, EVALUATED), end)
    return True


def hand_over(transaction: LedgerTransaction, request_id: str, following_id: str) -> None:
    """Let a request that asks anew for a dead letter's work be the one of its pair."""
    pair = pair_of_request(transaction, request_id)
    if pair is not None:
        values = {"request_id": following_id}
        transaction.tables.update(schema.binding_pairs, (pair.pair_id,), values)


def remove_pair(transaction: LedgerTransaction, pair: Pair) -> None:
    """Take a pair away whose event was undone, or that is begun anew before it was evaluated."""
    transaction.tables.delete(schema.binding_pairs, pair.pair_id)


def pair_state(view: LedgerView, pair: Pair) -> PairState:
    """Return the state of a pair as its binding is now (decision kernel/0272)."""
    node, generation = view.node(pair.binding_id), generation_in_force(view, pair.binding_id)
    return state_now(
        pair.state,
        pair.binding_generation_id,
        in_force=None if generation is None else generation["binding_generation_id"],
        enabled=node is not None and node["state"] == "active",
    )


def pair_of_request(view: LedgerView, request_id: str) -> Pair | None:
    """Return the pair whose evaluation a request asks for, None of a producer's own request."""
    rows = view.tables.scan(TableQuery(schema.binding_pairs, {"request_id": request_id}, limit=1))
    return _pair(rows[0]) if rows else None


def pairs_of_event(
    view: LedgerView, source_event_id: str, binding_id: str | None = None
) -> list[Pair]:
    """Return the pairs of an event, of one binding or of all, by their evaluation's number."""
    where = {"source_event_id": source_event_id}
    if binding_id is not None:
        where["binding_id"] = binding_id
    rows = view.tables.scan(TableQuery(schema.binding_pairs, where, order_by="evaluation_number"))
    return [_pair(row) for row in rows]


def some_pairs_of_event(
    view: LedgerView, source_event_id: str, states: tuple[PairState, ...], *, limit: int
) -> list[Pair]:
    """Return pairs of an event that are in one of some states, whichever come first."""
    pairs: list[Pair] = []
    for state in states:
        where = {"source_event_id": source_event_id, "state": state}
        rows = view.tables.scan(TableQuery(schema.binding_pairs, where, limit=limit - len(pairs)))
        pairs += [_pair(row) for row in rows]
        if len(pairs) >= limit:
            break
    return pairs


def newest_pair(
    view: LedgerView, source_event_id: str, binding_id: str, generation_id: str
) -> Pair | None:
    """Return the newest evaluation of a generation against an event, None where there is none."""
    newest = None
    for pair in pairs_of_event(view, source_event_id, binding_id):
        if pair.binding_generation_id == generation_id:
            newest = pair
    return newest


def pairs_awaiting(view: LedgerView, artifact_ref: str, phase: Phase, *, limit: int) -> list[Pair]:
    """Return pairs that wait for an artifact to pass a phase."""
    where = {"awaited_phase": phase, "artifact_ref": artifact_ref}
    rows = view.tables.scan(
        TableQuery(schema.binding_pairs, where, order_by="pair_id", limit=limit)
    )
    return [_pair(row) for row in rows]


def count_pairs(
    view: LedgerView, binding_id: str, generation_id: str, *, most: int
) -> dict[PairState, int]:
    """Return how many pairs of a generation are in which state by their own steps, up to `most`."""
    where = {"binding_id": binding_id, "binding_generation_id": generation_id}
    return {
        state: len(
            view.tables.scan(
                TableQuery(schema.binding_pairs, {**where, "state": state}, limit=most)
            )
        )
        for state in OWN_STATES
    }


def count_abandoned(view: LedgerView, binding_id: str, generation_id: str, *, most: int) -> int:
    """Return how many pairs that are ready nobody evaluates, up to `most`.

    Their request was given up or cancelled; it is asked for anew by hand alone.
    """
    where = {"binding_id": binding_id, "binding_generation_id": generation_id, "state": READY}
    ready = TableQuery(schema.binding_pairs, where, columns=("request_id",), limit=most)
    ids = [request_id for (request_id,) in view.tables.scan(ready)]
    closed = TableQuery(schema.outbox_outcomes, any_of=("request_id", ids), columns=("request_id",))
    return len(view.tables.scan(closed))


def _step(
    transaction: LedgerTransaction, pair: Pair, state: PairState, **values: str | None
) -> Pair:
    follow(pair.state, state)
    step = {"prior_state": pair.state, "state": state, **values}
    transaction.tables.update(schema.binding_pairs, (pair.pair_id,), step)
    return _pair({name: getattr(pair, name) for name in _NAMES} | step)


def _pair(row: Row) -> Pair:
    return Pair(**{name: row[name] for name in _NAMES})
