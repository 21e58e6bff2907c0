"""`rotulus binding`, against a gateway in the test's process."""

import pytest

from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.test_queues import OneRecord
from workers.cli import gateway_call

pytestmark = pytest.mark.spec("004 §13.1")

MEANS = ["--target", "court_disposition_observation", "--corpus", "c"]


@pytest.fixture(autouse=True)
def record(monkeypatch) -> OneRecord:
    record = OneRecord()
    monkeypatch.setattr(gateway_call, "GatewayClient", record.client)
    return record


def test_a_binding_is_created_changed_disabled_enabled_listed_and_shown():
    orders = ["--include", "source_kind=docket", "--exclude", "source_path=a/**"]
    assert printed("binding", "create", "b1", *orders, *MEANS, "--json")["validation_result"]
    printed("binding", "update", "b1", "--priority", "7", "--title", "Orders", "--json")
    printed("binding", "disable", "b1", "--json")
    _, row = rotulus("binding", "list").stdout.splitlines()
    assert row.split()[:3] == ["b1", "disabled", "2"]
    printed("binding", "enable", "b1", "--json")
    shown = printed("binding", "show", "b1", "--json")
    assert (shown["state"], shown["binding_generation_id"]) == ("active", "3")
    assert shown["binding_snapshot"] == {
        "selector_list": {
            "include": [{"kind": "source_kind", "value": "docket"}],
            "exclude": [{"kind": "source_path", "value": "a/**"}],
        },
        "target_kind": "court_disposition_observation",
        "corpus_id": "c",
        "priority": 7,
    }
    first = printed("binding", "show", "b1", "--generation", "1", "--json")
    assert (first["generation_state"], first["superseded_by"]) == ("superseded", "2")
    page = printed("binding", "list", "--limit", "1", "--json")
    assert [row["binding_id"] for row in page["bindings"]] == ["b1"]


def test_what_runs_as_critical_names_who_approved_of_it():
    critical = ["--include", "court_id=ca9", *MEANS, "--capacity", "critical"]
    result = rotulus("binding", "create", "b1", *critical)
    assert result.exit_code == 1
    assert "binding_critical_approval_missing" in result.stderr
    approved = ["--approved-by", "ada", "--reason", "a deadline"]
    assert printed("binding", "create", "b1", *critical, *approved, "--json")["validation_result"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "b1", *MEANS], "binding_selector_list_empty"),
        (["create", "b1", "--include", "size_band=s", *MEANS], "binding_size_band_deferred_v17"),
        (["create", "b1", "--include", "source_path=[", *MEANS], "binding_glob_invalid"),
        (["create", "b1", "--include", "pages=9", *MEANS], "binding_predicate_not_supported_v16"),
        (["create", "b1", "--include", "court_id=ca9"], "invalid_request"),
        (["disable", "b1"], "intent_invalid"),
        (["enable", "b1"], "intent_invalid"),
        (["update", "b1", "--priority", "1"], "intent_invalid"),
        (["show", "b1"], "not_found"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(arguments, said):
    result = rotulus("binding", *arguments)
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_selector_is_a_kind_and_a_value():
    result = rotulus("binding", "create", "b1", "--include", "docket", *MEANS)
    assert result.exit_code == 2
    assert "KIND=VALUE" in result.stderr
