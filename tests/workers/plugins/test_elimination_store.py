"""An elimination store of somebody else's: held by the suite, selected by name, failing safely."""

import os
import subprocess
import sys
import time

import pytest

from actors.errors import EliminationStoreFailed
from actors.sessions.elimination_store import THREADS_MAX, AsyncEliminationStore
from kernel.belief.elimination_store import EliminationStoreUnavailable, StoreResult
from kernel.belief.errors import BeliefError
from kernel.belief.memory_store import InMemoryStore
from kernel.belief.terms import SessionPolicy
from tests.actors.harness import declare, running_sessions, scripted_ledger, strike
from tests.actors.sessions.test_elimination_store import NAMES
from tests.foreign_ends import released_at_the_end, stands_still
from tests.installed_plugins import install_program
from workers.environment import foreign_threads
from workers.environment.settings import Settings
from workers.plugins import plugin_elimination_store
from workers.plugins.plugin_elimination_store import PluginEliminationStore

PLUGIN = SessionPolicy(elimination_store="plugin")
SHELF = """
from kernel.belief.memory_store import InMemoryStore


class Shelf(InMemoryStore):
    pass


class Forgetful(InMemoryStore):
    def get_eliminated(self, session_id):
        super().get_eliminated(session_id)
        return frozenset()
"""
ENTRIES = {"rotulus.elimination_stores": "shelf = shelf:Shelf\nforgetful = shelf:Forgetful"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return install_program(tmp_path_factory.mktemp("plugin"), "shelf", SHELF, ENTRIES)


@pytest.mark.slow
@pytest.mark.spec("T-STORE-01", "T-STORE-10")
@pytest.mark.parametrize(("name", "code"), [("shelf", 0), ("forgetful", 1)])
def test_an_author_holds_a_store_against_what_every_store_promises(installed, tmp_path, name, code):
    path = os.pathsep.join([str(installed), *sys.path])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"]
    ended = subprocess.run(
        [*command, "rotulus.elimination_store_conformance"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "ROTULUS_ELIMINATION_STORE": name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"elimination_store": "nobody"}, "elimination_store_unknown"),
        ({"elimination_store": "shelf", "tee_target": "127.0.0.1:1"}, "elimination_stores_two"),
    ],
)
def test_a_store_that_nobody_offers_and_two_stores_are_no_settings(
    installed, monkeypatch, stated, code
):
    monkeypatch.syspath_prepend(str(installed))
    with pytest.raises(ValueError, match="elimination") as refused:
        Settings(**stated)
    assert [error["type"] for error in refused.value.errors()] == [code]


async def test_a_session_has_its_tombstones_in_the_store_and_wakes_with_them():
    ledger, _ = scripted_ledger()
    shelf = InMemoryStore()
    store = AsyncEliminationStore(PluginEliminationStore(shelf), "plugin")
    async with running_sessions(ledger, tombstones=store) as sessions:
        await sessions.ask("s", declare(*NAMES, policy=PLUGIN))
        await sessions.ask("s", strike("o-0", NAMES[0]))
        assert shelf.get_eliminated("s") == {NAMES[0]}
    async with running_sessions(ledger, tombstones=store) as sessions:
        await sessions.ask("s", strike("o-1", NAMES[1]))
    assert shelf.get_eliminated("s") == {NAMES[0], NAMES[1]}
    # A gateway without it does not answer from the record alone.
    async with running_sessions(ledger) as sessions:
        with pytest.raises(EliminationStoreFailed, match="kept in a plugin"):
            await sessions.ask("s", strike("o-2", NAMES[2]))
        with pytest.raises(BeliefError, match="kept in ledger"):
            await sessions.ask("t", declare(*NAMES, policy=PLUGIN))


class FailingStore(InMemoryStore):
    """A store that fails in a way at its next elimination."""

    def __init__(self, fail) -> None:
        super().__init__()
        self.fail = fail

    def eliminate(self, session_id, eliminated, provenance):
        fail, self.fail = self.fail, None
        result = super().eliminate(session_id, eliminated, provenance)
        return result if fail is None else fail()


def raise_system_exit():
    raise SystemExit(1)


def raise_an_error():
    raise RuntimeError("disk gone")


def answer_later():
    time.sleep(1.5)


@pytest.mark.parametrize(
    "fail",
    [
        *(raise_system_exit, raise_an_error, answer_later, lambda: None, lambda: {"applied": []}),
        lambda: StoreResult(frozenset({"nobody"}), frozenset()),
        lambda: StoreResult(["a"], ["b"]),
    ],
)
async def test_a_store_that_fails_is_unavailable_and_the_same_elimination_goes_through_after(fail):
    ledger, _ = scripted_ledger()
    foreign = FailingStore(fail)
    store = AsyncEliminationStore(PluginEliminationStore(foreign), "plugin", answer_s=0.5)
    async with running_sessions(ledger, tombstones=store) as sessions:
        await sessions.ask("s", declare(*NAMES, policy=PLUGIN))
        with pytest.raises(EliminationStoreFailed):
            await sessions.ask("s", strike("o-0", NAMES[0]))
        await sessions.ask("s", strike("o-0", NAMES[0]))
        assert foreign.get_eliminated("s") == {NAMES[0]}


async def test_a_store_that_does_not_return_is_unavailable_and_holds_no_thread_of_its_callers(
    monkeypatch,
):
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND_MAX", 2 * THREADS_MAX)
    store = AsyncEliminationStore(PluginEliminationStore(FailingStore(None)), "plugin")
    monkeypatch.setattr(FailingStore, "get_eliminated", stands_still)
    await store.create_session("s", NAMES)
    with released_at_the_end():
        # Only calls that never return meet the short limit: a busy machine holds up any other.
        with monkeypatch.context() as short:
            short.setattr(plugin_elimination_store, "CALL_S_MAX", 0.02)
            for _ in range(THREADS_MAX + 1):
                with pytest.raises(EliminationStoreUnavailable, match="ForeignCodeHangs"):
                    await store.get_eliminated("s")
        assert await store.get_survivors("s") == set(NAMES)
