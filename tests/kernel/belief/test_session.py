import hashlib
import math
from itertools import pairwise

import pytest

from kernel.belief import limits
from kernel.belief.errors import BeliefError
from kernel.belief.session import BeliefSession
from kernel.belief.terms import OntologyBundle, SessionPolicy
from kernel.values.canonical import GENESIS_HASH, canonicalize

ABC = ["c", "a", "b", "a"]


def refusal(driver, code, call, *args, **kwargs):
    """The refusal that a call gets, after making sure that it left no trace."""
    before = driver.everything()
    with pytest.raises(BeliefError) as refused:
        call(*args, **kwargs)
    assert refused.value.code == code
    assert driver.everything() == before
    return refused.value


# --- declaring ---------------------------------------------------------------------------------


@pytest.mark.spec("seed001-DECLARE_SESSION")
def test_declaring_is_the_first_event_and_holds_what_was_declared(declare):
    driver = declare(ABC, metadata={"run": 7}, stability_window=2)
    event = driver.declared
    assert driver.session.audit() == [event]
    assert (event.verb, event.event_id, event.prev_event_hash) == (
        "DECLARE_SESSION",
        "e-0",
        GENESIS_HASH,
    )
    assert event.payload == {
        "ontology": {
            "hypothesis_space_id": "space",
            "hypothesis_version": "v1",
            "causal_graph_ref": "graphstore://postgres-repl",
            "causal_graph_version": "v17",
        },
        "hypotheses": ["a", "b", "c"],
        "policy": {"validate_hypotheses": False, "allow_force": False, "stability_window": 2},
        "metadata": {"run": 7},
    }
    assert event.delta == {"eliminated": []}
    seed = hashlib.sha256(canonicalize(["a", "b", "c"])).digest()
    assert event.survivors_before_hash == hashlib.sha256(seed + b"\x00").hexdigest()
    assert event.survivors_after_hash == hashlib.sha256(seed + b"\x07").hexdigest()
    assert driver.session.survivors_hash == event.survivors_after_hash


def test_metadata_is_in_the_payload_only_when_given(declare):
    assert "metadata" not in declare(ABC).declared.payload
    assert declare(ABC, metadata={}).declared.payload["metadata"] == {}


def test_a_session_over_nothing_can_be_declared(declare):
    snapshot = declare([]).session.snapshot()
    assert (snapshot["survivors"], snapshot["n_survivors"]) == ([], 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_id": ""},
        {"hypotheses": "abc"},
        {"hypotheses": [""]},
        {"metadata": ["not an object"]},
        {"metadata": {"n": math.nan}},
        {"stability_window": -1},
        {"stability_window": True},
        {"stability_window": 10_001},
        {"allow_force": 1},
        {"validate_hypotheses": "yes"},
    ],
)
def test_a_declaration_outside_the_limits_is_refused(declare, wrong):
    with pytest.raises(BeliefError) as refused:
        declare(**({"hypotheses": ABC} | wrong))
    assert refused.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize("part", [7, None, "x" * 513, "\udc00"])
def test_an_ontology_is_four_short_texts(part):
    with pytest.raises(BeliefError) as refused:
        OntologyBundle("space", "v1", part, "v17")
    assert refused.value.details == {"field": "ontology.causal_graph_ref"}


def test_a_policy_allows_nothing_unless_told():
    assert SessionPolicy().to_dict() == {
        "validate_hypotheses": False,
        "allow_force": False,
        "stability_window": 0,
    }


# --- reading -----------------------------------------------------------------------------------


@pytest.mark.spec("seed001-snapshot")
def test_a_snapshot_holds_what_the_protocol_says(declare):
    driver = declare(ABC)
    driver.enter("gate", 1)
    assert driver.session.snapshot() == {
        "session_id": "s-1",
        "ontology": driver.session.ontology.to_dict(),
        "survivors": ["a", "b", "c"],
        "n_survivors": 3,
        "entropy_proxy": math.log2(3),
        "terminated": False,
        "active_obligation_id": "gate",
        "audit_head_event_id": "e-1",
    }


@pytest.mark.spec("seed001-sorted-survivors")
def test_survivors_are_emitted_sorted_by_code_point(declare):
    names = ["b", "\U0001f600", "Z", "é", "\uff5e", "a"]
    assert declare(names).session.snapshot()["survivors"] == sorted(names)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_entropy_is_zero_for_one_survivor_or_none(declare, n):
    driver = declare(["x", "y"][:n])
    assert driver.session.snapshot()["entropy_proxy"] == (1.0 if n == 2 else 0.0)


def test_the_audit_starts_strictly_after_the_event_named(lived):
    events = lived.session.audit()
    assert lived.session.audit(events[2].event_id) == events[3:]
    assert lived.session.audit(events[-1].event_id) == []


def test_an_audit_since_an_unknown_event_is_an_error(lived):
    refused = refusal(lived, "EVENT_NOT_FOUND", lived.session.audit, "nowhere")
    assert refused.details == {"event_id": "nowhere"}


def test_what_a_reader_does_to_an_event_does_not_reach_the_record(lived):
    before = lived.stored()
    for event in lived.session.audit():
        event.payload.clear()
        event.delta["eliminated"].append("forged")
    assert lived.stored() == before


def test_every_event_chains_to_the_one_before_in_hashes_and_survivors(lived):
    events = lived.session.audit()
    for earlier, later in pairwise(events):
        assert later.prev_event_hash == earlier.event_hash
        assert later.survivors_before_hash == earlier.survivors_after_hash
    assert lived.session.head_event_hash == events[-1].event_hash
    assert lived.session.head_event_id == events[-1].event_id
    assert lived.session.n_events == len(events)


# --- ELIMINATE ---------------------------------------------------------------------------------


@pytest.mark.spec("seed001-ELIMINATE")
def test_an_elimination_removes_the_claimed_survivors_and_reports_the_rest(declare):
    driver = declare([*"abcd"])
    driver.eliminate("o-1", ["a"])
    result = driver.eliminate("o-2", ["zz", "c", "b", "a", "b"], why={"because": [1]})
    assert (result.applied, result.ignored) == (["b", "c"], ["a", "zz"])
    assert driver.session.snapshot()["survivors"] == ["d"]
    assert result.event == driver.session.audit()[-1]
    assert result.event_id == result.event.event_id
    assert result.event.delta == {"eliminated": ["b", "c"]}
    assert result.event.payload == {
        "source_id": "adapter://sre",
        "observation_id": "o-2",
        "eliminated": ["zz", "c", "b", "a", "b"],
        "justification": {"because": [1]},
    }


def test_a_set_of_ids_is_recorded_in_sorted_order(declare):
    driver = declare(ABC)
    assert driver.eliminate("o", {"b", "a"}).event.payload["eliminated"] == ["a", "b"]


@pytest.mark.spec("seed001-idempotence")
def test_eliminating_again_under_another_observation_is_recorded_and_changes_nothing(declare):
    driver = declare(ABC)
    driver.eliminate("o-1", ["a"])
    before = driver.session.survivors_hash
    result = driver.eliminate("o-2", ["a"])
    assert (result.applied, result.ignored) == ([], ["a"])
    assert result.event.survivors_before_hash == result.event.survivors_after_hash == before
    assert driver.session.n_events == 3


def test_an_empty_elimination_is_recorded(declare):
    result = declare(ABC).eliminate("o", [])
    assert (result.applied, result.ignored, result.event.verb) == ([], [], "ELIMINATE")


@pytest.mark.spec("seed001-idempotence")
def test_a_repeated_observation_gets_the_first_answer_and_no_event(declare):
    driver = declare([*"abcd"])
    first = driver.eliminate("o", ["a", "b", "zz"], why={"x": 1, "y": 2})
    driver.eliminate("later", ["c"])
    before = driver.everything()
    again = driver.eliminate("o", {"zz", "b", "a"}, why={"y": 2, "x": 1}, expected_head="stale")
    assert (again.applied, again.ignored, again.event_id) == (["a", "b"], ["zz"], first.event_id)
    assert again.event is None
    assert driver.everything() == before


@pytest.mark.spec("seed001-idempotence")
@pytest.mark.parametrize(("ids", "why"), [(["b"], {}), (["a", "b"], {}), (["a"], {"x": 1})])
def test_a_repeated_observation_with_other_content_is_a_conflict(declare, ids, why):
    driver = declare(ABC)
    driver.eliminate("o", ["a"])
    refused = refusal(driver, "CONFLICT", driver.eliminate, "o", ids, why=why)
    assert refused.details == {"audit_event_id": "e-1"}


@pytest.mark.parametrize(
    ("first", "other"),
    [(("a::b", "c"), ("a", "b::c")), (("a", "bc"), ("ab", "c")), (("1:", "x"), ("1", ":x"))],
)
def test_observations_of_different_sources_never_collide(declare, first, other):
    driver = declare(ABC)
    driver.eliminate(first[1], ["a"], source_id=first[0])
    assert driver.eliminate(other[1], ["b"], source_id=other[0]).applied == ["b"]
    assert driver.session.core_state()["survivors"] == ["c"]


@pytest.mark.spec("B3")
def test_a_validating_session_refuses_unknown_ids_and_applies_nothing(declare):
    driver = declare(ABC, validate_hypotheses=True)
    refused = refusal(
        driver, "INVALID_HYPOTHESIS_ID", driver.eliminate, "o", ["a", "zz", "yy", "zz"]
    )
    assert refused.details == {"invalid": ["yy", "zz"], "n_invalid": 2}
    assert driver.eliminate("o", ["a"]).applied == ["a"]
    assert driver.eliminate("o-2", ["a"]).ignored == ["a"]


def test_a_refusal_names_at_most_a_hundred_unknown_ids(declare):
    driver = declare(ABC, validate_hypotheses=True)
    names = [f"x{number}" for number in range(150)]
    refused = refusal(driver, "INVALID_HYPOTHESIS_ID", driver.eliminate, "o", names)
    assert (len(refused.details["invalid"]), refused.details["n_invalid"]) == (100, 150)


def test_the_caller_s_objects_are_not_kept(declare):
    driver = declare(ABC)
    ids, why = ["a"], {"list": [1]}
    first = driver.eliminate("o", ids, why=why)
    ids.append("b")
    why["list"].append(2)
    first.applied.append("b")
    assert first.event.payload["eliminated"] == ["a"]
    assert first.event.payload["justification"] == {"list": [1]}
    assert first.event.delta == {"eliminated": ["a"]}
    assert driver.eliminate("o", ["a"], why={"list": [1]}).applied == ["a"]


# --- limits and optimistic concurrency ---------------------------------------------------------

NESTED = {}
for _ in range(limits.MAX_OPAQUE_DEPTH):
    NESTED = {"in": [NESTED]}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("", ["a"]), {}),
        (("x" * 513, ["a"]), {}),
        (("o", "a"), {}),
        (("o", None), {}),
        (("o", ["a", 7]), {}),
        (("o", ["\ud800"]), {}),
        (("o", ["a"]), {"source_id": None}),
        (("o", ["a"]), {"why": "because"}),
        (("o", ["a"]), {"why": {"n": math.inf}}),
        (("o", ["a"]), {"why": {"n": 2**53}}),
        (("o", ["a"]), {"why": {"o": object()}}),
        (("o", ["a"]), {"why": {1: "key"}}),
        (("o", ["a"]), {"why": {"t": "x" * limits.MAX_OPAQUE_BYTES}}),
        (("o", ["a"]), {"why": NESTED}),
        (("o", ["a"]), {"event_id": ""}),
        (("o", ["a"]), {"ts": "2026-02-09T10:00:00Z"}),
        (("o", ["a"]), {"ts": "2026-02-30T10:00:00.000000Z"}),
        (("o", ["a"]), {"ts": "2026-02-09T10:00:00.000000+01:00"}),
        (("o", ["a"]), {"ts": 1770631200.0}),
    ],
)
def test_a_malformed_elimination_changes_nothing(declare, args, kwargs):
    driver = declare(ABC)
    refusal(driver, "INVALID_REQUEST", driver.eliminate, *args, **kwargs)
    assert driver.eliminate("o", ["a"]).applied == ["a"]


def test_brackets_in_strings_do_not_count_as_depth(declare):
    driver = declare(ABC)
    assert driver.eliminate("o", ["a"], why={"t": "[{" * 100}).event is not None


def test_too_many_claimed_ids_are_refused(declare, monkeypatch):
    monkeypatch.setattr("kernel.belief.session.MAX_CLAIMED_IDS", 3)
    driver = declare(ABC)
    refusal(driver, "INVALID_REQUEST", driver.eliminate, "o", [*"wxyz"])
    assert driver.eliminate("o", [*"xyz"]).ignored == [*"xyz"]


def verbs(driver):
    return [
        lambda **extra: driver.eliminate("new", ["a"], **extra),
        lambda **extra: driver.enter("gate", 1, **extra),
        lambda **extra: driver.leave("gate", **extra),
        lambda **extra: driver.conclude("c", **extra),
        driver.end,
    ]


@pytest.mark.spec("seed001-if-match")
@pytest.mark.parametrize("which", range(5))
def test_another_head_than_expected_is_a_conflict_for_every_verb(declare, which):
    driver = declare(ABC)
    driver.eliminate("o", ["c"])
    call = verbs(driver)[which]
    refused = refusal(driver, "CONFLICT", call, expected_head="e-0")
    assert refused.details == {"expected_head": "e-0", "head_event_id": "e-1"}
    if which == 2:
        refusal(driver, "OBLIGATION_NOT_FOUND", call, expected_head="e-1")
    else:
        call(expected_head="e-1")
        assert driver.session.n_events == 3


@pytest.mark.parametrize("which", [0, 1, 3, 4])
def test_an_event_id_is_used_once(declare, which):
    driver = declare(ABC)
    refusal(driver, "CONFLICT", verbs(driver)[which], event_id="e-0")


@pytest.mark.parametrize("which", [1, 2, 3, 4])
def test_a_verb_with_a_bad_time_changes_nothing(declare, which):
    driver = declare(["a"])
    if which == 2:
        driver.enter("gate", 0)
    refusal(driver, "INVALID_REQUEST", verbs(driver)[which], ts="today")


# --- obligations -------------------------------------------------------------------------------


@pytest.mark.spec("seed001-ENTER_OBLIGATION")
def test_one_obligation_at_a_time(declare):
    driver = declare(ABC)
    event = driver.enter("gate", 2)
    assert event.payload == {"obligation_id": "gate", "min_total_eliminations": 2}
    refused = refusal(driver, "CONFLICT", driver.enter, "other", 1)
    assert refused.details == {"active_obligation_id": "gate"}
    refusal(driver, "CONFLICT", driver.enter, "gate", 1)


@pytest.mark.parametrize("least", [-1, 1.0, True, "1", None, limits.MAX_HYPOTHESES + 1])
def test_a_minimum_is_a_whole_number_within_the_limit(declare, least):
    driver = declare(ABC)
    refusal(driver, "INVALID_REQUEST", driver.enter, "gate", least)


@pytest.mark.spec("seed001-REQUEST_EXIT")
def test_an_exit_is_approved_once_enough_was_eliminated_since_entry(declare):
    driver = declare([*"abcdef"])
    driver.eliminate("before", ["a", "b"])
    driver.enter("gate", 2)
    driver.eliminate("o-1", ["c", "a", "zz"])
    refused = driver.leave("gate", {"try": 1})
    assert (refused.approved, refused.reason) == (False, "minimum eliminations not met")
    assert refused.event.payload == {
        "obligation_id": "gate",
        "context": {"try": 1},
        "approved": False,
        "reason": "minimum eliminations not met",
    }
    assert driver.session.snapshot()["active_obligation_id"] == "gate"
    driver.eliminate("o-2", ["d"])
    granted = driver.leave("gate")
    assert (granted.approved, granted.reason) == (True, "approved")
    assert granted.event.payload["context"] == {}
    assert driver.session.snapshot()["active_obligation_id"] is None
    assert driver.session.audit()[-1] == granted.event


def test_an_obligation_can_be_entered_again_and_counts_anew(declare):
    driver = declare(ABC)
    driver.enter("gate", 1)
    driver.eliminate("o-1", ["a"])
    driver.leave("gate")
    driver.enter("gate", 1)
    assert not driver.leave("gate").approved


def test_a_repeated_observation_counts_for_no_obligation(declare):
    driver = declare(ABC)
    driver.enter("gate", 2)
    driver.eliminate("o-1", ["a"])
    driver.eliminate("o-1", ["a"])
    assert not driver.leave("gate").approved


def test_leaving_what_is_not_active_is_not_found_and_not_recorded(declare):
    driver = declare(ABC)
    refusal(driver, "OBLIGATION_NOT_FOUND", driver.leave, "gate")
    driver.enter("gate", 1)
    refused = refusal(driver, "OBLIGATION_NOT_FOUND", driver.leave, "other")
    assert refused.details == {"obligation_id": "other"}


# --- conclusions -------------------------------------------------------------------------------


@pytest.mark.spec("seed001-DECLARE_CONCLUSION")
def test_a_conclusion_is_accepted_unless_an_obligation_is_open(declare):
    driver = declare(ABC)
    assert driver.conclude("c-1").reason == "accepted"
    driver.enter("gate", 0)
    refused = driver.conclude("c-2", {"k": "v"})
    assert (refused.approved, refused.reason) == (False, "active obligation blocks conclusion")
    assert refused.event.payload == {
        "conclusion_id": "c-2",
        "context": {"k": "v"},
        "accepted": False,
        "reason": "active obligation blocks conclusion",
    }
    driver.leave("gate")
    assert driver.conclude("c-3").approved
    assert driver.session.core_state()["conclusion_history"] == ["c-1", "c-3"]


# --- termination -------------------------------------------------------------------------------


@pytest.mark.spec("seed001-REQUEST_TERMINATION")
def test_termination_needs_exactly_one_survivor(declare):
    driver = declare(ABC)
    refused = driver.end()
    assert (refused.approved, refused.reason) == (False, "termination requires singleton survivor")
    driver.eliminate("o-1", ["a", "b"])
    granted = driver.end({"why": "done"})
    assert (granted.approved, granted.reason) == (True, "approved")
    assert granted.event.payload == {
        "context": {"why": "done"},
        "approved": True,
        "forced": False,
        "reason": "approved",
    }
    assert driver.session.terminated
    assert driver.session.snapshot()["terminated"] is True


def test_no_survivor_at_all_is_no_reason_to_end(declare):
    driver = declare(["a"])
    driver.eliminate("o", ["a"])
    assert driver.end().reason == "termination requires singleton survivor"


@pytest.mark.spec("B4")
@pytest.mark.parametrize("force", ["true", "false", 1, [True], None, False])
def test_force_is_json_true_and_nothing_else(declare, force):
    driver = declare(ABC, allow_force=True)
    assert not driver.end({"force": force}).approved
    assert not driver.session.terminated


@pytest.mark.spec("B4")
def test_force_is_off_unless_the_policy_allows_it(declare):
    verdict = declare(ABC).end({"force": True})
    assert (verdict.approved, verdict.event.payload["forced"]) == (False, False)


@pytest.mark.spec("B4")
def test_an_approved_force_is_audited_as_such(declare):
    verdict = declare(ABC, allow_force=True).end({"force": True})
    assert (verdict.approved, verdict.event.payload["forced"]) == (True, True)


def test_force_that_was_not_needed_is_not_recorded_as_forced(declare):
    verdict = declare(["a"], allow_force=True).end({"force": True})
    assert (verdict.approved, verdict.event.payload["forced"]) == (True, False)


def test_an_open_obligation_blocks_termination_even_with_force(declare):
    driver = declare(["a"], allow_force=True)
    driver.enter("gate", 0)
    verdict = driver.end({"force": True})
    assert (verdict.approved, verdict.reason) == (False, "active obligation blocks termination")


@pytest.mark.spec("CMBS-INV-2")
@pytest.mark.parametrize("context", [None, {"force": True}])
def test_a_stability_window_holds_termination_back_even_with_force(declare, context):
    driver = declare(["a"] if context is None else ABC, stability_window=2, allow_force=True)
    assert driver.end(context).reason == "conclusions are not stable"
    for conclusion in "xyy":
        assert not driver.end(context).approved
        driver.conclude(conclusion)
    assert driver.end(context).approved
    assert driver.session.terminated


@pytest.mark.spec("seed001-SESSION_TERMINATED")
@pytest.mark.parametrize("which", range(6))
def test_a_terminated_session_only_answers_questions(declare, which):
    driver = declare(["a"])
    driver.eliminate("o", ["zz"])
    driver.end()
    calls = [*verbs(driver), lambda: driver.eliminate("o", ["zz"])]
    refusal(driver, "SESSION_TERMINATED", calls[which])
    assert driver.session.snapshot()["survivors"] == ["a"]
    assert len(driver.session.audit()) == 3


def test_a_session_is_told_apart_only_by_its_id(declare):
    driver, other = declare(ABC), declare(ABC, session_id="s-2")
    assert driver.session.survivors_hash == other.session.survivors_hash
    assert driver.session.head_event_hash != other.session.head_event_hash


def test_times_may_be_written_with_an_offset_of_zero():
    session, event = BeliefSession.declare(
        "s",
        OntologyBundle("", "", "", ""),
        ABC,
        event_id="e",
        ts="2026-02-09T10:00:00.000001+00:00",
    )
    assert event.ts == "2026-02-09T10:00:00.000001+00:00"
    assert session.policy == SessionPolicy()
