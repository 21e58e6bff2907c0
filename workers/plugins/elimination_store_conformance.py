"""Tests the promises of every elimination store, for authors (seed 000, T-STORE-01 to 10).

    ROTULUS_ELIMINATION_STORE=NAME pytest --pyargs rotulus.elimination_store_conformance

NAME is the store's entry point of `rotulus.elimination_stores`. Each test makes sessions with names
of its own, so that it may run on a store that holds others; nothing is removed.
"""

import os
import threading
import uuid
from collections.abc import Iterator

import pytest

from kernel.belief.elimination_store import (
    EliminationProvenance,
    EliminationStore,
    RecoveredState,
    StoreResult,
)
from kernel.belief.errors import BeliefError
from workers.plugins.installed import elimination_store_plugin

UNIVERSE = frozenset({"a", "b", "c", "é", "edge:a|b|DEPENDS_ON"})
WHY = EliminationProvenance("adapter://conformance", "probe:1")
THREADS = 4


@pytest.fixture(scope="module")
def store() -> EliminationStore:
    """The store that the variable names."""
    return elimination_store_plugin(os.environ["ROTULUS_ELIMINATION_STORE"])


@pytest.fixture
def session(store: EliminationStore) -> Iterator[str]:
    """A new session over the universe; at its end its two parts are the universe."""
    session_id = new_session(store, UNIVERSE)
    yield session_id
    state = store.recover(session_id)
    assert state.hypothesis_ids == UNIVERSE
    assert state.survivors == state.hypothesis_ids - state.eliminated
    assert store.get_survivors(session_id) == state.survivors
    assert store.get_eliminated(session_id) == state.eliminated


def new_session(store: EliminationStore, universe: frozenset[str]) -> str:
    """Create a session of a name that is not taken."""
    session_id = f"conformance-{uuid.uuid4()}"
    store.create_session(session_id, universe)
    return session_id


def test_01_a_new_session_has_its_whole_universe(store: EliminationStore, session: str) -> None:
    """T-STORE-01."""
    assert store.get_survivors(session) == UNIVERSE
    assert store.get_eliminated(session) == frozenset()


def test_02_an_elimination_takes_what_it_applied(store: EliminationStore, session: str) -> None:
    """T-STORE-02."""
    result = store.eliminate(session, {"a", "é"}, WHY)
    assert result == StoreResult(frozenset({"a", "é"}), frozenset())
    assert store.get_survivors(session) == UNIVERSE - {"a", "é"}


def test_03_the_same_elimination_again_applies_nothing(
    store: EliminationStore, session: str
) -> None:
    """T-STORE-03."""
    store.eliminate(session, {"a", "b"}, WHY)
    again = store.eliminate(session, {"a", "b"}, WHY)
    assert again == StoreResult(frozenset(), frozenset({"a", "b"}))


def test_04_an_unknown_id_is_neither_eliminated_nor_a_survivor(
    store: EliminationStore, session: str
) -> None:
    """T-STORE-04."""
    result = store.eliminate(session, {"nowhere", "a"}, WHY)
    assert result == StoreResult(frozenset({"a"}), frozenset({"nowhere"}))
    assert "nowhere" not in store.get_eliminated(session) | store.get_survivors(session)


def test_05_tombstones_add_up(store: EliminationStore, session: str) -> None:
    """T-STORE-05."""
    for struck in ("a", "b", "edge:a|b|DEPENDS_ON"):
        store.eliminate(session, {struck}, WHY)
    assert store.get_eliminated(session) == {"a", "b", "edge:a|b|DEPENDS_ON"}


@pytest.mark.parametrize("strikes", [[{"a"}], [{"a", "b"}, {"b", "c"}], [UNIVERSE, {"a", "x"}]])
def test_06_to_08_survivors_and_tombstones_part_the_universe(
    store: EliminationStore, session: str, strikes: list[set[str]]
) -> None:
    """T-STORE-06, T-STORE-07, T-STORE-08."""
    expected = set(UNIVERSE)
    for strike in strikes:
        result = store.eliminate(session, strike, WHY)
        assert result.applied == strike & expected
        assert result.already_eliminated == strike - expected
        expected -= strike
        assert store.get_survivors(session) == expected
    recovered = RecoveredState(UNIVERSE, UNIVERSE - expected, frozenset(expected))
    assert store.recover(session) == recovered


def test_09_of_threads_that_eliminate_at_once_each_id_is_applied_once(
    store: EliminationStore,
) -> None:
    """T-STORE-09."""
    universe = frozenset(f"h{number}" for number in range(24))
    session_id = new_session(store, universe)
    applied: list[str] = []
    failed: list[BaseException] = []
    begin = threading.Barrier(THREADS)

    def strike() -> None:
        try:
            begin.wait()
            for struck in sorted(universe - {"h0"}):
                applied.extend(store.eliminate(session_id, {struck}, WHY).applied)
        except BaseException as error:  # noqa: BLE001 - the test tells of it
            failed.append(error)

    threads = [threading.Thread(target=strike) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(applied) == sorted(universe - {"h0"})
    assert store.get_survivors(session_id) == {"h0"}


def test_10_eliminating_nothing_changes_nothing(store: EliminationStore, session: str) -> None:
    """T-STORE-10."""
    result = store.eliminate(session, frozenset(), WHY)
    assert result.applied == result.already_eliminated == frozenset()
    assert store.get_survivors(session) == UNIVERSE


def test_the_same_creation_changes_nothing_and_another_universe_is_refused(
    store: EliminationStore, session: str
) -> None:
    """The universe of a session is fixed when it is created."""
    store.eliminate(session, {"a"}, WHY)
    store.create_session(session, UNIVERSE)
    assert store.get_eliminated(session) == {"a"}
    with pytest.raises(BeliefError) as refused:
        store.create_session(session, UNIVERSE | {"another"})
    assert refused.value.code == "SESSION_EXISTS"


def test_sessions_do_not_touch_each_other(store: EliminationStore, session: str) -> None:
    """Tombstones are those of one session."""
    other = new_session(store, UNIVERSE)
    store.eliminate(session, {"a"}, WHY)
    assert store.get_survivors(other) == UNIVERSE


def test_a_session_that_was_never_created_is_not_found(store: EliminationStore) -> None:
    """Every method but the first refuses a session that it does not know."""
    unknown = f"conformance-{uuid.uuid4()}"
    calls = (
        lambda: store.eliminate(unknown, {"a"}, WHY),
        lambda: store.get_survivors(unknown),
        lambda: store.get_eliminated(unknown),
        lambda: store.recover(unknown),
    )
    for call in calls:
        with pytest.raises(BeliefError) as refused:
            call()
        assert refused.value.code == "SESSION_NOT_FOUND"
