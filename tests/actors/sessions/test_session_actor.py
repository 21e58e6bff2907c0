"""What one actor does with the messages that it takes together."""

import anyio
import anyio.lowlevel
import orjson
import pytest

from actors.commit import belief_units
from actors.commit.units import DeadLetterUnit
from actors.errors import ActorFailed, CommitFailed, IntentInvalid
from actors.messages import Audit, Operate, Query, Recomputed, Simulate, SubmitEnvelope
from actors.sessions.session_actor import SessionActor
from kernel.algebra.verbs import BELIEF_ANCHOR
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.belief.errors import BeliefError
from kernel.belief.session import BeliefSession
from kernel.belief.terms import SessionPolicy
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import RejectedResult, Rejection, SubmissionResult
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from tests.actors.harness import (
    ONTOLOGY,
    Gate,
    anchor_of,
    declare,
    dump,
    log_length,
    running_committer,
    scripted_ledger,
    strike,
)
from tests.actors.intents import (
    adapt,
    claim,
    link,
    node_of,
    recalculation,
    source,
    understanding,
)
from tests.kernel.build import effect, envelope, findings

pytestmark = pytest.mark.anyio

TRIO = ("h1", "h2", "h3")


async def replies_to(*messages):
    """What each message was answered, errors included."""
    answers = []
    for message in messages:
        try:
            answers.append(await message.reply.wait())
        except Exception as error:  # noqa: BLE001 - the error is the answer
            answers.append(error)
    return answers


def events_of(ledger, session_id):
    with ledger.view() as view:
        return view.belief_events(session_id)


def restored(ledger, session_id):
    return BeliefSession.restore(events_of(ledger, session_id))


async def ask(actor, *messages):
    await actor.handle(list(messages))
    return await replies_to(*messages)


class RefusingKernel(Kernel):
    """Refuses every anchor while it is told to."""

    refusing = True

    def submit(self, transaction, document, submitter, **options):
        if self.refusing and document["semantic_intent"] == BELIEF_ANCHOR:
            rejection = Rejection("V9", "refused", "", "no")
            return RejectedResult(document["operation_id"], rejection, "receipt:none")
        return super().submit(transaction, document, submitter, **options)


# --- batches --------------------------------------------------------------------------------------


async def test_messages_taken_together_are_one_commit_and_run_in_order():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        answers = await ask(
            actor,
            declare(*TRIO),
            strike("o-1", "h1"),
            Query(),
            Operate((source("src-1"), adapt("src-1", note="x"))),
            strike("o-2", "h2", "h1"),
            Audit(),
        )

    assert store.transactions == 1
    assert [answer["n_survivors"] for answer in (answers[0], answers[2])] == [3, 2]
    assert answers[1]["applied_eliminated"] == ["h1"]
    assert [type(answer) for answer in answers[3]] == [SubmissionResult] * 2
    assert (answers[4]["applied_eliminated"], answers[4]["ignored_eliminated"]) == (["h2"], ["h1"])
    verbs = [event["verb"] for event in answers[5]["events"]]
    assert verbs == ["DECLARE_SESSION", "ELIMINATE", "ELIMINATE"]


async def test_the_events_of_a_batch_are_anchored_once():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO), strike("o-1", "h1"))
        assert log_length(ledger) == 1
        *_, page = await ask(actor, strike("o-2", "h2"), strike("o-3", "h3"), Audit())
        assert log_length(ledger) == 2

    assert anchor_of(ledger, "s-1")["head_event_hash"] == page["events"][-1]["event_hash"]
    assert anchor_of(ledger, "s-1")["n_events"] == 4


async def test_reading_alone_commits_nothing():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO))
        await ask(actor, Query(), Audit(), declare(*TRIO))

    assert store.transactions == 1


async def test_a_refused_message_changes_nothing_for_its_neighbours():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        policy = SessionPolicy(validate_hypotheses=True)
        answers = await ask(
            actor,
            strike("too early", "h1"),
            declare(*TRIO, policy=policy),
            strike("o-1", "h1"),
            strike("o-2", "unknown"),
            strike("o-1", "h2"),
            Audit("no such event"),
            strike("o-3", "h2"),
        )

    codes = {
        at: answer.code for at, answer in enumerate(answers) if isinstance(answer, BeliefError)
    }
    assert codes == {
        0: "SESSION_NOT_FOUND",
        3: "INVALID_HYPOTHESIS_ID",
        4: "CONFLICT",
        5: "EVENT_NOT_FOUND",
    }
    assert answers[6]["snapshot"]["survivors"] == ["h3"]
    assert anchor_of(ledger, "s-1")["n_events"] == 3


async def test_a_refusal_is_not_told_before_what_it_rests_on_is_durable():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO))
        gate = store.gate = Gate()
        first, conflicting = strike("o-1", "h1"), strike("o-1", "h2")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(actor.handle, [first, conflicting])
            await gate.reached()
            await anyio.wait_all_tasks_blocked()
            told_early = conflicting.reply.is_filled
            gate.open()

    assert not told_early
    assert [getattr(line, "code", None) for line in await replies_to(first, conflicting)] == [
        None,
        "CONFLICT",
    ]


async def test_a_refusal_that_rests_on_a_lost_commit_is_never_told():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO))
        store.faults.append("lost")
        first, conflicting = strike("o-1", "h1"), strike("o-1", "h2")
        with pytest.raises(CommitFailed):
            await actor.handle([first, conflicting])

    assert not conflicting.reply.is_filled


# --- declaring ------------------------------------------------------------------------------------


async def test_the_same_declaration_again_is_answered_with_the_session_as_it_stands():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO), strike("o-1", "h1"))
        again, query = await ask(actor, declare("h3", "h1", "h2", "h2"), Query())

    assert again == query
    assert again["survivors"] == ["h2", "h3"]


@pytest.mark.parametrize(
    "other",
    [
        declare("h1", "h2"),
        declare(*TRIO, "h4"),
        declare(*TRIO, policy=SessionPolicy(allow_force=True)),
        declare(*TRIO, ontology=type(ONTOLOGY)("space", "v2", "graphs://one", "v1")),
    ],
)
async def test_another_declaration_of_a_session_is_refused(other):
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO))
        before = dump(ledger)
        other.reply = type(other.reply)()
        (refused,) = await ask(actor, other)

    assert refused.code == "SESSION_EXISTS"
    assert dump(ledger) == before


@pytest.mark.parametrize("session_id", ["", "x" * 400, "x" * 600])
async def test_a_session_that_could_not_be_anchored_is_refused_at_once(session_id):
    ledger, _ = scripted_ledger()
    before = dump(ledger)
    async with running_committer(ledger) as committer:
        actor = SessionActor(session_id, None, committer, ledger.host)
        (refused,) = await ask(actor, declare(*TRIO))

    assert refused.code == "INVALID_REQUEST"
    assert dump(ledger) == before


async def test_the_longest_session_id_that_is_taken_can_be_anchored():
    ledger, _ = scripted_ledger()
    session_id = "x" * 384
    async with running_committer(ledger) as committer:
        actor = SessionActor(session_id, None, committer, ledger.host)
        answers = await ask(actor, declare(*TRIO), strike("o-1", "h1"))

    assert answers[1]["applied_eliminated"] == ["h1"]
    assert anchor_of(ledger, session_id)["n_events"] == 2


# --- the anchor -----------------------------------------------------------------------------------


async def test_an_event_whose_anchor_is_refused_is_not_recorded():
    ledger, _ = scripted_ledger()
    kernel = RefusingKernel()
    kernel.refusing = False
    async with running_committer(ledger, kernel=kernel) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO))
        before = dump(ledger)
        kernel.refusing = True
        with pytest.raises(ActorFailed):
            await actor.handle([strike("o-1", "h1"), Query()])

    assert dump(ledger) == before


async def test_an_anchor_whose_events_cannot_be_recorded_is_not_kept():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO))
        somebody_else = SessionActor("s-1", restored(ledger, "s-1"), committer, ledger.host)
        await ask(somebody_else, strike("o-2", "h2"))
        before = dump(ledger)
        with pytest.raises(ActorFailed):
            await actor.handle([strike("o-1", "h1")])

    assert dump(ledger) == before


async def test_events_and_anchor_are_undone_together_but_not_the_rest_of_the_batch():
    ledger, _ = scripted_ledger()
    kernel = RefusingKernel()
    kernel.refusing = False
    async with running_committer(ledger, kernel=kernel) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO))
        kernel.refusing = True
        operate = Operate((source("src-1"),))
        with pytest.raises(ActorFailed):
            await actor.handle([strike("o-1", "h1"), operate])

    assert node_of(ledger, "src-1")["version"] == 1
    assert anchor_of(ledger, "s-1")["n_events"] == 1


async def test_sessions_of_one_commit_share_an_anchor_and_one_that_fails_fails_alone():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        actors = [SessionActor(f"s-{at}", None, committer, ledger.host) for at in range(3)]
        for actor in actors:
            await ask(actor, declare(*TRIO))
        stale = SessionActor("s-1", restored(ledger, "s-1"), committer, ledger.host)
        await ask(actors[1], strike("o-1", "h1"))
        gate, rows = Gate(), log_length(ledger)
        store.gate = gate
        outcomes = {}

        async def strike_in(name, actor_asked):
            try:
                (outcomes[name],) = await ask(actor_asked, strike("o-2", "h2"))
            except ActorFailed as error:
                outcomes[name] = error

        async with anyio.create_task_group() as tasks:
            # While the first is being committed the others gather for the next transaction.
            tasks.start_soon(strike_in, "first", actors[1])
            await gate.reached()
            for name, actor in (("a", actors[0]), ("stale", stale), ("b", actors[2])):
                tasks.start_soon(strike_in, name, actor)
                await anyio.lowlevel.checkpoint()
            gate.open()

    assert isinstance(outcomes.pop("stale"), ActorFailed)
    assert [outcome["applied_eliminated"] for outcome in outcomes.values()] == [["h2"]] * 3
    assert log_length(ledger) == rows + 2
    with ledger.view() as view:
        document = view.envelope(view.log_tail(1)[0]["operation_id"])
        assert verify(view).ok
    sessions = document["primitive_effects"][0]["payload"]["sessions"]
    assert [session["session_id"] for session in sessions] == ["s-0", "s-2"]
    trail = [orjson.loads(event) for event in events_of(ledger, "s-0")]
    assert sessions[0] == {
        "session_id": "s-0",
        "prior_head_event_hash": trail[0]["event_hash"],
        "first_event_index": 1,
        "last_event_index": 1,
        "head_event_hash": trail[1]["event_hash"],
    }


async def test_only_what_may_ask_for_work_or_end_some_is_told_of():
    ledger, _ = scripted_ledger()
    heads = []
    async with running_committer(ledger, committed=heads.append) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await ask(actor, declare(*TRIO), strike("o-1", "h1"))
        assert heads == []
        await ask(actor, strike("o-2", "h2"), Operate((source("src-1"),)))
    assert len(heads) == 1


async def test_no_throttle_of_background_work_stops_an_anchor():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        await ask(SessionActor("s-1", None, committer, ledger.host), declare(*TRIO))
    with ledger.view() as view:
        document = view.envelope(view.log_tail(1)[0]["operation_id"])
    assert document["recompute_priority"] == "user_active_session"


async def test_what_no_single_operation_can_anchor_is_anchored_by_several(monkeypatch):
    monkeypatch.setattr(belief_units, "SESSION_IDS_BYTES_MAX", 10)
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        gate = Gate()
        store.gate = gate
        async with anyio.create_task_group() as tasks:
            for at in range(6):
                actor = SessionActor(f"s-{at}", None, committer, ledger.host)
                tasks.start_soon(actor.handle, [declare(*TRIO)])
                if not at:
                    await gate.reached()
            await anyio.sleep(0.01)
            gate.open()

    assert store.transactions == 2
    assert log_length(ledger) == 4
    assert findings(ledger) == ()


# --- operations -----------------------------------------------------------------------------------


async def test_intents_are_answered_one_by_one():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        _, answers = await ask(
            actor,
            declare(*TRIO),
            Operate(
                (source("src-1"), adapt("nowhere", note="x"), source("src-1", intent_key="other"))
            ),
        )

    assert isinstance(answers[0], SubmissionResult)
    assert isinstance(answers[1], IntentInvalid)
    assert isinstance(answers[2], RejectedResult)
    assert answers[2].rejection.reason_code == "node_already_exists"


async def test_an_envelope_is_submitted_in_the_name_of_its_session_and_as_a_callers():
    ledger, _ = scripted_ledger()
    written = envelope(
        "create",
        [
            effect("node_write", "n-1", node_kind="Note"),
            effect("membership_write", "n-1", corpus_id="c", to_state="candidate"),
        ],
        session_id="somebody else's",
    )
    as_system = {**written, "actor": "system", "operation_id": "op-x", "idempotency_key": "x"}
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        _, accepted, refused, nonsense = await ask(
            actor,
            declare(*TRIO),
            SubmitEnvelope(written),
            SubmitEnvelope(as_system),
            SubmitEnvelope("not an envelope"),
        )

    assert isinstance(accepted, SubmissionResult)
    assert refused.rejection.reason_code == "envelope_actor_unauthorized"
    assert nonsense.rejection.reason_code == "envelope_schema_invalid"
    with ledger.view() as view:
        assert view.log_row_of(accepted.operation_id)["session_id"] == "s-1"


@pytest.mark.spec("§11.5", "INV-G-SIM-1")
async def test_a_simulation_sees_what_was_asked_before_it_and_what_comes_after_does_not_see_it():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        _, _, shown, invalid, (taken,) = await ask(
            actor,
            declare(*TRIO),
            Operate((source("src-1"),)),
            Simulate(understanding("cu-1", "src-1")),
            Simulate(claim("cl-1", "nobody")),
            Operate((understanding("cu-1", "src-1"),)),
        )
    assert shown.outcome == "previewed"
    assert shown.preview.preview_state.would_be_rejected is None
    assert shown.preview.preview_state.preview_kind == "rollup_generation_preview"
    assert isinstance(invalid, IntentInvalid)
    assert isinstance(taken, SubmissionResult)
    with ledger.view() as view:
        assert view.log_row_of(shown.submission.operation_id)["session_id"] == "s-1"


@pytest.mark.spec("§11.2")
async def test_a_preview_names_the_profile_of_its_session():
    hashes = set()
    for policy in (SessionPolicy(), SessionPolicy(), SessionPolicy(allow_force=True)):
        ledger, _ = scripted_ledger()
        async with running_committer(ledger) as committer:
            actor = SessionActor("s-1", None, committer, ledger.host)
            message = Simulate(source("src-1"))
            _, shown = await ask(actor, declare(*TRIO, policy=policy), message)
        hashes.add(shown.preview.session_profile_hash)
    assert len(hashes) == 2


@pytest.mark.parametrize(
    "message", [Operate(()), SubmitEnvelope({}), Simulate({}), Query(), Audit()]
)
async def test_a_session_that_was_not_declared_does_nothing(message):
    ledger, _ = scripted_ledger()
    before = dump(ledger)
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        message.reply = type(message.reply)()
        (refused,) = await ask(actor, message)

    assert refused.code == "SESSION_NOT_FOUND"
    assert dump(ledger) == before


# --- recomputing ----------------------------------------------------------------------------------


async def _with_understandings(actor):
    """One understanding that a claim feeds, and one that the first one feeds."""
    await ask(
        actor,
        declare(*TRIO),
        Operate(
            (
                source("src-1"),
                understanding("cu-1", "src-1"),
                understanding("cu-2", "src-1"),
                claim("cl-1", "src-1", understanding_id="cu-1", essentiality="core"),
                link("cu-1", "cu-2"),
            )
        ),
    )


def _open_requests(ledger, node_id):
    with ledger.view() as view:
        return view.open_requests_of(AUTHORITY_QUEUE, node_id)


async def test_a_recompute_is_recorded_when_it_is_due():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await _with_understandings(actor)
        child_too_early = recalculation(ledger, "cu-2")
        parent = recalculation(ledger, "cu-1")
        first, again = await ask(
            actor,
            Recomputed((child_too_early, parent)),
            Recomputed((parent,)),
        )
        child = recalculation(ledger, "cu-2")
        ((outcome, result),) = (await ask(actor, Recomputed((child,))))[0]

    assert [outcome[0] for outcome in first] == ["input_pending", "completed"]
    assert first[0][1] is None
    assert isinstance(first[1][1], SubmissionResult)
    assert again == [("closed", None)]
    assert outcome == "completed"
    assert isinstance(result, SubmissionResult)
    assert node_of(ledger, "cu-1")["payload"]["cu_authority"] == pytest.approx(4 / 6)
    assert _open_requests(ledger, "cu-1") == _open_requests(ledger, "cu-2") == []


async def test_a_recompute_that_came_early_or_late_leaves_no_trace():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await _with_understandings(actor)
        early, late = recalculation(ledger, "cu-2"), recalculation(ledger, "cu-1")
        await ask(actor, Recomputed((late,)))
        before = dump(ledger)
        (outcomes,) = await ask(actor, Recomputed((early, late)))

    assert [outcome for outcome, _ in outcomes] == ["input_pending", "closed"]
    assert dump(ledger) == before


@pytest.mark.spec("K19")
async def test_a_recompute_does_not_answer_for_what_was_asked_after_it_read():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await _with_understandings(actor)
        stale = recalculation(ledger, "cu-1")
        _, (outcome,) = await ask(
            actor, Operate((adapt("cl-1", authority=0.25),)), Recomputed((stale,))
        )
        left = _open_requests(ledger, "cu-1")

    assert outcome[0] == "completed"
    assert len(left) == 1
    assert left[0].cause_sequence > stale.as_of_sequence


async def test_a_recompute_with_a_value_that_its_inputs_do_not_give_is_rejected():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await _with_understandings(actor)
        wrong = recalculation(ledger, "cu-1", cu_authority=0.99)
        ((outcome, result),) = (await ask(actor, Recomputed((wrong,))))[0]

    assert outcome == "rejected"
    assert result.rejection.reason_code == "cu_authority_mismatch"
    assert len(_open_requests(ledger, "cu-1")) >= 1


async def test_giving_up_closes_the_requests_that_were_tried_with_a_receipt_each():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await _with_understandings(actor)
        request_ids = [request.request_id for request in _open_requests(ledger, "cu-1")]
        late = recalculation(ledger, "cu-1")
        dead = DeadLetterUnit("cu-1", "ValueError:boom", (*request_ids, "unknown"))
        (closed,) = await committer.commit([dead])
        (again,) = await committer.commit([dead])
        (outcomes,) = await ask(actor, Recomputed((late,)))

    assert closed == request_ids
    assert len(request_ids) == 2
    assert again == []
    assert outcomes == [("closed", None)]
    with ledger.view() as view:
        rows = [view.outcome_of(request_id) for request_id in closed]
        receipts = view.tables.scan(
            TableQuery(schema.receipts, {"receipt_kind": "authority_recompute_dead_lettered"})
        )
        assert view.head().receipt_hash == receipts[-1]["receipt_hash"]
    assert [row["outcome"] for row in rows] == ["dead_letter"] * 2
    assert [row["receipt_id"] for row in receipts] == [
        f"receipt:{request_id}:dead_letter" for request_id in closed
    ]
