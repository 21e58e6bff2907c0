"""What goes to another gateway arrives as it was sent."""

import math
import threading
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import messages
from actors.errors import (
    ActorFailed,
    CommitFailed,
    EnvelopeTooLarge,
    IntentInvalid,
    MailboxFull,
    ModelError,
    RefusalsTooMany,
    SessionCorrupt,
)
from actors.forwarding import message_codec
from actors.forwarding.message_codec import (
    LONG_CHARS,
    ForwardedMessage,
    aside,
    asker_of,
    decode_asking,
    decode_reply,
    encode_asking,
    encode_reply,
    is_long,
)
from actors.messages import (
    Audit,
    BeliefVerb,
    Declare,
    DeclareConclusion,
    Eliminate,
    EndAuditSession,
    EnterObligation,
    FinalizeMerkle,
    Message,
    Operate,
    Query,
    Recomputed,
    RecordThought,
    Reports,
    RequestExit,
    RequestTermination,
    Simulate,
    StartAuditSession,
    SubmitEnvelope,
    Succeed,
    VerifyThoughtChain,
)
from actors.orchestrator.intents import AdaptFields, RecalculateAuthority
from kernel.belief.errors import BeliefError
from kernel.belief.terms import DEFAULT_POLICY, OntologyBundle, SessionPolicy
from kernel.model.bindings.dispatch import EvaluatedOn
from kernel.model.bindings.outcomes import BindingOutcomeRecord
from kernel.model.bindings.particulars import Particulars, Stretch
from kernel.model.result import RejectedResult, Rejection, SubmissionResult
from kernel.model.simulation import ALL_FORBIDDEN
from kernel.simulate.operation import simulate_operation
from kernel.transaction.kernel import Kernel
from kernel.values import json_text
from kernel.values.errors import KernelError
from kernel.work.reports import (
    BindingEvaluated,
    BindingSuspended,
    CapacityRejected,
    ReportedCapacity,
    SuccessfulAttempt,
    TransitionDue,
)
from tests.actors.harness import bench_on, scripted_ledger
from tests.actors.intents import (
    adapt,
    captured,
    claim,
    link,
    put,
    source,
    synthesized,
    understanding,
)
from tests.kernel.attempts import given_up
from tests.kernel.build import create
from tests.workers.api.door import ANY_JSON

ONTOLOGY = OntologyBundle("space", "v1", "graphs://one", "v1")
INTENTS = (
    source("s", metadata={"subject": "x", "n": 3}),
    understanding("u", "s"),
    claim("c", "s", authority=0.1),
    link("c", "u"),
    adapt("s", note="x", deep={"a": [1, None, {"$": "b"}]}),
)


def fields_of(message):
    names = [field.name for field in fields(message) if field.name not in ("reply", "position")]
    return {name: getattr(message, name) for name in names}


def sent(message):
    asking = decode_asking(encode_asking(ForwardedMessage("1", "gateway-a", "s-1", message)))
    assert (asking.ask_id, asking.gateway, asking.session_id) == ("1", "gateway-a", "s-1")
    assert type(asking.message) is type(message)
    assert asking.message.request_id == message.request_id
    assert asking.message.principal == message.principal
    assert fields_of(asking.message) == fields_of(message)
    return asking.message


def answered(value):
    ask_id, answer, error = decode_reply(encode_reply("7", value))
    assert (ask_id, error) == ("7", None)
    return answer


def refused(error):
    ask_id, answer, failure = decode_reply(encode_reply("7", None, error))
    assert (ask_id, answer) == ("7", None)
    return failure


RECOMPUTED = RecalculateAuthority(
    intent_key="k",
    target_cu_id="u",
    as_of_sequence=3,
    cu_authority=0.5,
    inputs={"count": 0, "digest": "0" * 64, "excerpt": ()},
)

MESSAGES = (
    StartAuditSession("task"),
    RecordThought("t-1", "plan", "Ä \u0000"),
    VerifyThoughtChain(),
    FinalizeMerkle(),
    EndAuditSession(),
    Declare(ONTOLOGY, ("h1", "h2"), SessionPolicy(True, False, 3), {"case_name": "Ä"}),
    Declare(ONTOLOGY, (), DEFAULT_POLICY),
    Eliminate("s", "o", ("h1",), {"why": 0.1}, expected_head="e-1", survivors_max=7),
    Eliminate("s", "o", ()),
    EnterObligation("ob", 3, expected_head="e-1"),
    RequestExit("ob", {"why": 0.1}, survivors_max=0),
    DeclareConclusion("c", None, expected_head="e-1"),
    RequestTermination({"force": True}, expected_head="e-1", survivors_max=1),
    Succeed("reinstated", [["s", "o"]], None, {"words": 0.5}, "s-2", expected_head="e-1"),
    Query(),
    Query(2),
    Audit("e-1", 5),
    Audit(),
    Operate(INTENTS),
    SubmitEnvelope({"operation_id": "x", "n": 2**70}),
    Simulate(INTENTS[0], ALL_FORBIDDEN, "durable", "k"),
    Simulate({"operation_id": "x"}),
    Recomputed((RECOMPUTED,)),
    Recomputed((RECOMPUTED,), SuccessfulAttempt(took_ms=7, worker="worker-1")),
    Reports((TransitionDue(request_id="r-1"),)),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message):
    sent(message)


def test_a_request_is_logged_under_one_id_at_both_gateways():
    message = Query()
    message.request_id = "r-1"
    assert sent(message).request_id == "r-1"


def test_the_spans_that_a_report_belongs_to_go_along():
    message = Reports((TransitionDue(request_id="r-1"), TransitionDue(request_id="r-2")))
    message.traceparents = (("00-a-b-01", "00-c-d-01"), ())
    assert sent(message).traceparents == message.traceparents
    assert sent(Query()).traceparents == ()


@given(ANY_JSON)
def test_whatever_a_caller_has_sent_arrives(value):
    message = SubmitEnvelope(value)
    decoded = decode_asking(encode_asking(ForwardedMessage("1", "a", "s", message))).message
    assert repr(decoded.document) == repr(value)


@given(st.dictionaries(st.text(min_size=1, max_size=5), ANY_JSON, min_size=1, max_size=3))
def test_fields_of_an_intent_arrive(fields):
    intent = AdaptFields.model_construct(
        intent_kind="field_adapt", intent_key="k", node_id="n", fields=fields
    )
    try:
        AdaptFields.model_validate(intent.model_dump())
    except ValueError:
        return  # it could not have been asked for
    decoded = decode_asking(
        encode_asking(ForwardedMessage("1", "a", "s", Operate((intent,))))
    ).message
    assert repr(decoded.intents[0].fields) == repr(fields)


@given(st.floats(0, 1))
def test_an_authority_arrives_to_the_bit(value):
    intent = RECOMPUTED.model_copy(update={"cu_authority": value})
    [decoded_intent] = sent(Recomputed((intent,))).intents
    assert math.copysign(1, decoded_intent.cu_authority) == math.copysign(1, value)
    assert decoded_intent.cu_authority == value


REPORTS = (
    TransitionDue(request_id="r-1"),
    BindingEvaluated(
        request_id="r-2",
        outcome=BindingOutcomeRecord(
            outcome_id="o",
            source_event_id="e",
            binding_id="b",
            target_kind="extraction_task",
            outcome_state="succeeded",
            outcome_reason_code="binding_fired",
        ),
        evaluated_on=EvaluatedOn(
            binding="in_force", artifact_ref="a", artifact_version=1, standing="absent"
        ),
        particulars=Particulars(disposition="granted", stretches=(Stretch(offset=0, length=7),)),
    ),
    BindingSuspended(request_id="r-5"),
    CapacityRejected(
        request_id="r-3",
        capacity_signal_at_rejection=ReportedCapacity(
            ec_capacity_lease_state="exhausted", queue_depth=3, inflight_operations=1
        ),
    ),
    given_up(request_id="r-4", error_signature="timeout"),
)


def test_what_workers_report_arrives_as_they_reported_it():
    assert sent(Reports(REPORTS)).reports == REPORTS


def test_every_message_has_a_form_on_the_wire():
    classes = [value for value in vars(messages).values() if isinstance(value, type)]
    kinds = {kind for kind in classes if issubclass(kind, Message)} - {Message, BeliefVerb}
    assert {type(message) for message in MESSAGES} == kinds


def test_what_a_model_answered_arrives_with_its_bytes():
    ledger, _ = scripted_ledger()
    put(ledger, source("s"))
    answer = '{"said":"Ä \\u0000"}'.encode()
    intent = synthesized(ledger, "u", "s", outputs=(captured("s", answer=answer),))
    [decoded_intent] = sent(Operate((intent,))).intents
    assert decoded_intent.outputs[0].answer == answer


SUBMITTED = SubmissionResult("op", 2**60, "now", ({"a": "b"},), (), "hash", duplicate=True)
REJECTED = RejectedResult("op", Rejection("V11", "code", "field", "text", 7), "receipt")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"survivors": ["h1"], "n": 1, "closed": False, "x": None},
        {"$": "not a kind", "deep": [{"$": {"$": 1}}]},
        [SUBMITTED, REJECTED],
        [("completed", SUBMITTED), ("closed", None)],
        REJECTED,
    ],
)
def test_an_answer_arrives_as_it_was_given(answer):
    decoded = answered(answer)
    assert decoded == answer
    assert repr(decoded) == repr(answer)


@given(ANY_JSON)
def test_whatever_a_session_answers_arrives(value):
    assert repr(answered(value)) == repr(value)


@given(ANY_JSON)
def test_what_is_long_arrives_as_what_is_short_does(value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_codec, "LONG_CHARS", 1)
        patch.setattr(json_text, "STEP_ENTRIES", 2)
        assert repr(answered(value)) == repr(value)
        document = {"value": value, "more": ["\ud800", float("inf"), 2**70]}
        content = encode_asking(ForwardedMessage("1", "a", "s", SubmitEnvelope(document)))
        assert repr(decode_asking(content).message.document) == repr(document)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (Eliminate("s", "o", ("a",)), Eliminate("s", "o", ["a"] * LONG_CHARS)),
        (Eliminate("s", "o", [{}]), Eliminate("s", "o", [{}] * (LONG_CHARS // 4))),
        (SubmitEnvelope({"a": 1}), SubmitEnvelope({"a": ["x" * LONG_CHARS]})),
        (Operate(INTENTS[:1]), Operate((source("s", text="x" * LONG_CHARS),))),
    ],
)
def test_what_a_caller_wrote_much_of_is_long(short, long):
    assert [is_long(short), is_long(long)] == [False, True]


@pytest.mark.anyio
async def test_what_is_long_is_written_beside_the_loop():
    assert await aside(threading.get_ident, is_long=False) == threading.get_ident()
    assert await aside(threading.get_ident, is_long=True) != threading.get_ident()


def test_whose_answer_it_is_is_seen_without_reading_it():
    assert asker_of(encode_reply("7", {"a": 1})) == "7"
    for content in (b"", b"[", b'["7', b"{}", b"[7,null,false]"):
        with pytest.raises(ValueError, match=r"answer|found"):
            asker_of(content)


@pytest.mark.parametrize("outcome", ["previewed", "not_supported", "rejected"])
def test_a_simulation_arrives_with_its_preview(outcome):
    ledger, _ = scripted_ledger()
    document = create("n", "Note")
    if outcome == "not_supported":
        document["operation_kind"] = "nothing_known"
    with bench_on(ledger) as context:
        result = simulate_operation(
            Kernel(), context.transaction, document, ALL_FORBIDDEN, "profile"
        )
    decoded = answered(result)
    assert decoded == result
    assert decoded.document() == result.document()


@pytest.mark.parametrize(
    "error",
    [
        BeliefError("CONFLICT", "no", {"head": "e-1"}),
        CommitFailed("later"),
        ActorFailed("failed"),
        MailboxFull("full", {"shard": 3}),
        SessionCorrupt("broken", {"session_id": "s"}),
        EnvelopeTooLarge("large", {"field": "", "limit": 1, "actual": 2}),
        RefusalsTooMany("many", {"request_digest": "d"}),
        IntentInvalid("no", "node_id"),
        ModelError("model_timeout", "late"),
        KernelError("refused", code="some_code"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_with_what_a_caller_acts_on(error):
    received = refused(error)
    assert isinstance(received, type(error)) or error.__class__ is ModelError
    assert str(received) == str(error)
    assert received.code == error.code
    for name in ("details", "retryable", "message", "field"):
        assert getattr(received, name, None) == getattr(error, name, None)
    [inside] = answered([error])
    assert (type(inside), str(inside)) == (type(received), str(received))


def test_a_defect_arrives_as_one():
    assert "no such key" in str(refused(LookupError("no such key")))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"kind":"Query"}', b'{"kind":"os.system"}'])
def test_what_is_no_asking_is_refused(content):
    with pytest.raises((ValueError, KeyError, TypeError)):
        decode_asking(content)


@pytest.mark.parametrize("make", [SubmitEnvelope, Simulate])
def test_an_envelope_whose_list_is_too_long_is_refused_on_arrival_too(make):
    """Whoever sends it has looked; a key that was stolen is no reason to read millions."""
    content = encode_asking(
        ForwardedMessage("ask", "a", "s", make({"primitive_effects": [{}] * 300}))
    )
    with pytest.raises(ValueError, match="primitive_effects has at most 257"):
        decode_asking(content)
