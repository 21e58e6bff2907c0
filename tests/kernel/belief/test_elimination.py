import json
import math

import pytest

from kernel.belief.elimination import CMBSCore, ProbeResult

FORBIDDEN_WORDS = ("attempted", "successful", "failed", "pending", "executing", "running")
FORBIDDEN_METHODS = (
    "execute_probe",
    "run_probe",
    "schedule_probe",
    "select_next_probe",
    "get_next_probe",
    "recommend_probe",
)


def test_the_universe_is_copied_and_duplicates_collapse():
    hypothesis_ids = ["a", "b", "a"]
    core = CMBSCore(hypothesis_ids=hypothesis_ids, stability_window=0)
    hypothesis_ids.append("c")
    assert core.survivors == {"a", "b"}


def test_an_empty_universe_is_allowed_and_has_no_entropy():
    core = CMBSCore(iter(()))
    assert core.survivors == set()
    assert core.entropy == 0.0


@pytest.mark.spec("CMBS-INV-5a")
@pytest.mark.parametrize("n", [0, 1, 2, 3, 8])
def test_entropy_is_log2_of_the_survivors_and_zero_for_one_or_none(n):
    expected = math.log2(n) if n > 1 else 0.0
    assert CMBSCore(str(i) for i in range(n)).entropy == expected


def test_the_sets_that_properties_hand_out_are_copies():
    core = CMBSCore("ab")
    core.submit_probe_result("p", "o", set())
    core.enter_obligation("g")
    core.survivors.clear()
    core.serialize()["consumed_probes"].clear()
    core.gates()["obligations"].clear()
    assert core.survivors == {"a", "b"}
    assert core.serialize()["consumed_probes"] == ["p"]
    assert core.gates()["obligations"].keys() == {"g"}


@pytest.mark.spec("CMBS-INV-3")
def test_a_repeated_probe_is_refused_without_any_side_effect():
    core = CMBSCore("abc")
    core.enter_obligation("g", 2)
    assert core.submit_probe_result("p", "o", {"a"}) == ProbeResult(accepted=True, error=None)
    before = core.serialize()
    refused = core.submit_probe_result("p", "other", {"b"})
    assert refused == ProbeResult(accepted=False, error="duplicate probe")
    assert core.serialize() == before


@pytest.mark.spec("CMBS-INV-3")
def test_a_probe_id_stays_consumed_after_the_obligation_it_came_under():
    core = CMBSCore("abc")
    core.enter_obligation("g", 0)
    core.submit_probe_result("p", "o", {"a"})
    core.request_obligation_exit("g")
    core.enter_obligation("h", 0)
    assert not core.submit_probe_result("p", "o", {"b"}).accepted


def test_the_same_observable_and_content_under_another_probe_id_is_accepted():
    core = CMBSCore("abc")
    core.submit_probe_result("p", "o", {"a"})
    assert core.submit_probe_result("q", "o", {"a"}).accepted


@pytest.mark.parametrize("ids", [set(), {"zz"}, {"gone"}])
def test_a_probe_that_removes_nothing_is_consumed_and_leaves_no_history(ids):
    core = CMBSCore(["a", "gone"])
    core.submit_probe_result("first", "o", {"gone"})
    core.enter_obligation("g", 1)
    assert core.submit_probe_result("p", "o", ids).accepted
    assert core.serialize()["consumed_probes"] == ["first", "p"]
    assert len(core.serialize()["elimination_history"]) == 1
    assert core.request_obligation_exit("g").permitted is False


def test_history_holds_what_was_removed_not_what_was_claimed():
    core = CMBSCore("abc")
    core.submit_probe_result("p", "o", {"a", "zz"})
    removed = {"probe_id": "p", "observable_id": "o", "eliminated": ["a"]}
    assert core.serialize()["elimination_history"] == [removed]


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, iter])
def test_any_collection_of_ids_is_accepted(kind):
    core = CMBSCore("abc")
    assert core.submit_probe_result("p", "o", kind(["a", "b"])).accepted
    assert core.survivors == {"c"}


@pytest.mark.parametrize("wrong", [None, 7, [["unhashable"]]])
def test_a_call_that_fails_on_its_ids_does_not_consume_the_probe(wrong):
    core = CMBSCore("abc")
    with pytest.raises(TypeError):
        core.submit_probe_result("p", "o", wrong)
    assert core.submit_probe_result("p", "o", ["a"]).accepted


@pytest.mark.spec("CMBS-INV-6")
def test_an_obligation_counts_hypotheses_removed_since_it_was_entered():
    core = CMBSCore("abcdef")
    core.submit_probe_result("before", "o", {"a", "b", "c"})
    core.enter_obligation("g", 2)
    refused = core.request_obligation_exit("g")
    assert (refused.permitted, refused.error) == (False, None)
    assert core.is_obligation_active("g")
    core.submit_probe_result("one probe, two ids", "o", {"d", "e"})
    granted = core.request_obligation_exit("g")
    assert (granted.permitted, granted.error) == (True, None)
    assert not core.is_obligation_active("g")


@pytest.mark.spec("CMBS-INV-6")
def test_every_open_obligation_counts_every_removal():
    core = CMBSCore("abc")
    core.enter_obligation("g", 1)
    core.enter_obligation("h", 2)
    core.submit_probe_result("p", "o", {"a"})
    assert core.gates()["obligations"].keys() == {"g", "h"}
    assert core.request_obligation_exit("g").permitted
    assert not core.request_obligation_exit("h").permitted


@pytest.mark.spec("CMBS-INV-6")
@pytest.mark.parametrize("least", [0, -3])
def test_a_threshold_of_nothing_lets_go_at_once(least):
    core = CMBSCore("a")
    core.enter_obligation("g", least)
    assert core.request_obligation_exit("g").permitted


def test_an_obligation_asks_for_one_elimination_unless_told_otherwise():
    core = CMBSCore("ab")
    core.enter_obligation("g")
    assert not core.request_obligation_exit("g").permitted
    core.submit_probe_result("p", "o", {"a"})
    assert core.request_obligation_exit("g").permitted


def test_entering_an_open_obligation_again_resets_its_counter_and_threshold():
    core = CMBSCore("abc")
    core.enter_obligation("g", 5)
    core.submit_probe_result("p", "o", {"a"})
    core.enter_obligation("g", 1)
    assert not core.request_obligation_exit("g").permitted
    core.submit_probe_result("q", "o", {"b"})
    assert core.request_obligation_exit("g").permitted


def test_leaving_what_was_not_entered_is_an_error():
    result = CMBSCore("a").request_obligation_exit("g")
    assert (result.permitted, result.error) == (False, "obligation not active")


@pytest.mark.spec("CMBS-INV-2")
@pytest.mark.parametrize(
    ("window", "conclusions", "granted"),
    [
        (0, "", True),
        (0, "xy", True),
        (1, "", False),
        (1, "x", True),
        (2, "x", False),
        (2, "xx", True),
        (2, "xyx", False),
        (2, "yxx", True),
        (3, "xxyxx", False),
        (3, "yxxx", True),
    ],
)
def test_termination_needs_the_last_n_conclusions_to_be_equal(window, conclusions, granted):
    core = CMBSCore("ab", window)
    for conclusion in conclusions:
        core.declare_conclusion(conclusion)
    result = core.request_termination()
    assert (result.permitted, result.error) == (granted, None)
    assert core.is_terminated is granted


def test_termination_does_not_look_at_survivors_or_obligations():
    core = CMBSCore("abc")
    core.enter_obligation("g", 3)
    assert core.request_termination().permitted


def test_a_terminated_core_still_answers_and_may_refuse_a_second_termination():
    core = CMBSCore("abc", 1)
    core.declare_conclusion("x")
    core.request_termination()
    core = CMBSCore.deserialize(core.serialize() | {"stability_window": 2})
    core.declare_conclusion("y")
    assert core.submit_probe_result("p", "o", ["a"]).accepted
    core.enter_obligation("g")
    assert core.is_obligation_active("g")
    assert not core.request_termination().permitted
    assert core.is_terminated


def test_nothing_terminates_by_itself():
    core = CMBSCore("ab")
    core.submit_probe_result("p", "o", ["a"])
    core.submit_probe_result("q", "o", ["b"])
    assert core.survivors == set()
    assert not core.is_terminated


def test_asking_what_may_happen_changes_nothing():
    core = CMBSCore("ab", 1)
    core.enter_obligation("g", 0)
    before = core.serialize()
    assert core.may_exit("g")
    assert not core.may_exit("h")
    assert not core.may_terminate()
    assert core.serialize() == before


def test_a_core_comes_back_from_json_as_it_was():
    core = CMBSCore("abcd", 2)
    core.enter_obligation("g", 2)
    core.submit_probe_result("p", "o", {"a"})
    core.declare_conclusion("x")
    core.declare_conclusion("x")
    core.request_termination()
    state = json.loads(json.dumps(core.serialize()))
    assert set(state) == {
        "survivors",
        "consumed_probes",
        "stability_window",
        "conclusion_history",
        "terminated",
        "obligations",
        "obligation_elimination_counts",
        "elimination_history",
    }
    twin = CMBSCore.deserialize(state)
    assert vars(twin) == vars(core)
    twin.submit_probe_result("q", "o", {"b"})
    assert twin.request_obligation_exit("g").permitted
    assert core.survivors == {"b", "c", "d"}


@pytest.mark.parametrize("missing", sorted(CMBSCore("a").serialize()))
def test_a_state_with_a_part_missing_is_not_deserialized(missing):
    state = CMBSCore("a").serialize()
    del state[missing]
    with pytest.raises(KeyError):
        CMBSCore.deserialize(state)


@pytest.mark.parametrize("word", FORBIDDEN_WORDS)
def test_the_core_has_no_word_for_what_is_under_way(word):
    names = [*dir(CMBSCore), *vars(CMBSCore("a"))]
    assert [name for name in names if word in name.casefold()] == []


def test_the_core_chooses_and_performs_no_probe():
    assert [name for name in FORBIDDEN_METHODS if hasattr(CMBSCore, name)] == []
