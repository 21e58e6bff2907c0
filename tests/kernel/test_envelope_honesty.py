"""An envelope says when, what it writes, and whose epoch it closes."""

import pytest

from tests.kernel.build import adapt, code_of, create, effect, envelope, memory_ledger, submit
from tests.kernel.every import states


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    assert code_of(submit(ledger, create("n", "Note"))) is None
    return ledger


@pytest.mark.spec("§2.1")
@pytest.mark.parametrize(
    "stated",
    [
        "then",
        "2026-02-30T00:00:00Z",
        "2026-02-01",
        "2026-02-01T00:00:00",
        "2026-02-01T00:00:00+02:00",
        "1969-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z",
        "2026-02-01T00:00:00." + "0" * 400 + "Z",
    ],
)
def test_recorded_at_is_a_time_in_utc(ledger, stated):
    result = submit(ledger, adapt("n", a=1) | {"recorded_at": stated})
    assert (code_of(result), result.rejection.field) == ("envelope_schema_invalid", "recorded_at")
    for good in ("2026-02-01T00:00:00Z", "2026-02-01T00:00:00.123456+00:00"):
        assert code_of(submit(ledger, adapt("n", a=1) | {"recorded_at": good})) is None


@pytest.mark.spec("§2.6", "§2.4")
def test_what_writes_names_what_it_writes(ledger):
    result = submit(ledger, adapt("n", a=1) | {"write_set_refs": []})
    assert (result.rejection.check, code_of(result)) == ("V4", "envelope_scope_write_set_empty")
    observed = envelope("search_run_record", [effect("receipt_only", query="q")])
    assert observed["write_set_refs"] == []
    assert code_of(submit(ledger, observed)) is None


@pytest.mark.spec("K22")
@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("session_id", {"session_id": "another"}),
        ("session_id", {"session_id": None}),
        ("actor", {"actor": "system"}),
    ],
)
def test_an_epoch_is_closed_by_whoever_opened_it(ledger, field, changes):
    mine = {"epoch_id": "e", "session_id": "mine"}
    assert code_of(submit(ledger, states("epoch_open", "epoch_opened", **mine))) is None
    foreign = states("epoch_close", "epoch_closed", **{**mine, **changes})
    result = submit(ledger, foreign, submitter="orchestrator")
    assert (code_of(result), result.rejection.field) == ("envelope_epoch_of_another", field)
    assert code_of(submit(ledger, states("epoch_close", "epoch_closed", **mine))) is None
