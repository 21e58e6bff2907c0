"""Nothing that runs for a batch fails for one unit: what is to blame alone is refused."""

import dataclasses
from itertools import cycle

import anyio
import orjson
import pytest

from actors.commit import prefetch
from actors.commit.units import EnvelopeUnit, IntentUnit
from actors.error_codes import is_retryable
from actors.errors import RequestUnprocessable
from actors.messages import Audit, Operate, Query, SubmitEnvelope
from actors.sessions.session_actor import SessionActor
from kernel.belief.session import BeliefSession
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.verify import verify
from tests.actors.harness import (
    ScriptedStore,
    declare,
    running_committer,
    running_sessions,
    strike,
)
from tests.actors.intents import source
from tests.kernel.build import FakeHost

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("each_kind_of_store")]


SURROGATE, NUL, ENORMOUS = "\ud800", "a\x00b", 2**70


@pytest.fixture(params=["sqlite", "postgres"])
def made(request, tmp_path):
    """A ledger on each store, and the store."""
    if request.param == "sqlite":
        inner = SqliteStore(tmp_path / "ledger.db")
    else:
        url = request.getfixturevalue("postgres_url")
        inner = pytest.importorskip("kernel.ledger.postgres.store").PostgresStore(url)
    store = ScriptedStore(inner)
    ledger = Ledger.create(store, FakeHost().host)
    store.transactions = 0
    yield ledger, store
    ledger.close()


@dataclasses.dataclass
class Writing:
    """A unit that writes a row as it is; whether the store can hold it shows at the end."""

    row: dict

    def run(self, context):
        context.transaction.tables.append(schema.ephemeral_receipts, self.row)
        return "written"


@dataclasses.dataclass
class Raising:
    """A unit that fails while it runs."""

    error: Exception

    def run(self, context):
        source_unit("half").run(context)
        raise self.error


@dataclasses.dataclass
class SwallowingUnit:
    """A unit that lets the store fail in the middle, and goes on."""

    session_id: str = "s-1"

    def run(self, context):
        try:
            context.transaction.tables.scan(TableQuery(schema.nodes, {"node_id": SURROGATE}))
            context.transaction.tables.get(schema.nodes, NUL)
        except Exception:  # noqa: BLE001 - whatever the store makes of it
            return "failed"
        return "asked"


def source_unit(node_id):
    return IntentUnit(source(node_id), "s-1")


def row(receipt_id, **changes):
    return {
        "receipt_id": receipt_id,
        "receipt_kind": "test",
        "operation_id": None,
        "expires_at_us": 2**60,
        "receipt_bytes": b"{}",
        **changes,
    }


def named(*refs):
    return EnvelopeUnit({name: list(refs) for name in ("read_set_refs", "write_set_refs")}, "s-1")


def deep(depth):
    document = {}
    for _ in range(depth):
        document = {"a": document}
    return document


POISONS = {
    "a name that is no text": named(SURROGATE),
    "a name with U+0000": named(NUL),
    "a number that no store holds": EnvelopeUnit(
        {"write_set_refs": [ENORMOUS], "n": ENORMOUS}, "s"
    ),
    "what is nested without end": EnvelopeUnit({"primitive_effects": deep(5000)}, "s-1"),
    "an error of its own": Raising(RuntimeError("half way")),
    "no room": Raising(MemoryError()),
    "no end": Raising(RecursionError()),
    "text that cannot be encoded": Writing(row(SURROGATE)),
    "an integer that does not fit": Writing(row("r-1", expires_at_us=ENORMOUS)),
    "a value of no type": Writing(row("r-1", expires_at_us={"no": "type"})),
    "a name that no index holds": Writing(row("".join(chr(n) for n in range(48, 9000)))),
    "a column that is missing": Writing({"receipt_id": "r-1"}),
    "a question that cannot be asked": SwallowingUnit(),
}


WHERE = ("of one caller", "of several")


async def commit_beside(committer, poison, where):
    """Let a unit be committed with four others, of its own caller or of others, in one batch."""
    other_units = [source_unit(f"n-{number}") for number in range(4)]
    if where == "of one caller":
        return await committer.commit([*other_units[:2], poison, *other_units[2:]])
    results = [None] * 5
    lists = [[other] for other in (*other_units[:2], poison, *other_units[2:])]

    async def commit_list(number):
        [results[number]] = await committer.commit(lists[number])

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(commit_list, number)
    return results


def refusals(ledger):
    with ledger.view() as view:
        rows = view.tables.scan(
            TableQuery(schema.receipts, {"receipt_kind": "request_unprocessable"})
        )
        # What a test writes beside the kernel is no receipt.
        findings = [
            finding for finding in verify(view).findings if finding.table != "ephemeral_receipts"
        ]
        assert findings == []
    return [orjson.loads(stored_row["receipt_bytes"]) for stored_row in rows]


@pytest.mark.slow
@pytest.mark.spec("L3", "K5")
@pytest.mark.parametrize(("name", "where"), [*zip(POISONS, cycle(WHERE), strict=False)])
async def test_a_unit_that_fails_a_batch_is_refused_and_its_neighbours_are_committed(
    made, name, where
):
    ledger, _ = made
    async with running_committer(ledger) as committer:
        first, second, of_poison, *last = await commit_beside(committer, POISONS[name], where)

        for result in (first, second, *last):
            assert isinstance(result, SubmissionResult)
        refused = refusals(ledger)
        if isinstance(of_poison, RequestUnprocessable):
            assert not is_retryable(of_poison.code)
            [receipt] = refused
            assert receipt["reason_code"] == "request_unprocessable"
            assert receipt["receipt_id"] == of_poison.details["receipt_id"]
            assert receipt["request_digest"] == of_poison.details["request_digest"]
        else:
            # A store that holds what others do not, or a verdict of the kernel's own.
            assert refused == []
            assert isinstance(of_poison, RejectedResult | str)

        # Asked again it is the same, and leaves nothing more.
        if of_poison != "written":
            [again] = await committer.commit([POISONS[name]])
            assert type(again) is type(of_poison)
        [after] = await committer.commit([source_unit("after")])
    assert isinstance(after, SubmissionResult)
    assert len(refusals(ledger)) <= max(1, len(refused))


async def test_what_fails_in_the_reading_ahead_fails_nothing(made, monkeypatch):
    ledger, _ = made
    failed = []

    def fail(node_id):
        failed.append(node_id)
        raise KeyError("a defect")

    monkeypatch.setattr(prefetch, "node_key", fail)
    async with running_committer(ledger) as committer:
        results = await committer.commit([source_unit("a"), source_unit("b")])

    assert failed == ["a"]
    assert [type(result) for result in results] == [SubmissionResult] * 2
    assert refusals(ledger) == []


async def test_who_is_told_of_a_batch_and_fails_fails_nothing(made):
    ledger, _ = made

    def fail(_):
        raise ValueError("a defect")

    async with running_committer(ledger, committed=fail, measured=fail) as committer:
        for node_id in ("a", "b"):
            [result] = await committer.commit([source_unit(node_id)])
            assert isinstance(result, SubmissionResult)


async def test_a_batch_is_halved_and_not_tried_one_by_one(made):
    ledger, store = made
    units = [source_unit(f"n-{number}") for number in range(64)]
    units[37] = Writing(row(SURROGATE))
    async with running_committer(ledger) as committer:
        results = await committer.commit(units)

    failed = [
        number for number, result in enumerate(results) if not isinstance(result, SubmissionResult)
    ]
    assert failed == [37]
    assert store.transactions <= 2 * 7 + 2


async def test_units_that_are_all_to_blame_are_all_refused(made):
    ledger, store = made
    units = [Writing({"receipt_id": f"r-{number}"}) for number in range(32)]
    async with running_committer(ledger) as committer:
        results = await committer.commit(units)

    assert {type(result) for result in results} == {RequestUnprocessable}
    assert len(refusals(ledger)) == 32
    assert store.transactions <= 3 * 32


# --- sessions -------------------------------------------------------------------------------------


async def answers_of(runtime, messages):
    answers = [None] * len(messages)

    async def ask(number, session_id, message):
        try:
            answers[number] = await runtime.ask(session_id, message)
        except Exception as error:  # noqa: BLE001 - the error is the answer
            answers[number] = error

    async with anyio.create_task_group() as tasks:
        for number, (session_id, message) in enumerate(messages):
            tasks.start_soon(ask, number, session_id, message)
            await anyio.lowlevel.checkpoint()
    return answers


@pytest.mark.parametrize(
    "poison",
    [
        lambda: strike("o-bad", "h1", justification={"why": SURROGATE}),
        lambda: strike("o-bad", "h1", justification={"why": NUL, "n": ENORMOUS}),
        lambda: strike(SURROGATE, "h1"),
        lambda: strike("o-bad", SURROGATE),
        lambda: strike("o-bad", "h1", justification=deep(3000)),
        lambda: strike("o-bad", "h1", justification={"n": float("nan")}),
        lambda: SubmitEnvelope({"write_set_refs": [SURROGATE]}),
        lambda: SubmitEnvelope({"operation_kind": deep(3000)}),
    ],
)
async def test_a_message_that_fails_its_batch_takes_no_neighbour_along(made, poison):
    ledger, _ = made
    async with running_sessions(ledger) as runtime:
        for name in ("s-1", "s-2"):
            await runtime.ask(name, declare("h1", "h2", "h3"))
        before, answer, after, other = await answers_of(
            runtime,
            [
                ("s-1", strike("o-1", "h2")),
                ("s-1", poison()),
                ("s-1", strike("o-2", "h3")),
                ("s-2", strike("o-3", "h2")),
            ],
        )
        assert before["applied_eliminated"] == other["applied_eliminated"] == ["h2"]
        assert after["applied_eliminated"] == ["h3"]
        assert not is_retryable(getattr(answer, "code", "")), answer
        trail = (await runtime.ask("s-1", Audit()))["events"]
    observed = [
        event["payload"]["observation_id"]
        for event in trail
        if "observation_id" in event["payload"]
    ]
    assert [observation for observation in observed if observation in ("o-1", "o-2")] == [
        "o-1",
        "o-2",
    ]
    refusals(ledger)


async def test_a_message_whose_handling_fails_is_refused_on_the_record(made, monkeypatch):
    ledger, _ = made
    strike_in_memory = BeliefSession.eliminate

    def fail(session, source_id, observation_id, *rest, **options):
        result = strike_in_memory(session, source_id, observation_id, *rest, **options)
        if observation_id == "o-bad":
            raise LookupError("a defect")
        return result

    monkeypatch.setattr(BeliefSession, "eliminate", fail)
    async with running_sessions(ledger) as runtime:
        await runtime.ask("s-1", declare("h1", "h2", "h3", "h4"))
        first, refused, last = await answers_of(
            runtime,
            [
                ("s-1", strike(observation_id, hyp))
                for observation_id, hyp in (("a", "h1"), ("o-bad", "h2"), ("b", "h3"))
            ],
        )
        trail = (await runtime.ask("s-1", Audit()))["events"]

    assert (first["applied_eliminated"], last["applied_eliminated"]) == (["h1"], ["h3"])
    assert isinstance(refused, RequestUnprocessable)
    [receipt] = refusals(ledger)
    assert (receipt["asked"], receipt["session_id"]) == ("Eliminate", "s-1")
    assert [event["payload"]["observation_id"] for event in trail[1:]] == ["a", "b"]


class Forgetful:
    """A committer that may keep the result of the last unit to itself."""

    def __init__(self, committer):
        self.committer = committer
        self.forgets = False

    async def commit(self, units, fence):
        results = await self.committer.commit(units, fence)
        return results[:-1] if self.forgets else results


async def test_an_answer_that_cannot_be_made_is_that_askers_alone(made):
    ledger, _ = made
    async with running_committer(ledger) as committer:
        forgetful = Forgetful(committer)
        actor = SessionActor("s-1", None, forgetful, ledger.host)
        await actor.handle([declare("h1")])
        forgetful.forgets = True
        before, broken, after = Operate((source("b"),)), SubmitEnvelope({}), Query()
        await actor.handle([before, broken, after])
    assert broken.reply.outcome()[1].code == "actor_failed"
    assert isinstance(before.reply.outcome()[0][0], SubmissionResult)
    assert after.reply.outcome()[0]["n_survivors"] == 1
