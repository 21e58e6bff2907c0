"""A specialist reads, thinks for a while, and asks; there is nothing else that it could do."""

import gc
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import pytest

from actors.commit.group_committer import Committer
from actors.commit.units import EnvelopeUnit
from actors.orchestrator.orchestrator import Orchestrator
from actors.synthesis.read_only_agent import (
    CONTEXT_MAX_BYTES,
    EMITTED_MAX,
    ENTRIES_MAX,
    ENTRY_MAX_BYTES,
    SESSIONS_MAX,
    ContextFull,
    ReadOnlyAgent,
    ScratchSpace,
    SessionContexts,
)
from kernel.ledger.ledger import Ledger, LedgerTransaction, LedgerView
from kernel.model.result import RejectedResult
from kernel.transaction.kernel import Kernel
from tests.actors.harness import bench_on, dump
from tests.actors.intents import envelope_of, put, source
from tests.kernel.build import memory_ledger

pytestmark = pytest.mark.spec("INV-15.7.9", "K18")

US_PER_S = 1_000_000


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    put(ledger, source("src-1"))
    return ledger


def reachable(start):
    """Every object of ours that can be reached from one through what it holds."""
    seen, waiting = {}, [start]
    while waiting:
        reached = waiting.pop()
        skipped = type | ModuleType | FunctionType | BuiltinFunctionType | MethodType
        if id(reached) in seen or isinstance(reached, skipped):
            continue
        seen[id(reached)] = reached
        waiting.extend(gc.get_referents(reached))
    return list(seen.values())


def test_a_specialist_holds_a_view_a_context_and_what_it_emitted(ledger):
    with ledger.view() as view:
        agent = ReadOnlyAgent(view, ScratchSpace())
        public = {name for name in dir(agent) if not name.startswith("_")}

        assert public == {"view", "session_context", "emitted", "emit"}
        assert type(agent.view) is LedgerView
        assert not isinstance(agent.view, LedgerTransaction)
        with pytest.raises((AttributeError, TypeError)):
            agent.kernel = Kernel()


def test_nothing_that_writes_can_be_reached_from_a_specialist(ledger):
    writers = Kernel | Committer | Orchestrator | LedgerTransaction | Ledger
    with ledger.view() as view:
        agent = ReadOnlyAgent(view, ScratchSpace())
        agent.emit(source("src-2"))

        assert [reached for reached in reachable(agent) if isinstance(reached, writers)] == []
        for name in ("insert", "put", "update", "delete", "put_blob", "write_head"):
            assert not hasattr(agent.view, name)


def test_what_a_specialist_emits_changes_nothing_by_itself(ledger):
    before = dump(ledger)
    with ledger.view() as view:
        agent = ReadOnlyAgent(view, ScratchSpace())
        agent.emit(source("src-2"))

    assert dump(ledger) == before
    put(ledger, *agent.emitted)
    assert dump(ledger) != before


def test_a_specialist_emits_only_so_much(ledger):
    with ledger.view() as view:
        agent = ReadOnlyAgent(view, ScratchSpace())
        for number in range(EMITTED_MAX):
            agent.emit(source(f"n-{number}"))
        with pytest.raises(ContextFull):
            agent.emit(source("one-more"))


@pytest.mark.spec("INV-15.7.8", "§20.1")
@pytest.mark.parametrize("actor", ["agent", "system", "migration"])
def test_an_envelope_that_a_specialist_wrote_itself_is_refused_at_the_callers_door(ledger, actor):
    (accepted,) = put(ledger, source("src-2"))
    forged = envelope_of(ledger, accepted) | {
        "operation_id": "forged",
        "idempotency_key": "forged",
        "actor": actor,
    }

    with bench_on(ledger) as context:
        result = EnvelopeUnit(forged, "s-1").run(context)

    assert isinstance(result, RejectedResult)
    assert result.rejection.reason_code == "envelope_actor_unauthorized"
    with ledger.view() as view:
        assert view.log_row_of("forged") is None


# --- the context ----------------------------------------------------------------------------------


def test_a_context_keeps_what_was_put_and_forgets_what_was_dropped():
    context = ScratchSpace()
    context.put("a", b"one")
    context.put("a", b"two")

    assert context.get("a") == b"two"
    context.drop("a")
    context.drop("a")
    assert context.get("a") is None


def test_a_context_is_bounded_in_entries_and_bytes():
    many, large = ScratchSpace(), ScratchSpace()
    for number in range(ENTRIES_MAX):
        many.put(str(number), b"")
    for number in range(CONTEXT_MAX_BYTES // ENTRY_MAX_BYTES):
        large.put(str(number), bytes(ENTRY_MAX_BYTES))

    for context, key, value in (
        (many, "one more", b""),
        (large, "one more", b"x"),
        (ScratchSpace(), "large", bytes(ENTRY_MAX_BYTES + 1)),
    ):
        with pytest.raises(ContextFull):
            context.put(key, value)
        assert context.get(key) is None
    many.put("0", b"instead")
    large.drop("0")
    large.put("one more", bytes(ENTRY_MAX_BYTES))


def test_a_context_belongs_to_its_session_and_goes_after_its_lifetime_and_grace():
    now = [0]
    contexts = SessionContexts(lambda: now[0], lifetime_s=10, grace_s=5)
    contexts.of("s-1").put("a", b"one")

    assert contexts.of("s-2").get("a") is None
    now[0] = 15 * US_PER_S - 1
    assert contexts.of("s-1").get("a") == b"one"
    now[0] += 15 * US_PER_S
    assert contexts.of("s-1").get("a") is None
    assert len(contexts) == 1


def test_the_context_unused_for_longest_makes_room():
    contexts = SessionContexts(lambda: 0)
    contexts.of("first").put("a", b"one")
    contexts.of("second").put("a", b"two")
    for number in range(SESSIONS_MAX - 2):
        contexts.of(str(number))
    contexts.of("first")
    contexts.of("one more")

    assert len(contexts) == SESSIONS_MAX
    assert contexts.of("first").get("a") == b"one"
    assert contexts.of("second").get("a") is None
