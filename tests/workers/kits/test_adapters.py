"""Adapters turn outcomes into eliminations, once for each action."""

import pytest

from kernel.belief.adapter import Action, AdapterActionContext, EliminateMessage
from kernel.belief.errors import BeliefInputError
from tests.kernel.belief.test_provider import TableProvider
from workers.kits.adapters import ITBenchAdapter, ProviderAdapter, TwentyQAdapter, adapter_of
from workers.kits.kit import bundled_kit
from workers.kits.oracles import ITBenchOracle, TwentyQOracle

ANIMALS = bundled_kit("20q_4")
INCIDENT = bundled_kit("itb_min_4")


def snapshot(*survivors: str) -> dict[str, object]:
    return {"survivors": list(survivors), "n_survivors": len(survivors)}


def listed(adapter, *survivors: str) -> list[str]:
    return [action.action_id for action in adapter.list_actions(snapshot(*survivors))]


def test_the_adapter_follows_the_kind_of_the_kit():
    assert isinstance(adapter_of(ANIMALS), TwentyQAdapter)
    assert isinstance(adapter_of(INCIDENT), ITBenchAdapter)
    assert isinstance(adapter_of(TableProvider({})), ProviderAdapter)


def test_actions_stand_in_the_kits_order_each_once_and_none_without_effect():
    adapter = TwentyQAdapter(ANIMALS)
    everything = ANIMALS.hypothesis_ids()
    assert listed(adapter, *everything) == ["is_mammal", "is_aquatic", "is_flying"]
    adapter.apply_action("is_mammal", snapshot(*everything))
    assert listed(adapter, *everything) == ["is_aquatic", "is_flying"]
    assert listed(adapter) == []
    context = ITBenchAdapter(INCIDENT)
    assert "check_deploy_version" not in listed(context, "db_connection_exhaustion", "disk_full")
    with pytest.raises(BeliefInputError, match="is_mammal"):
        adapter.apply_action("is_mammal", snapshot(*everything))


def test_an_answer_strikes_the_survivors_that_it_does_not_keep():
    adapter = TwentyQAdapter(ANIMALS)
    context = adapter.apply_action("is_mammal", snapshot("shark", "eagle", "dog"))
    assert adapter.observe(context, " YES ") == [
        EliminateMessage(
            "adapter://twenty_questions",
            "is_mammal:yes",
            ("eagle", "shark"),
            {"action_id": "is_mammal", "question": "Is it a mammal?", "outcome": "yes"},
        )
    ]


def test_a_finding_strikes_its_row_whatever_survives():
    adapter = ITBenchAdapter(INCIDENT)
    context = adapter.apply_action("check_disk_usage", snapshot("disk_full"))
    assert adapter.observe(context, "full") == [
        EliminateMessage(
            "adapter://itbench",
            "check_disk_usage:full",
            ("replication_lag", "bad_deploy"),
            {"probe": "check_disk_usage", "outcome": "full"},
        )
    ]


def test_any_provider_has_an_adapter():
    adapter = ProviderAdapter(TableProvider({"p": {"b": True, "a": True}, "q": {"z": True}}))
    assert listed(adapter, "a") == ["p", "q"]
    (message,) = adapter.observe(adapter.apply_action("p", snapshot("a")), "High")
    assert message.body() == {
        "source_id": "provider://table",
        "observation_id": "p:High",
        "eliminated": ["a", "b"],
        "justification": {"probe": "p", "outcome": "High"},
    }
    with pytest.raises(BeliefInputError) as caught:
        adapter.observe(adapter.apply_action("q", snapshot("a")), "x")
    assert caught.value.code == "provider_hypothesis_unknown"


@pytest.mark.parametrize(
    "adapter", [TwentyQAdapter(ANIMALS), ProviderAdapter(TableProvider({"p": {}}))]
)
@pytest.mark.parametrize("raw", [None, 1, True, b"yes"])
def test_an_outcome_is_a_text(adapter, raw):
    with pytest.raises(BeliefInputError) as caught:
        adapter.observe(AdapterActionContext("is_mammal", snapshot()), raw)
    assert caught.value.code == "outcome_not_text"


def test_an_outcome_is_one_of_the_kits():
    with pytest.raises(BeliefInputError) as caught:
        TwentyQAdapter(ANIMALS).observe(AdapterActionContext("is_mammal", snapshot()), "perhaps")
    assert caught.value.code == "response_unknown"


def test_the_oracle_answers_yes_where_the_kit_keeps_the_secret():
    oracle = TwentyQOracle(ANIMALS)
    answers = [oracle.answer("eagle", Action(name, "")) for name in ANIMALS.probe_ids()]
    assert answers == ["no", "no", "yes"]
    with pytest.raises(BeliefInputError, match="unicorn"):
        oracle.knowing("unicorn")


@pytest.mark.parametrize(
    ("scenario", "code"),
    [
        ({"check_everything": "ok"}, "probe_unknown"),
        ({"check_disk_usage": "melted"}, "response_unknown"),
    ],
)
def test_a_scenario_names_what_the_kit_has(scenario, code):
    with pytest.raises(BeliefInputError) as caught:
        ITBenchOracle(INCIDENT, scenario)
    assert caught.value.code == code


def test_a_scenario_that_is_silent_is_no_answer():
    oracle = ITBenchOracle(INCIDENT, {"check_disk_usage": "ok"})
    assert oracle.answer(Action("check_disk_usage", "")) == "ok"
    with pytest.raises(BeliefInputError) as caught:
        oracle.answer(Action("check_deploy_version", ""))
    assert caught.value.code == "scenario_invalid"
