"""One behaviour for every elimination store: T-STORE-01 to T-STORE-10 of seed 000."""

import signal
import threading
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.errors import StaleEpoch
from actors.incidents.incidents import Incidents
from kernel.belief.elimination_store import EliminationProvenance, RecoveredState
from kernel.belief.errors import BeliefError
from kernel.belief.limits import MAX_ID_CHARS
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.contract.elimination_stores import (
    COMMON,
    WHY,
    OpenedStore,
    strike_all,
    striker,
    universe_of,
)
from tests.forked import forked_together, sent
from tests.kernel.build import findings
from tests.workers.tee.fake_tee import FakeTee, seed, serving
from workers.environment.system_host import system_host
from workers.tee.service import TeeService

SESSION = "session-1"
UNIVERSE = frozenset({"a", "b", "c", "é", "edge:a|b|DEPENDS_ON"})
SHARED = ["ledger sqlite", "ledger postgres", "tee fake", "tee ledger"]
"""The stores that several processes can open."""

TEES = [kind for kind in SHARED if kind.startswith("tee")]
"""The stores to which several processes write at once; a ledger's has one writer."""

KINDS = ["memory", "ledger memory", *SHARED]
THREADS = ("t0", "t1", "t2", "t3")
STRIKES = 6
KILLED_STRIKES = 200


IN_GRAPH = (
    UNIVERSE | universe_of(*THREADS, count=STRIKES) | universe_of("p0", "p1", count=KILLED_STRIKES)
)
"""What a Tee has in its main graph before any session begins."""


@pytest.fixture
def tee(request, tmp_path):
    """The target of a Tee: one that anchors nothing, or ours on a ledger."""
    if request.node.callspec.params["opened"] == "tee fake":
        with serving(FakeTee()) as target:
            seed(target, IN_GRAPH)
            yield target
        return
    ledger = Ledger.create(SqliteStore(tmp_path / "tee.db"), system_host())
    with serving(TeeService(Incidents(ledger))) as target:
        seed(target, IN_GRAPH)
        yield target
    assert findings(ledger) == ()
    ledger.close()


@pytest.fixture(params=KINDS)
def opened(request, tmp_path):
    place = str(tmp_path / "ledger.db")
    if request.param == "ledger postgres":
        place = request.getfixturevalue("postgres_url")
    elif request.param.startswith("tee"):
        place = request.getfixturevalue("tee")
    opened_store = OpenedStore(request.param, place)
    yield opened_store
    opened_store.close()


@pytest.fixture
def store(opened):
    return opened.store


@pytest.fixture
def session(store):
    store.create_session(SESSION, UNIVERSE)
    return SESSION


@pytest.fixture
def ends_well(opened):
    """What the test leaves on a ledger verifies."""
    yield
    if opened.ledger is not None:
        assert findings(opened.ledger) == ()


@pytest.mark.spec("T-STORE-01")
def test_a_new_session_has_its_whole_universe(store, session, ends_well):
    assert store.get_survivors(session) == UNIVERSE
    assert store.get_eliminated(session) == frozenset()


@pytest.mark.spec("T-STORE-02")
def test_an_elimination_takes_what_it_applied_from_the_survivors(store, session, ends_well):
    result = store.eliminate(session, {"a", "é"}, WHY)
    assert result.applied == {"a", "é"}
    assert result.already_eliminated == frozenset()
    assert store.get_survivors(session) == UNIVERSE - {"a", "é"}


@pytest.mark.spec("T-STORE-03")
def test_the_same_elimination_again_applies_nothing(store, session):
    store.eliminate(session, {"a", "b"}, WHY)
    again = store.eliminate(session, {"a", "b"}, WHY)
    assert again.applied == frozenset()
    assert again.already_eliminated == {"a", "b"}
    assert store.get_survivors(session) == UNIVERSE - {"a", "b"}


def test_under_one_provenance_other_hypotheses_are_another_elimination(store, session):
    assert store.eliminate(session, {"a"}, WHY).applied == {"a"}
    assert store.eliminate(session, {"a", "b"}, WHY).applied == {"b"}


@pytest.mark.spec("T-STORE-04")
def test_what_is_not_in_the_universe_is_neither_eliminated_nor_a_survivor(store, session):
    for _ in range(2):
        result = store.eliminate(session, {"nowhere", "edge:a|nowhere|DEPENDS_ON"}, WHY)
        assert result.applied == frozenset()
        assert result.already_eliminated == {"nowhere", "edge:a|nowhere|DEPENDS_ON"}
    assert store.recover(session) == RecoveredState(UNIVERSE, frozenset(), UNIVERSE)


@pytest.mark.spec("T-STORE-05")
def test_tombstones_add_up(store, session):
    for struck in ("a", "b", "edge:a|b|DEPENDS_ON"):
        store.eliminate(session, {struck}, WHY)
    assert store.get_eliminated(session) == {"a", "b", "edge:a|b|DEPENDS_ON"}


ids = st.sampled_from([*sorted(UNIVERSE), "unknown", "edge:unknown"])


@pytest.mark.spec("T-STORE-06", "T-STORE-07", "T-STORE-08")
@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(strikes=st.lists(st.sets(ids), max_size=4), number=st.uuids())
def test_survivors_and_tombstones_part_the_universe(store, strikes, number):
    session = f"session-{number}"
    store.create_session(session, UNIVERSE)
    expected = set(UNIVERSE)
    for strike in strikes:
        result = store.eliminate(session, strike, WHY)
        assert result.applied == strike & expected
        assert result.already_eliminated == strike - expected
        expected -= strike
        survivors, eliminated = store.get_survivors(session), store.get_eliminated(session)
        assert survivors | eliminated <= UNIVERSE
        assert survivors & eliminated == frozenset()
        assert survivors == expected
    recovered = store.recover(session)
    assert recovered.survivors == recovered.hypothesis_ids - recovered.eliminated
    assert recovered == RecoveredState(UNIVERSE, UNIVERSE - expected, frozenset(expected))


@pytest.mark.spec("T-STORE-09")
def test_threads_that_eliminate_at_once_are_all_applied(store, ends_well):
    store.create_session(SESSION, universe_of(*THREADS, count=STRIKES))
    answers, failed = [], []
    begin = threading.Barrier(len(THREADS))

    def run(name):
        try:
            begin.wait()
            strike_all(store, SESSION, name, STRIKES, answers.extend)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=run, args=(name,)) for name in THREADS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    check_all_struck(store, answers, THREADS)


def check_all_struck(store, struck, names):
    """Everything is struck, and of what several have struck exactly one was told."""
    expected = {name for name in universe_of(*names, count=STRIKES) if name != "survivor"}
    untouched = set(COMMON[STRIKES:])
    assert store.get_survivors(SESSION) == {"survivor"} | untouched
    assert sorted(struck) == sorted(expected - untouched)


@contextmanager
def striking(opened, universe, *names, count=STRIKES):
    """Processes that have begun to eliminate, each with the connection through which it tells."""
    place = (opened.kind, opened.place)
    calls = [(place, universe, SESSION, name, count) for name in names]
    with forked_together(striker, *calls) as running:
        for _, connection in running:
            connection.send("go")
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("opened", TEES, indirect=True)
@pytest.mark.spec("T-STORE-09")
def test_processes_that_eliminate_at_once_are_all_applied(opened, ends_well):
    names = ("p0", "p1")
    store = opened.store
    universe = universe_of(*names, count=STRIKES)
    store.create_session(SESSION, universe)
    applied = []
    with striking(opened, universe, *names) as running:
        for process, connection in running:
            applied += sent(connection)
            process.join()
            assert process.exitcode == 0
    check_all_struck(store, [struck for call in applied for struck in call], names)


@pytest.mark.slow
@pytest.mark.parametrize("opened", SHARED, indirect=True)
def test_what_a_killed_process_was_told_is_kept_and_its_universe_is_still_parted(opened, ends_well):
    count, told_before = KILLED_STRIKES, 5
    universe = universe_of("p0", count=count)
    store = opened.store
    store.create_session(SESSION, universe)
    with striking(opened, universe, "p0", count=count) as [(process, connection)]:
        answers = [connection.recv() for _ in range(told_before)]
        process.kill()
        answers += sent(connection)
        process.join()
        assert process.exitcode == -signal.SIGKILL
    struck_ids = {struck for applied in answers for struck in applied}
    with opened.again(universe) as store:
        check_what_a_killed_process_left(store, universe, struck_ids)


def check_what_a_killed_process_left(store, universe, struck):
    recovered = store.recover(SESSION)
    assert struck <= recovered.eliminated
    # At most one call took effect whose answer was lost with the process.
    assert len(recovered.eliminated - struck) <= 2
    assert recovered.survivors == universe - recovered.eliminated
    # Asked again, the rest is applied and nothing twice.
    rest = store.eliminate(SESSION, universe, WHY)
    assert rest.applied == universe - recovered.eliminated


@pytest.mark.spec("T-STORE-10")
def test_eliminating_nothing_changes_nothing(opened, store, session):
    before = _rows_of(opened)
    result = store.eliminate(session, set(), WHY)
    assert result.applied == result.already_eliminated == frozenset()
    assert store.get_survivors(session) == UNIVERSE
    assert _rows_of(opened) == before


def _rows_of(opened):
    if opened.ledger is None:
        return None
    with opened.ledger.view() as view:
        return view.head().row_hash


def test_the_same_creation_again_changes_nothing_and_another_universe_is_refused(store, session):
    store.eliminate(session, {"a"}, WHY)
    store.create_session(session, list(UNIVERSE) * 2)
    assert store.get_eliminated(session) == {"a"}
    with pytest.raises(BeliefError) as refused:
        store.create_session(session, UNIVERSE | {"another"})
    assert refused.value.code == "SESSION_EXISTS"
    assert store.recover(session).hypothesis_ids == UNIVERSE


def test_sessions_do_not_touch_each_other(store, session):
    store.create_session("session-2", UNIVERSE)
    store.eliminate(session, {"a"}, WHY)
    assert store.get_survivors("session-2") == UNIVERSE


def test_a_session_may_have_no_hypotheses(store):
    store.create_session(SESSION, frozenset())
    assert store.eliminate(SESSION, {"a"}, WHY).already_eliminated == {"a"}
    assert store.recover(SESSION) == RecoveredState(frozenset(), frozenset(), frozenset())


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.eliminate("unknown", {"a"}, WHY),
        lambda store: store.eliminate("unknown", set(), WHY),
        lambda store: store.get_survivors("unknown"),
        lambda store: store.get_eliminated("unknown"),
        lambda store: store.recover("unknown"),
    ],
)
def test_a_session_that_was_never_created_is_not_found(store, session, call):
    with pytest.raises(BeliefError) as refused:
        call(store)
    assert refused.value.code == "SESSION_NOT_FOUND"


@pytest.mark.parametrize("bad", ["", "x" * (MAX_ID_CHARS + 1), "\ud800", 7])
def test_bad_input_is_refused_with_a_code_and_changes_nothing(store, session, bad):
    for call in (
        lambda: store.create_session("session-2", {"a", bad}),
        lambda: store.create_session(bad, {"a"}),
        lambda: store.eliminate(session, {"a", bad}, WHY),
        lambda: EliminationProvenance(bad, "trigger"),
        lambda: EliminationProvenance("source", bad),
    ):
        with pytest.raises(BeliefError) as refused:
            call()
        assert refused.value.code == "INVALID_REQUEST"
    assert store.get_survivors(session) == UNIVERSE
    with pytest.raises(BeliefError):
        store.recover("session-2")


def test_another_store_over_the_same_record_finds_what_was_struck(opened, store, session):
    store.eliminate(session, {"a"}, WHY)
    with opened.again(UNIVERSE) as other:
        assert other.recover(session) == store.recover(session)
        other.eliminate(session, {"b"}, WHY)
        if opened.ledger is None:
            assert store.eliminate(session, {"b", "c"}, WHY).applied == {"c"}
        else:
            with pytest.raises(StaleEpoch):
                store.eliminate(session, {"b", "c"}, WHY)
        assert other.get_survivors(session) == store.get_survivors(session)
